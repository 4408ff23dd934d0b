# A throw-away PostgreSQL server for the scripts beside this one, on a free range
# of ports, as somebody who is not root. They source it, call cluster with
# further settings of the server, and find $bin, $dir, $port and psql. What they
# start, they note in pids; it ends with them.
# shellcheck shell=bash
bin=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | sort -V | tail -n 1)
[[ -n $bin ]] || { echo "needs the Debian package postgresql" >&2; exit 1; }
dir=$(mktemp -d /tmp/admitd-pg-XXXXXX) # short: a socket's path has a bound
chmod 755 "$dir"
pids=()

# free_range prints a port that is free, as are the five above it.
free_range() {
  local first i
  while :; do
    first=$((20000 + RANDOM % 12000)) # below those that the kernel hands out
    for i in {0..5}; do (: <"/dev/tcp/127.0.0.1/$((first + i))") 2>/dev/null && continue 2; done
    echo "$first" && return
  done
}
port=${PORT_BASE:-$(free_range)}

# as runs a command as somebody who is not root.
as() { if [[ $(id -u) -eq 0 ]]; then su postgres -s /bin/bash -c "$*"; else bash -c "$*"; fi; }

finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  as "$bin/pg_ctl -D $dir/d stop -m immediate" >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap finish EXIT

# cluster SETTINGS… starts the server, with a user app and its database.
cluster() {
  [[ $(id -u) -eq 0 ]] && chown postgres "$dir"
  as "$bin/initdb -D $dir/d -A trust -U postgres -N --no-locale -E UTF8" >/dev/null
  as "$bin/pg_ctl -D $dir/d -w -l $dir/log -o '-p $port -k $dir -c listen_addresses=127.0.0.1 -c max_connections=400 -c fsync=off $*' start" >/dev/null ||
    { cat "$dir/log" >&2; exit 1; }
  psql -c 'create user app' -c 'create database app owner app'
}

psql() { "$bin/psql" -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres "$@"; }

# gate serves the configuration on its standard input; gatepid is its process.
gate() {
  cat >"$dir/gate.yaml"
  go build -o "$dir/admitd" ./cmd/admitd
  "$dir/admitd" serve --config "$dir/gate.yaml" 2>"$dir/gate.log" &
  gatepid=$!
  pids+=("$gatepid")
  for _ in {1..50}; do kill -0 "$gatepid" 2>/dev/null && (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.1; done
  cat "$dir/gate.log" >&2
  exit 1
}
