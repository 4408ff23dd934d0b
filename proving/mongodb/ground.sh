#!/usr/bin/env bash
# limits: fetch 600 s, prove 300 s
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
  if (($(java_version) >= 11)); then
    for v in 5.11.1 5.12.0; do jars "java-$v/pom.xml" >/dev/null; done
  fi
}

server() { start "$1" "$(python_env server.txt)/bin/secantusd-py" --host 127.0.0.1 --port "$db" --storage-path "$PROVE_RUN/data" --log-level WARNING "${@:2}"; }

prove() {
  local admin gate tls python v
  db=$(port) admin=$(port) gate=$(port) tls=$(port)
  python=$(python_env server.txt)/bin/python
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
  export DIRECT="mongodb://driver:secret@127.0.0.1:$db/?authSource=admin"
  # Users are made while nobody has to log in.
  server server-open
  until_ok 30 listening "$db"
  "$python" -c "import pymongo, sys; pymongo.MongoClient('127.0.0.1', $db).admin.command('createUser', 'driver', pwd='secret', roles=['root'])"
  halt "$started"
  server server --auth
  until_ok 30 "$python" -c "import os, pymongo; pymongo.MongoClient(os.environ['DIRECT'], serverSelectionTimeoutMS=2000).db.things.find_one()"
  local rules="partitions: { by: database, default: { limit: { algorithm: fixed, limit: 100 } }, named: [ { name: spent, match: spent, rate: 0.001, burstSeconds: 1000 }, { name: third, match: third, rate: 100, burstSeconds: 0.2 } ] }"
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: db, protocol: mongodb, listen: 127.0.0.1:$gate, backend: 127.0.0.1:$db, $rules,
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$gate" } } } }
  - { name: tls, protocol: mongodb, listen: 127.0.0.1:$tls, backend: 127.0.0.1:$db, $rules, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem },
      mongodb: { topology: { mode: members, members: { "127.0.0.1:$db": "127.0.0.1:$tls" } } } }
EOF
  export GATE="mongodb://driver:secret@127.0.0.1:$gate/?authSource=admin&replicaSet=secantus" GATE_PORT=$gate ADMIN=http://127.0.0.1:$admin
  export WRONG="mongodb://driver:wrong@127.0.0.1:$gate/?authSource=admin&replicaSet=secantus" CERT=$PROVE_RUN/cert.pem
  export TLS="mongodb://driver:secret@127.0.0.1:$tls/?authSource=admin&replicaSet=secantus&tls=true&tlsCAFile=$PROVE_RUN/cert.pem"
  "$python" -c "import os, pymongo; pymongo.MongoClient(os.environ['GATE']).spent.things.find_one()"

  local on="on SecantusDB 0.7.0b3"
  GENERATION=2 cell pymongo-4.20 "4.20.0 $on" "$(python_env pymongo-4.20.0.txt)/bin/python" pymongo_cell.py
  GENERATION=true cell pymongo-4.17 "4.17.0 $on" "$(python_env pymongo-4.17.0.txt)/bin/python" pymongo_cell.py
  GENERATION=absent cell pymongo-4.16 "4.16.0 $on" "$(python_env pymongo-4.16.0.txt)/bin/python" pymongo_cell.py
  export NODE_PATH
  NODE_PATH=$(node_modules)
  GENERATION=2 DRIVER=mongodb-7-9 cell node-7.9 "7.9.0 $on" node node_cell.js
  GENERATION=true DRIVER=mongodb-7-3 cell node-7.3 "7.3.0 $on" node node_cell.js
  GENERATION=absent DRIVER=mongodb-6 cell node-6 "6.20.0 $on" node node_cell.js
  if (($(java_version) >= 11)); then
    GENERATION=2 cell java-5.12 "5.12.0 $on" "${small_jvm[@]}" -cp "$(jars java-5.12.0/pom.xml)/*" Driver.java
    GENERATION=absent cell java-5.11 "5.11.1 $on" "${small_jvm[@]}" -cp "$(jars java-5.11.1/pom.xml)/*" Driver.java
  else
    skip mongodb-java "needs Java 11, found $(java_version)"
  fi
  cell idle "all of these" bash idle_cell.sh
}

main "$@"
