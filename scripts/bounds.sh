#!/usr/bin/env bash
# Measures what abuse costs the real binary in memory and goroutines, on
# loopback: the table of docs/limits.md. Arguments go to the program: -keys
# 1000000 -idle 10000 -loris 2000 -burst 1000 -only garbage.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$bin/admitd" ./cmd/admitd
(cd bench/bounds && go build -o "$bin/bounds" .)
ulimit -n "$(ulimit -Hn)"
"$bin/bounds" -admitd "$bin/admitd" "$@"
