#!/usr/bin/env bash
# limits: fetch 120 s, prove 900 s
# What admitd tells beside what was: counters, status, spans, verdicts, and what a real
# Prometheus makes of the boards and rules.
# shellcheck source=../lib.sh
source "$PROVE_LIB"

fetch() {
  command -v prometheus >/dev/null || absent truth "needs the Debian package prometheus"
  go mod download
}

prove() {
  local version
  version=$(prometheus --version 2>&1 | sed -n 's/^prometheus, version \([^ ]*\).*/\1/p')
  go build -o "$PROVE_RUN/truth" .
  PROVE_CELL_S=800 cell numbers "Prometheus $version" "$PROVE_RUN/truth" -admitd "$PROVE_ADMITD" -figures "$PROVE_OUT/truth.figures.tsv"
}

main "$@"
