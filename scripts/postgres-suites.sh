#!/usr/bin/env bash
# Runs the test suites of pgx and lib/pq against a throw-away PostgreSQL server:
# directly, through a gate whose limits are off, and through one whose limits never
# bind. Fails when a test that passes directly does not pass through a gate.
# usage: scripts/postgres-suites.sh [pgx] [pq]
# Needs the Debian packages postgresql and postgresql-contrib, and the Go module
# proxy. Tests that want a server's socket, its TLS or a pooler are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=("$@")
((${#suites[@]})) || suites=(pgx pq)
pgx=github.com/jackc/pgx/v5@v5.12.0 pq=github.com/lib/pq@v1.12.3
source scripts/postgres-cluster.sh
off=$((port + 1)) never=$((port + 2)) admin=$((port + 3))
cluster -c wal_level=logical -c max_prepared_transactions=5
cat >"$dir/d/pg_hba.conf" <<'EOF'
host all pgx_md5,pqgomd5 127.0.0.1/32 md5
host all pgx_scram,pqgoscram 127.0.0.1/32 scram-sha-256
host all pgx_pw,pqgopassword 127.0.0.1/32 password
host all all 127.0.0.1/32 trust
EOF
psql -c 'select pg_reload_conf()' >/dev/null

gate "$never" <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error }
ingresses:
  - { name: off, protocol: postgres, listen: "127.0.0.1:$off", backend: "127.0.0.1:$port", mode: "off" }
  - { name: never, protocol: postgres, listen: "127.0.0.1:$never", backend: "127.0.0.1:$port",
      partitions: { default: { limit: { algorithm: fixed, limit: 1000 } } } }
EOF

# source_of MODULE NAME copies a module to where its tests can be built.
source_of() {
  local from
  from=$(cd "$dir" && GOFLAGS=-mod=mod go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  cp -r "$from" "$dir/$2"
  chmod -R u+w "$dir/$2"
}

# play SUITE WAY PORT runs one suite, and writes one line per test: result, name.
play() {
  (
    cd "$dir/$1"
    export PGHOST=127.0.0.1 PGPORT=$3 PGSSLMODE=disable GOFLAGS=-mod=mod
    if [[ $1 == pgx ]]; then
      unset PGHOST PGPORT PGSSLMODE
      local base="host=127.0.0.1 port=$3 dbname=pgx_test sslmode=disable"
      export PGX_TEST_DATABASE="$base user=postgres" PGX_TEST_TCP_CONN_STRING="$base user=postgres" PGX_TEST_MD5_PASSWORD_CONN_STRING="$base user=pgx_md5 password=secret" \
        PGX_TEST_PLAIN_PASSWORD_CONN_STRING="$base user=pgx_pw password=secret" PGX_TEST_SCRAM_PASSWORD_CONN_STRING="$base user=pgx_scram password=secret"
    fi
    timeout 600 go test -count=1 -p 1 -json ./... 2>&1
  ) >"$dir/$1-$2.json" || true
  sed -n 's/.*"Action":"\(pass\|fail\|skip\)","Package":"\([^"]*\)","Test":"\(.*\)","Elapsed.*/\1 \2 \3/p' "$dir/$1-$2.json" | sed 's/^\([a-z]*\) [^ ]*\/\(pgx\/v5\|pq\)/\1 /' | sed 's|/tmp/[^/]*/001|TMP|' | sort -k2 >"$dir/$1-$2"
  printf '%-4s %-9s %5d passed, %3d failed, %3d skipped\n' "$1" "$2" "$(grep -c '^pass' "$dir/$1-$2")" "$(grep -c '^fail' "$dir/$1-$2" || true)" "$(grep -c '^skip' "$dir/$1-$2" || true)"
}

status=0
for suite in "${suites[@]}"; do
  case $suite in
    pgx)
      psql -c 'create database pgx_test'
      psql -d pgx_test -c 'create extension hstore' -c 'create extension ltree' -c 'create domain uint64 as numeric(20,0)'
      psql -c "create user pgx_pw superuser password 'secret'" -c "create user pgx_scram superuser password 'secret'" \
        -c "set password_encryption = md5; create user pgx_md5 superuser password 'secret'" -c "create user \" tricky, ' } \"\" \\ test user \" superuser password 'secret'"
      source_of "$pgx" pgx ;;
    pq)
      psql -c 'create user pqgo superuser' -c 'create database pqgo owner pqgo' -c "create role pqgopassword login password 'wordpass'" \
        -c "create role pqgoscram login password 'wordpass'" -c "set password_encryption = md5; create role pqgomd5 login password 'wordpass'"
      source_of "$pq" pq ;;
  esac
  for way in direct:$port off:$off never:$never; do play "$suite" "${way%:*}" "${way#*:}"; done
  echo "  fail directly: $(sed -n 's/^fail //p' "$dir/$suite-direct" | tr '\n' ' ')"
  for way in off never; do
    lost=$(comm -23 <(sed -n 's/^pass //p' "$dir/$suite-direct" | sort) <(sed -n 's/^pass //p' "$dir/$suite-$way" | sort))
    if [[ -n $lost ]]; then
      echo "  pass directly, and not through the gate ($way): $(tr '\n' ' ' <<<"$lost")"
      [[ -n ${KEEP:-} ]] && cp "$dir/$suite-"* "$KEEP"
      status=1
    fi
  done
done
exit $status
