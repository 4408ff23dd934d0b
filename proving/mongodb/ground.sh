#!/usr/bin/env bash
# limits: fetch 900 s, prove 600 s
# Drivers before the MongoDB gate, of the three generations that differ in what
# they make of a refusal, and SecantusDB behind it with SCRAM: no registry has a
# mongod. It calls itself a replica set of one, so the gate rewrites addresses.
#
# The database `spent` has spent its rate for as long as the ground stands.
# shellcheck source=../lib.sh
source "$PROVE_LIB"

fetch() {
  python_env server.txt >/dev/null
  local v
  for v in 4.16.0 4.17.0 4.20.0; do python_env "pymongo-$v.txt" >/dev/null; done
  node_modules >/dev/null
  shell >/dev/null
  (cd go && go mod download)
  if (($(java_version) >= 11)); then
    for v in 5.11.1 5.12.0; do jars "java-$v/pom.xml" >/dev/null; done
  fi
  if (($(rust_version) >= 88)); then rust_driver >/dev/null || true; fi
}

# rust_version prints the minor version of the Rust 1 on PATH, or 0.
rust_version() { command -v cargo >/dev/null && rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p' | head -n 1 || echo 0; }

# rust_driver prints the program of the Rust cell. A bad day of its registry is none
# of the others' business.
rust_driver() {
  local dir
  dir=$(stored rust rust/Cargo.toml rust/Cargo.lock)
  CARGO_TARGET_DIR=$dir cargo build -q --locked --manifest-path rust/Cargo.toml >&2 || return 1
  echo "$dir/debug/driver"
}

# shell prints the program of mongosh.
shell() { (cd mongosh && echo "$(node_modules)/.bin/mongosh"); }

# certificate makes an authority, ca.pem, and what it has signed: Rust trusts no
# server that is its own.
certificate() {
  local curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
  openssl req -x509 "${curve[@]}" -days 2 -subj /CN=proving -keyout "$PROVE_RUN/ca-key.pem" -out "$PROVE_RUN/ca.pem" 2>/dev/null
  openssl req "${curve[@]}" -subj /CN=localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/request.pem" 2>/dev/null
  openssl x509 -req -in "$PROVE_RUN/request.pem" -CA "$PROVE_RUN/ca.pem" -CAkey "$PROVE_RUN/ca-key.pem" -CAcreateserial -days 2 \
    -extfile <(echo subjectAltName=IP:127.0.0.1,DNS:localhost) -out "$PROVE_RUN/cert.pem" 2>/dev/null
}

server() { start "$1" "$(python_env server.txt)/bin/secantusd-py" --host 127.0.0.1 --port "$db" --storage-path "$PROVE_RUN/data" --log-level WARNING "${@:2}"; }

prove() {
  local admin gate tls squeezed squeeze python v
  db=$(port) admin=$(port) gate=$(port) tls=$(port) squeezed=$(port) squeeze=$(port) LEARNS=$(port) GATED=$(port)
  export LEARNS GATED COUNTS
  COUNTS=$(port)
  (cd go && go build -o "$PROVE_RUN/" ./...)
  python=$(python_env server.txt)/bin/python
  certificate
  export DIRECT="mongodb://driver:secret@127.0.0.1:$db/?authSource=admin"
  # Users are made while nobody has to log in.
  server server-open
  until_ok 30 listening "$db"
  "$python" -c "import pymongo, sys; pymongo.MongoClient('127.0.0.1', $db).admin.command('createUser', 'driver', pwd='secret', roles=['root'])"
  halt "$started"
  server server --auth
  until_ok 30 "$python" -c "import os, pymongo; pymongo.MongoClient(os.environ['DIRECT'], serverSelectionTimeoutMS=2000).db.things.find_one()"
  start squeeze "$PROVE_RUN/squeeze" "127.0.0.1:$squeeze" "127.0.0.1:$db" "127.0.0.1:$COUNTS"
  local rules="partitions: { by: database, share: own, default: { limit: { algorithm: fixed, limit: 100 } }, named: [ { name: spent, match: spent, rate: 0.001, burstSeconds: 1000 }, { name: third, match: third, rate: 50, burstSeconds: 0.2 } ] }"
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: db, protocol: mongodb, listen: 127.0.0.1:$gate, backend: 127.0.0.1:$db, $rules,
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$gate" } } } }
  - { name: tls, protocol: mongodb, listen: 127.0.0.1:$tls, backend: 127.0.0.1:$db, $rules, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem },
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$tls" } } } }
  - { name: squeezed, protocol: mongodb, listen: 127.0.0.1:$squeezed, backend: 127.0.0.1:$squeeze, $rules,
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$squeezed" } } } }
  - { name: learns, protocol: mongodb, listen: 127.0.0.1:$LEARNS, backend: 127.0.0.1:$db, requests: { rate: 0.001, burstSeconds: 5000 },
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$LEARNS" } } } }
  - { name: gated, protocol: mongodb, listen: 127.0.0.1:$GATED, backend: 127.0.0.1:$db, requests: { rate: 0.001, burstSeconds: 5000, unauthenticated: gate },
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$GATED" } } } }
EOF
  export GATE="mongodb://driver:secret@127.0.0.1:$gate/?authSource=admin&replicaSet=secantus" GATE_PORT=$gate ADMIN=http://127.0.0.1:$admin
  export WRONG="mongodb://driver:wrong@127.0.0.1:$gate/?authSource=admin&replicaSet=secantus" CERT=$PROVE_RUN/ca.pem
  export TLS="mongodb://driver:secret@127.0.0.1:$tls/?authSource=admin&replicaSet=secantus&tls=true&tlsCAFile=$PROVE_RUN/ca.pem"
  export SQUEEZED="mongodb://driver:secret@127.0.0.1:$squeezed/?authSource=admin&replicaSet=secantus"
  "$python" -c "import os, pymongo; [pymongo.MongoClient(os.environ[n]).spent.things.find_one() for n in ('GATE', 'TLS', 'SQUEEZED')]"

  local on="on SecantusDB 0.7.0b3"
  GENERATION=2 cell pymongo-4.20 "4.20.0 $on" "$(python_env pymongo-4.20.0.txt)/bin/python" pymongo_cell.py
  GENERATION=true cell pymongo-4.17 "4.17.0 $on" "$(python_env pymongo-4.17.0.txt)/bin/python" pymongo_cell.py
  GENERATION=absent cell pymongo-4.16 "4.16.0 $on" "$(python_env pymongo-4.16.0.txt)/bin/python" pymongo_cell.py
  cell login "PyMongo 4.20.0 $on" "$(python_env pymongo-4.20.0.txt)/bin/python" login_cell.py
  export NODE_PATH
  NODE_PATH=$(node_modules)
  GENERATION=2 DRIVER=mongodb-7-9 cell node-7.9 "7.9.0 $on" node node_cell.js
  GENERATION=true DRIVER=mongodb-7-3 cell node-7.3 "7.3.0 $on" node node_cell.js
  GENERATION=absent DRIVER=mongodb-6 cell node-6 "6.20.0 $on" node node_cell.js
  cell go-2.9 "2.9.3 $on" "$PROVE_RUN/driver2"
  cell go-1.17 "1.17.6 $on" "$PROVE_RUN/driver1"
  PROVE_CELL_S=240 cell mongosh "2.12.0 $on" bash shell_cell.sh "$(shell)"
  if (($(java_version) >= 11)); then
    GENERATION=2 cell java-5.12 "5.12.0 $on" "${small_jvm[@]}" -cp "$(jars java-5.12.0/pom.xml)/*" Driver.java
    GENERATION=absent cell java-5.11 "5.11.1 $on" "${small_jvm[@]}" -cp "$(jars java-5.11.1/pom.xml)/*" Driver.java
  else
    skip mongodb-java "needs Java 11, found $(java_version)"
  fi
  local driver
  if (($(rust_version) < 88)); then
    skip mongodb-rust "needs Rust 1.88, found 1.$(rust_version)"
  elif driver=$(rust_driver); then
    cell rust-3.9 "3.9.1 $on" "$driver"
  else
    skip mongodb-rust "its crates cannot be fetched"
  fi
  cell compression "all of these, $on" bash squeeze_cell.sh
  cell idle "all of these" bash idle_cell.sh
}

main "$@"
