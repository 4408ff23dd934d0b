#!/usr/bin/env bash
# Compares the MongoDB and PostgreSQL gates of this tree with HAProxy in TCP mode
# and with a Go proxy that only copies, before a model backend, side by side: the
# tables of docs/performance.md. Arguments go to the program: -conns 8,64,512
# -for 1s -rounds 5 -idle 10000 -settle 130s -protocols mongodb -procs 1, -other BINARY (another
# build of the gate).
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/admitd" ./cmd/admitd
(cd bench && go build -o "$bin/copyproxy" ./copyproxy && go build -o "$bin/wire" ./wire)
ulimit -n "$(ulimit -Hn)"
"$bin/wire" -admitd "$bin/admitd" -copyproxy "$bin/copyproxy" "$@"
