#!/usr/bin/env bash
# Plays the fault matrix: one line for each row and protocol.
#   scripts/faults.sh                                     all, 20 s at random
#   scripts/faults.sh -row killed -protocol http,pulsar   some
#   scripts/faults.sh -row random -random 10m -seed 7     long
# Everything listens on 127.0.0.1 and ends with the run. Where the machine allows
# it, that is a 127.0.0.1 of its own: in namespaces for the network and for mounts,
# which rows with lost packets or full disks need.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
dir=$(mktemp -d /tmp/faults-XXXXXX)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/admitd" ./cmd/admitd
(cd proving/faults && go build -o "$dir/faults" .)
export ADMITD=$dir/admitd
for way in "unshare --net --mount" "unshare --user --map-root-user --net --mount"; do
  # shellcheck disable=SC2086
  if $way ip link set lo up 2>/dev/null; then
    export FAULTS_APART=1
    $way bash -c 'ip link set lo up && exec "$@"' bash "$dir/faults" "$@"
    exit
  fi
done
"$dir/faults" "$@"
