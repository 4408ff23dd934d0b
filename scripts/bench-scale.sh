#!/usr/bin/env bash
# Shows what the MongoDB gate of this tree costs when connections, partitions,
# documents or ingresses grow: tables, and the pictures of docs/performance.
# Arguments go to the program: -only gates -for 700ms -rounds 3 -connections 100000
# -partitions 100000. As many connections are opened as descriptors allow (ulimit -n).
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/admitd" ./cmd/admitd
(cd bench && go build -o "$bin/scale" ./scale)
ulimit -n "$(ulimit -Hn)"
mkdir -p docs/performance
"$bin/scale" -admitd "$bin/admitd" -pictures docs/performance "$@"
