#!/usr/bin/env bash
# Plays the fault matrix: one line for each row and protocol.
#   scripts/faults.sh                                     all, 20 s at random
#   scripts/faults.sh -row killed -protocol http,pulsar   some
#   scripts/faults.sh -row random -random 10m -seed 7     long
# Everything listens on 127.0.0.1 and ends with the run.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d /tmp/faults-XXXXXX)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/admitd" ./cmd/admitd
(cd proving/faults && go build -o "$dir/faults" .)
ADMITD=$dir/admitd "$dir/faults" "$@"
