#!/usr/bin/env bash
# limits: fetch 120 s, prove 1500 s
# The fault matrix, one cell for each protocol, with models for backends.
# shellcheck source=../lib.sh
source "$PROVE_LIB"

fetch() { (cd ../.. && go mod download) && go mod download; }

prove() {
  local protocol
  for protocol in http mongodb postgres pulsar; do
    PROVE_CELL_S=400 cell "$protocol" "model of the backend" bash -c \
      'set -o pipefail; ../../scripts/faults.sh -protocol "$1" -random 10s | sed "s/ok $1, /ok /"' bash "$protocol"
  done
}

main "$@"
