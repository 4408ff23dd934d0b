#!/bin/sh
# Makes the admin token that the unit gives to admitd, unless there is one. The
# service is left to the operator: it is not started before it is configured.
set -e
token="${DPKG_ROOT:-}/etc/admitd/token"
if [ ! -s "$token" ]; then
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$token")
fi
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
