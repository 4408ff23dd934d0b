#!/usr/bin/env bash
# Compares the gate's decision with other admission libraries, side by side in
# one run: rounds are interleaved, so that other work on the machine strikes all
# alike. -rounds 20 -time 50ms; the raw lines go to bench/decision/decision.txt.
set -euo pipefail
cd "$(dirname "$0")/../bench/decision"

rounds=20 time=50ms
while (($#)); do
	case $1 in
	-rounds) rounds=$2 ;;
	-time) time=$2 ;;
	*) echo "usage: $0 [-rounds n] [-time duration]" >&2; exit 2 ;;
	esac
	shift 2
done

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go test -c -o "$bin/decision.test" .
go build -o "$bin/report" ./report
: >decision.txt
for ((i = 1; i <= rounds; i++)); do
	printf '\rround %d of %d' "$i" "$rounds" >&2
	"$bin/decision.test" -test.run '^$' -test.bench . -test.benchmem -test.cpu 1,2 -test.benchtime "$time" >>decision.txt
done
echo >&2
"$bin/report" <decision.txt
