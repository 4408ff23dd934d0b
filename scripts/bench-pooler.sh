#!/usr/bin/env bash
# The PostgreSQL gate beside pgbouncer in transaction mode, before it and behind it:
# one hot row, TPC-B and lookups beside scans, with 20, 200 and 1,000 clients.
# usage: scripts/bench-pooler.sh [ARGUMENTS OF bench/pgload]     such as -for 2s -only TPC-B
# Needs the Debian packages postgresql and pgbouncer. Clients, gate, pooler and
# server share the machine: look at ratios.
# LIMIT, IDLE: limit and idleInTransaction of the gate without pgbouncer and of that
# behind it; BEFORE: limit of that before it; OBJECTIVE: of all; ROUTES: names of the ways that are played.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/postgres-cluster.sh
command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]] || { echo "needs the Debian package pgbouncer" >&2; exit 1; }
ulimit -n "$(ulimit -Hn)"
bouncer=$((port + 1)) behind=$((port + 2)) gate=$((port + 3)) before=$((port + 4)) inner=$((port + 5))
# Autovacuum would fall into one cell and not into another.
cluster -c shared_buffers=256MB -c max_connections=1100 -c autovacuum=off -c max_parallel_workers_per_gather=0
"$bin/pgbench" -q -i -s 5 -h 127.0.0.1 -p "$port" -U app app 2>/dev/null
psql -d app -c 'create table hot (id int primary key, n int) with (fillfactor = 10); insert into hot values (1, 0); alter table hot owner to app' \
  -c 'create user reports; grant pg_read_all_data to reports'

# bouncer PORT SERVER: a pgbouncer before a server.
bouncer() {
  cat >"$dir/bouncer.$1.ini" <<INI
[databases]
app = host=127.0.0.1 port=$2
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $1
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 20
unix_socket_dir =
pidfile = $dir/bouncer.$1.pid
INI
  as "ulimit -n $(ulimit -n); exec $(command -v pgbouncer || echo /usr/sbin/pgbouncer) -q $dir/bouncer.$1.ini" >"$dir/bouncer.$1.log" 2>&1 </dev/null &
  pids+=($!)
  for _ in {1..50}; do [[ -s $dir/bouncer.$1.pid ]] && pids+=("$(cat "$dir/bouncer.$1.pid")") && return; sleep 0.1; done
  cat "$dir/bouncer.$1.log" >&2
  exit 1
}
printf '"app" ""\n"reports" ""\n' >"$dir/users"
bouncer "$bouncer" "$port"
bouncer "$behind" "$inner"

# serve PORT BACKEND LIMIT IDLE: a gate, a process of its own.
go build -o "$dir/admitd" ./cmd/admitd
serve() {
  cat >"$dir/gate.$1.yaml" <<YAML
admin: { listen: 127.0.0.1:0 }
log: { level: error }
ingresses:
  - name: pg
    protocol: postgres
    listen: 127.0.0.1:$1
    backend: 127.0.0.1:$2
    objective: ${OBJECTIVE:-500ms}
    partitions: { by: [database, user], default: { limit: $3 } }
    postgres: { idleInTransaction: $4 }
YAML
  "$dir/admitd" serve --config "$dir/gate.$1.yaml" 2>"$dir/gate.$1.log" &
  pids+=($!)
  for _ in {1..50}; do (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done
  cat "$dir/gate.$1.log" >&2
  exit 1
}
serve "$gate" "$port" "${LIMIT:-{ algorithm: knee \}}" "${IDLE:-auto}"
serve "$inner" "$port" "${LIMIT:-{ algorithm: knee \}}" "${IDLE:-auto}"
# As examples/pgbouncer.yaml has it.
serve "$before" "$bouncer" "${BEFORE:-{ algorithm: fixed, limit: 20 \}}" keep

(cd bench && go build -o "$dir/pgload" ./pgload)
routes=
for r in direct=$port gate=$gate pgbouncer=$bouncer "gate, pgbouncer=$before" "pgbouncer, gate=$behind"; do
  [[ " ${ROUTES:-${r%=*}} " == *" ${r%=*} "* ]] && routes+=${routes:+;}${r%=*}=127.0.0.1:${r#*=}
done
"$dir/pgload" -routes "$routes" -scale 5 "$@"
