#!/usr/bin/env bash
# Measures the PostgreSQL gate beside the server, a copying proxy and pgbouncer in
# session mode, in one run on one machine: look at ratios, not at figures.
# usage: scripts/bench-postgres.sh [SECONDS]     (of each measurement; default 5)
# Needs the Debian packages postgresql and pgbouncer; the latter may be missing.
set -euo pipefail
seconds=${1:-5}
cd "$(dirname "$0")/.."
source scripts/postgres-cluster.sh
copy=$((port + 1)) bouncer=$((port + 2)) gate=$((port + 3)) admin=$((port + 4))
cluster -c shared_buffers=256MB
"$bin/pgbench" -q -i -s 5 -h 127.0.0.1 -p "$port" -U app app 2>/dev/null

gate "$gate" <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error }
ingresses:
  - { name: pg, protocol: postgres, listen: "127.0.0.1:$gate", backend: "127.0.0.1:$port", objective: ${OBJECTIVE:-100ms},
      partitions: { by: application, default: { limit: { algorithm: ${ALGORITHM:-knee} }, queue: { depth: 1000, maxWait: 10s } } },
      postgres: { idleInTransaction: ${IDLE:-release} } }
EOF
proxies=(direct:$port)
(cd bench && go build -o "$dir/copyproxy" ./copyproxy)
"$dir/copyproxy" "127.0.0.1:$copy" "127.0.0.1:$port" &
pids+=($!) proxies+=(copy:$copy) copypid=$!
if command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]]; then
  printf '[databases]\napp = host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nauth_type=any\npool_mode=session\nmax_client_conn=400\ndefault_pool_size=300\nunix_socket_dir=\n' "$port" "$bouncer" >"$dir/bouncer.ini"
  sed -i 's/^app = .*/app = host=127.0.0.1 port='"$port"' user=app/' "$dir/bouncer.ini"
  as "$(command -v pgbouncer || echo /usr/sbin/pgbouncer) -q $dir/bouncer.ini" >"$dir/bouncer.log" 2>&1 </dev/null &
  pids+=($!) proxies+=(pgbouncer:$bouncer)
fi
proxies+=(gate:$gate)
sleep 1

# bench PORT ARGS…: transactions per second
bench() {
  local p=$1
  shift
  "$bin/pgbench" -n -h 127.0.0.1 -p "$p" -U app -T "$seconds" -j 2 "$@" app 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
# tail_of: what pgbench's logs say
tail_of() {
  cat "$dir"/lat.* 2>/dev/null | awk '$3 ~ /^[0-9]+$/ {print $3}' | sort -n | awk -v s="$seconds" '{v[NR]=$1; if ($1 <= 100000) good++} END {
    if (!NR) {print "nothing"; exit}; printf "%.0f tps, %.0f within 100 ms, p99 %.0f ms", NR/s, good/s, v[int(NR*0.99)+(NR<100)]/1000 }'
  rm -f "$dir"/lat.*
}

bouncerpid=$(pgrep -f "pgbouncer -q $dir/bouncer.ini" | tail -1 || true)
[[ -n $bouncerpid ]] && pids+=("$bouncerpid")
# cpu NAME: the processor time of a proxy so far, in ticks of 10 ms
cpu() {
  local pid
  case $1 in copy) pid=$copypid ;; gate) pid=$gatepid ;; pgbouncer) pid=$bouncerpid ;; *) echo 0 && return ;; esac
  awk '{print $14 + $15}' "/proc/$pid/stat"
}

echo "select-only, prepared (transactions per second, and processor time of the proxy for each; two rounds, alternating)"
for clients in ${CLIENTS:-8 64}; do
  for round in 1 2; do
    for p in "${proxies[@]}"; do
      before=$(cpu "${p%:*}")
      tps=$(bench "${p#*:}" -S -M prepared -c "$clients")
      printf '  %2d clients  %-10s %s %s\n' "$clients" "${p%:*}" "$tps" "$(awk -v t="$tps" -v s="$seconds" -v c=$(($(cpu "${p%:*}") - before)) 'BEGIN {printf "%.1f µs", c * 10000 / (t * s)}')"
    done
  done
done
[[ -n ${SELECT_ONLY:-} ]] && exit 0
echo "TPC-B, simple protocol"
for clients in 10 50 100 200; do
  for p in "direct:$port" "gate:$gate"; do
    rm -f "$dir"/lat.*
    failed=$("$bin/pgbench" -n -h 127.0.0.1 -p "${p#*:}" -U app -T "$seconds" -j 2 -c "$clients" -l --log-prefix="$dir/lat" app 2>&1 | grep -c 'aborted' || true)
    printf '  %3d clients  %-7s %s, %s clients gave up\n' "$clients" "${p%:*}" "$(tail_of)" "$failed"
  done
done
