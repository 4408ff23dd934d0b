#!/usr/bin/env bash
# limits: fetch 300 s, prove 240 s
# Foreign clients before the PostgreSQL gate, and a real server behind it.
#
# Who calls himself `full` finds his partition full for as long as the ground
# stands: a statement behind a lock holds its only permit. Who calls himself
# `rated` has spent his rate. So nothing here waits for a moment to come.
source "$PROVE_LIB"

server() { for bin in /usr/lib/postgresql/*/bin; do [[ -x $bin/initdb ]] && echo "$bin"; done | tail -n 1; }
# The server refuses to run as root.
as_postgres=()
[[ $(id -u) -eq 0 ]] && as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups)

fetch() {
  [[ -n $(server) ]] || absent postgres "needs the Debian package postgresql"
  python_env >/dev/null
  node_modules >/dev/null
  (($(java_version) >= 11)) && jars >/dev/null
  return 0
}

# backend starts a server with SCRAM logins on $db.
backend() {
  local bin dir=$PROVE_RUN/data
  bin=$(server)
  mkdir "$dir"
  [[ $(id -u) -eq 0 ]] && chown postgres "$dir"
  echo secret >"$PROVE_RUN/password"
  chmod 644 "$PROVE_RUN/password"
  "${as_postgres[@]}" "$bin/initdb" -D "$dir" -U app --pwfile "$PROVE_RUN/password" -A scram-sha-256 -N --no-locale -E UTF8 >/dev/null
  start server "${as_postgres[@]}" "$bin/postgres" -D "$dir" -p "$db" -k "" -h 127.0.0.1 -c fsync=off
  until_ok 20 psql "postgres://app:secret@127.0.0.1:$db/postgres" -c 'create role driver login password '"'secret'" -c 'create database app owner driver'
}

prove() {
  local admin version
  db=$(port) admin=$(port) gate=$(port) door=$(port) mapped=$(port)
  backend
  version=$("$(server)/postgres" --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - name: pg
    protocol: postgres
    listen: 127.0.0.1:$gate
    backend: 127.0.0.1:$db
    partitions:
      by: application
      default: { limit: { algorithm: fixed, limit: 100 } }
      named:
        - { name: full, match: full, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 0 } }
        - { name: rated, match: rated, rate: 0.001, burstSeconds: 1000 }
        - { name: slow, match: slow, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 10, maxWait: 20s } }
  - name: mapped
    protocol: postgres
    listen: 127.0.0.1:$mapped
    backend: 127.0.0.1:$db
    partitions:
      by: application
      named: [{ name: full, match: full, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 0 } }]
    postgres: { sqlstate: { concurrency_limit: "55000" } }
  - name: door
    protocol: postgres
    listen: 127.0.0.1:$door
    backend: 127.0.0.1:$db
    connections: { maxOpen: 1 }
EOF
  export GATE=$gate DOOR=$door MAPPED=$mapped DIRECT=$db
  start lock psql "postgres://app:secret@127.0.0.1:$db/app?application_name=holder" -c 'select pg_advisory_lock(1), pg_sleep(1000)'
  until_ok 10 waits "application_name = 'holder' and wait_event = 'PgSleep'"
  local at
  for at in "$gate" "$mapped"; do
    start "full-$at" psql "postgres://driver:secret@127.0.0.1:$at/app?application_name=full" -c 'select pg_advisory_lock(1)'
  done
  until_ok 10 waits "application_name = 'full' and wait_event = 'advisory'" 2
  psql "postgres://driver:secret@127.0.0.1:$gate/app?application_name=rated" -c 'select 1' >/dev/null

  local python node
  python=$(python_env)/bin/python
  version="on PostgreSQL $version"
  cell psycopg "3.3.9 $version" "$python" psycopg_cell.py
  cell asyncpg "0.32.0 $version" "$python" asyncpg_cell.py
  cell sqlalchemy "2.1.9 $version" "$python" sqlalchemy_cell.py
  node=$(node_modules)
  cell node-pg "8.23.1 $version" env NODE_PATH="$node" node pg_cell.js
  if (($(java_version) >= 11)); then
    cell pgjdbc "42.7.8, HikariCP 6.3.0 $version" "${small_jvm[@]}" -cp "$(jars)/*" Pgjdbc.java
  else
    skip postgres-pgjdbc "needs Java 11, found $(java_version)"
  fi
}
# waits CONDITION [N]: do N sessions stand there, as the server sees it?
waits() { [[ $(psql -qtA "postgres://app:secret@127.0.0.1:$db/app" -c "select count(*) from pg_stat_activity where $1") -ge ${2:-1} ]]; }

main "$@"
