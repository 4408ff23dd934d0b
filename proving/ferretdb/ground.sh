#!/usr/bin/env bash
# limits: fetch 600 s, prove 300 s
# The same drivers before FerretDB on SQLite: a second server of the protocol, that
# was written by others. It has SCRAM by a switch for tests, neither transactions
# nor change streams, and answers writes that want no answer.
#
# The database `spent` has spent its rate for as long as the ground stands.
# shellcheck source=../lib.sh
source "$PROVE_LIB"
drivers=../mongodb

fetch() {
  command -v go >/dev/null || absent ferretdb "needs Go"
  ferret >/dev/null
  (cd "$drivers" && for v in 4.16.0 4.20.0; do python_env "pymongo-$v.txt" >/dev/null; done && node_modules >/dev/null && cd go && go mod download)
}

# ferret prints the program of the server. Its main program wants to be built in its
# own module, and to find its version in a file there.
ferret() {
  local dir module sum from
  read -r module sum <version.txt
  dir=$(stored ferretdb version.txt)
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir" && mkdir -p "$dir"
    from=$(cd "$dir" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p; s/^\t"Sum": "\(.*\)",$/\1/p')
    [[ $(sed -n 2p <<<"$from") == "$sum" ]] || { echo "$module is not the one that is pinned" >&2; return 1; }
    cp -r "$(sed -n 1p <<<"$from")" "$dir/source"
    chmod -R u+w "$dir/source"
    echo "${module#*@}" >"$dir/source/build/version/version.txt"
    (cd "$dir/source" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags ferretdb_no_postgresql -o "$dir/ferretdb" ./cmd/ferretdb) >&2
    rm -rf "$dir/source"
    touch "$dir/.done"
  fi
  echo "$dir/ferretdb"
}

prove() {
  local db admin gate tls on="on FerretDB 1.24.0"
  db=$(port) admin=$(port) gate=$(port) tls=$(port)
  (cd "$drivers/go" && go build -o "$PROVE_RUN/" ./...)
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
  mkdir -p "$PROVE_RUN/data" "$PROVE_RUN/state"
  DO_NOT_TRACK=1 start server "$(ferret)" --telemetry=disable --handler=sqlite "--sqlite-url=file:$PROVE_RUN/data/" "--state-dir=$PROVE_RUN/state" \
    "--listen-addr=127.0.0.1:$db" --debug-addr=- --log-level=ERROR --test-enable-new-auth --setup-database=admin --setup-username=driver --setup-password=secret
  until_ok 30 listening "$db"
  export DIRECT="mongodb://driver:secret@127.0.0.1:$db/?authSource=admin"
  local rules="partitions: { by: database, share: own, default: { limit: { algorithm: fixed, limit: 100 } }, named: [ { name: spent, match: spent, rate: 0.001, burstSeconds: 1000 }, { name: third, match: third, rate: 50, burstSeconds: 0.2 } ] }"
  gate gate <<YAML
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: db, protocol: mongodb, listen: 127.0.0.1:$gate, backend: 127.0.0.1:$db, $rules }
  - { name: tls, protocol: mongodb, listen: 127.0.0.1:$tls, backend: 127.0.0.1:$db, $rules, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem } }
YAML
  export GATE="mongodb://driver:secret@127.0.0.1:$gate/?authSource=admin" GATE_PORT=$gate ADMIN=http://127.0.0.1:$admin
  export WRONG="mongodb://driver:wrong@127.0.0.1:$gate/?authSource=admin" CERT=$PROVE_RUN/cert.pem
  export TLS="mongodb://driver:secret@127.0.0.1:$tls/?authSource=admin&tls=true&tlsCAFile=$PROVE_RUN/cert.pem"
  export WITHOUT="transactions streams"
  cd "$drivers"
  "$(python_env pymongo-4.20.0.txt)/bin/python" -c "import os, pymongo; pymongo.MongoClient(os.environ['GATE']).spent.things.find_one()"
  cell go-2.9 "2.9.3 $on" "$PROVE_RUN/driver2"
  cell go-1.17 "1.17.6 $on" "$PROVE_RUN/driver1"
  GENERATION=2 cell pymongo-4.20 "4.20.0 $on" "$(python_env pymongo-4.20.0.txt)/bin/python" pymongo_cell.py
  GENERATION=absent cell pymongo-4.16 "4.16.0 $on" "$(python_env pymongo-4.16.0.txt)/bin/python" pymongo_cell.py
  export NODE_PATH
  NODE_PATH=$(node_modules)
  GENERATION=2 DRIVER=mongodb-7-9 cell node-7.9 "7.9.0 $on" node node_cell.js
  GENERATION=absent DRIVER=mongodb-6 cell node-6 "6.20.0 $on" node node_cell.js
  cell idle "all of these" bash idle_cell.sh
}

main "$@"
