#!/bin/sh
# Stops the service when the package goes, and not when it is upgraded: deb says
# "remove", rpm says 0.
set -e
case "${1:-}" in
  remove | 0)
    if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now admitd.service || true
    fi
    ;;
esac
