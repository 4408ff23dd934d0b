#!/usr/bin/env bash
# What each of twenty users gets of a PostgreSQL server that serves 400 statements a
# second and no more, without a gate, through one without partitions, and through one
# with a partition for each user: all ask for more than their part, and one of them does
# while the others ask for 8 to 10 a second each.
# usage: scripts/share-postgres.sh [ARGUMENTS OF bench/pgload]     such as -for 5s
# Needs the Debian packages postgresql and pgbouncer: eight server connections and
# statements of 20 ms make the capacity, whatever else the machine does.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/postgres-cluster.sh
bouncer=$((port + 1)) plain=$((port + 2)) parted=$((port + 3))
cluster
for i in {1..20}; do psql -c "create user t$i"; echo "\"t$i\" \"\""; done >"$dir/users"
cat >"$dir/bouncer.ini" <<INI
[databases]
app = host=127.0.0.1 port=$port user=app
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $bouncer
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 8
unix_socket_dir =
pidfile = $dir/bouncer.pid
INI
as "ulimit -n $(ulimit -n); exec $(command -v pgbouncer || echo /usr/sbin/pgbouncer) -q $dir/bouncer.ini" >"$dir/bouncer.log" 2>&1 </dev/null &
pids+=($!)
for _ in {1..50}; do [[ -s $dir/bouncer.pid ]] && break; sleep 0.1; done
pids+=("$(cat "$dir/bouncer.pid")")

go build -o "$dir/admitd" ./cmd/admitd
# serve PORT PARTITIONS: a gate before pgbouncer.
serve() {
  cat >"$dir/gate.$1.yaml" <<YAML
admin: { listen: 127.0.0.1:0 }
log: { level: error }
ingresses:
  - { name: pg, protocol: postgres, listen: "127.0.0.1:$1", backend: "127.0.0.1:$bouncer", objective: 500ms$2 }
YAML
  "$dir/admitd" serve --config "$dir/gate.$1.yaml" 2>"$dir/gate.$1.log" &
  pids+=($!)
  for _ in {1..50}; do (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done
  cat "$dir/gate.$1.log" >&2
  exit 1
}
serve "$plain" ""
serve "$parted" ", partitions: { by: user }"

(cd bench && go build -o "$dir/pgload" ./pgload)
"$dir/pgload" -tenants -warm 4s -for 6s -routes "no gate=127.0.0.1:$bouncer;no partitions=127.0.0.1:$plain;a partition each=127.0.0.1:$parted" "$@"
