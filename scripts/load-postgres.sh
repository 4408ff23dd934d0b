#!/usr/bin/env bash
# Two loads that a database sheds nothing of, directly and through the gate: many
# clients that update one row, and short lookups beside scans, in a partition each.
# usage: scripts/load-postgres.sh [SECONDS]     (of each measurement; default 8)
# Needs the Debian package postgresql. Look at ratios: clients and server share
# the machine.
set -euo pipefail
seconds=${1:-8}
cd "$(dirname "$0")/.."
source scripts/postgres-cluster.sh
gate=$((port + 1)) admin=$((port + 2))
cluster -c shared_buffers=256MB -c max_parallel_workers_per_gather=0
"$bin/pgbench" -q -i -s 5 -h 127.0.0.1 -p "$port" -U app app 2>/dev/null
psql -d app -c 'create table hot (id int primary key, n int); insert into hot values (1, 0); alter table hot owner to app'

gate "$gate" <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error }
ingresses:
  - name: pg
    protocol: postgres
    listen: 127.0.0.1:$gate
    backend: 127.0.0.1:$port
    objective: 100ms
    partitions:
      by: application
      default: { limit: { algorithm: ${ALGORITHM:-knee} }, queue: { depth: 1000, maxWait: 10s } }
      named:
        - { name: scans, match: scans, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 100, maxWait: 1m } }
        - { name: fixed, match: fixed, limit: { algorithm: fixed, limit: ${FIXED:-4} }, queue: { depth: 1000, maxWait: 10s } }
EOF

# tail_of: what the logs of pgbench say: transactions, those within the objective, p50, p99
tail_of() {
  cat "$dir"/lat.* 2>/dev/null | awk '$3 ~ /^[0-9]+$/ {print $3}' | sort -n | awk -v s="$seconds" '{v[NR]=$1; if ($1 <= 100000) good++} END {
    if (!NR) {print "nothing"; exit}; printf "%6.0f a second, %6.0f within 100 ms, p50 %.1f ms, p99 %.1f ms", NR/s, good/s, v[int(NR/2)+1]/1000, v[int(NR*0.99)+(NR<100)]/1000 }'
  rm -f "$dir"/lat.*
}

# run PORT ARGS…: pgbench, and what its logs say
run() {
  local p=$1
  shift
  rm -f "$dir"/lat.*
  "$bin/pgbench" -n -h 127.0.0.1 -p "$p" -U app -T "$seconds" -j 2 -l --log-prefix="$dir/lat" "$@" app >"$dir/bench.log" 2>&1 || true
  tail_of
}

echo "all update one row"
echo 'update hot set n = n + 1 where id = 1;' >"$dir/hot.sql"
for clients in ${CLIENTS:-1 4 16 64 200}; do
  printf '  %3d clients  direct            %s\n' "$clients" "$(run "$port" -c "$clients" -f "$dir/hot.sql")"
  printf '  %3d clients  gate, %-10s  %s\n' "$clients" "${ALGORITHM:-knee}" "$(run "$gate" -c "$clients" -f "$dir/hot.sql")"
  printf '  %3d clients  gate, %-10s  %s\n' "$clients" "fixed ${FIXED:-4}" "$(PGAPPNAME=fixed run "$gate" -c "$clients" -f "$dir/hot.sql")"
done

# beside APPLICATION PORT ARGS…: lookups while eight clients scan
beside() {
  local p=$2 hog
  PGAPPNAME=$1 "$bin/pgbench" -n -h 127.0.0.1 -p "$p" -U app -T $((seconds + 2)) -j 1 -c 8 -f "$dir/scan.sql" app >"$dir/scan.log" 2>&1 &
  hog=$!
  sleep 1
  shift 2
  run "$p" "$@"
  wait "$hog" || true
  sed -n 's/^tps = \([0-9.]*\).*/, \1 scans a second/p' "$dir/scan.log" | tr -d '\n'
}

echo 'select sum(abalance) from pgbench_accounts;' >"$dir/scan.sql"
for load in "-c 4" "-c 8 -R ${RATE:-1500}"; do
  echo "lookups (pgbench -S $load) beside eight clients that scan"
  for p in "direct:$port" "gate:$gate"; do
    # shellcheck disable=SC2086 # words on purpose
    printf '  %-7s alone            %s\n' "${p%:*}" "$(run "${p#*:}" -S $load)"
  done
  # shellcheck disable=SC2086
  printf '  %-7s beside           %s\n' direct "$(beside scans "$port" -S $load)"
  # shellcheck disable=SC2086
  printf '  %-7s beside, one scan %s\n' gate "$(beside scans "$gate" -S $load)"
done
