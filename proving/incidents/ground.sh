#!/usr/bin/env bash
# limits: fetch 120 s, prove 900 s
# What operators meet, played against the daemon: what the verdict (page and top), explain,
# readyz, a metric and an alert say during it, and that all is well before and after it.
#   make prove GROUND=incidents
#   INCIDENT=disk make prove GROUND=incidents   those whose name has this in it
# shellcheck source=../lib.sh
source "$PROVE_LIB"

fetch() {
  command -v prometheus >/dev/null || absent incidents "needs the Debian package prometheus"
  go build -o /dev/null .
}

prove() {
  local way
  # A disk that is full is mounted, which needs a namespace.
  for way in "unshare --mount" "unshare --user --map-root-user --mount" ""; do
    # shellcheck disable=SC2086
    [[ -z $way ]] || ! $way true 2>/dev/null || break
  done
  [[ -z $way ]] || export INCIDENTS_APART=1
  INCIDENTS_RULES=$(realpath ../../dashboards/rules/admitd.rules.yml)
  export INCIDENTS_RULES
  go build -o "$PROVE_RUN/incidents" .
  # shellcheck disable=SC2086
  PROVE_CELL_S=840 cell incidents "$(prometheus --version 2>&1 | sed -n 's/^prometheus, version \([^ ]*\).*/Prometheus \1/p')" $way "$PROVE_RUN/incidents" -incident "${INCIDENT:-}"
}

main "$@"
