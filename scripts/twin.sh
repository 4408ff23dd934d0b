#!/usr/bin/env bash
# Plays scenarios live and in virtual time, and writes the difference as a table.
#
#   scripts/twin.sh > bin/lab-live.md            five scenarios over HTTP, two over the others: 20 minutes
#   scripts/twin.sh postgres                     one protocol
#
# Wants a quiet machine: a busy one makes live runs void, and the table says so. It is
# of the machine that it was made on, so none lies in docs.
set -uo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/admitd" ./cmd/admitd || exit 1
protocols=("$@")
((${#protocols[@]})) || protocols=(http mongodb postgres)

cat <<'HEAD'
# Live beside virtual time

Written by `scripts/twin.sh`. Each scenario is played twice with the same arrivals by `admitd lab twin`: live, over sockets, through a gate with
the default limit before the scenario's backend, and in virtual time. Goodput is a share of the healthy capacity, the limit the mean over the
window. Wanted: goodput within 0.05, the limit within 20 %.

| protocol | scenario | window | goodput live | virtual | limit live | virtual | p99 live | virtual |
|---|---|---|---|---|---|---|---|---|
HEAD
play() { # PROTOCOL SCENARIO VARIANT
  local out status
  out=$("$bin/admitd" lab twin --quiet --protocol "$1" --scenario "$2" --variant "$3" 2>"$bin/err")
  status=$?
  if grep -q void "$bin/err"; then
    echo "| $1 | $2, $3 | void: the machine was too busy | | | | | | |"
    return
  fi
  ((status <= 1)) || { cat "$bin/err" >&2; return; }
  awk -v p="$1" -v s="$2, $3" '
    NF >= 5 { m = $(NF-3); w = $1; for (i = 2; i < NF-3; i++) w = w " " $i; l[w, m] = $(NF-2); v[w, m] = $(NF-1); if (m == "goodput") order[++n] = w }
    END { for (i = 1; i <= n; i++) { w = order[i]
      printf "| %s | %s | %s | %s | %s | %.1f | %.1f | %d ms | %d ms |\n", p, s, w, l[w,"goodput"], v[w,"goodput"], l[w,"limit"], v[w,"limit"], 1000*l[w,"p99"], 1000*v[w,"p99"] } }' <<<"$out"
}
for protocol in "${protocols[@]}"; do
  play "$protocol" steady 2x
  play "$protocol" slower '÷2.5 / the backend continues'
  [[ $protocol == http ]] || continue
  play "$protocol" scaling '8 to 16 at 2x'
  play "$protocol" impatient '200ms / the backend continues / told not'
  play "$protocol" shifts '+40ms / 0.7x'
done
