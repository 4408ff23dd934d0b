#!/usr/bin/env bash
# What open pages and terminals cost the traffic, with the binary of this tree:
# p99 with five pages and three `top` over p99 with none, by turns in one run.
# Arguments go to the program: -partitions 20000 -pages 5 -tops 3 -turns 15
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/admitd" ./cmd/admitd
(cd bench && go build -o "$bin/lookers" ./lookers)
"$bin/lookers" -admitd "$bin/admitd" "$@"
