#!/usr/bin/env bash
# What callers that give up do to a backend behind admitd, with the binary of
# this tree: share of the capacity served in time, and work inside the backend.
# Arguments go to the program: -limits default,aimd,gradient2 -for 20s -deadline
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/admitd" ./cmd/admitd
(cd bench && go build -o "$bin/patience" ./patience)
"$bin/patience" -admitd "$bin/admitd" "$@"
