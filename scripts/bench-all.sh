#!/usr/bin/env bash
# Runs every comparison with its peers and writes what each prints into
# docs/performance.md: `make bench-all`. It fails nothing: what a comparison
# cannot do, it says there. Each is short; about 24 minutes in all.
# usage: scripts/bench-all.sh [NAME…]     decision http http-tls http2 wire postgres pooler scale lookers patience
set -uo pipefail
cd "$(dirname "$0")/.."

declare -A command=(
  [decision]="scripts/bench-decision.sh -rounds 8 -time 20ms"
  [http]="scripts/bench-http.sh -for 1s -rounds 4"
  [http-tls]="scripts/bench-http.sh -for 1s -rounds 3 -tls"
  [http2]="scripts/bench-http.sh -for 1s -rounds 4 -streams 8"
  [wire]="scripts/bench-wire.sh -for 700ms -rounds 5"
  [postgres]="scripts/bench-postgres.sh 2"
  [pooler]="scripts/bench-pooler.sh -warm 2s -for 3s -turns 2"
  [scale]="scripts/bench-scale.sh -for 700ms -rounds 3"
  [lookers]="scripts/lookers.sh -turns 6"
  [patience]="scripts/patience.sh -for 15s"
)
names=("$@")
((${#names[@]})) || names=(decision http http-tls http2 wire postgres pooler scale lookers patience)

tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
(cd bench && go build -o "$tables/tables" ./tables) || exit 1
for name in "${names[@]}"; do
  [[ -n ${command[$name]:-} ]] || { echo "no comparison is called $name: ${!command[*]}" >&2; exit 2; }
  echo "$name: ${command[$name]}" >&2
  # shellcheck disable=SC2086 # the words of a command
  bound=240
  [[ $name == pooler ]] && bound=720
  timeout "$bound" ${command[$name]} >"$tables/out" 2>"$tables/err"
  status=$?
  case $status in
    0) ;;
    124) echo "It was stopped after $((bound / 60)) minutes." >>"$tables/out" ;;
    *) { echo "It ended with $status:"; tail -n 5 "$tables/err"; } >>"$tables/out" ;;
  esac
  "$tables/tables" -name "$name" -command "${command[$name]}" <"$tables/out" || exit 1
done
