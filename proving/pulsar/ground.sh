#!/usr/bin/env bash
# limits: fetch 900 s, prove 420 s
# Foreign clients before the Pulsar gate, and a real broker behind it: standalone,
# made of what Maven Central has, since the archive is not there.
# shellcheck source=../lib.sh
source "$PROVE_LIB"

version=4.2.4

fetch() {
  (($(java_version) >= 17)) || absent pulsar "needs Java 17, found $(java_version)"
  command -v mvn >/dev/null || absent pulsar "needs Maven"
  jars broker/pom.xml >/dev/null
  jars client/pom.xml >/dev/null
  python_env >/dev/null
  go mod download
}

# token ROLE prints a JSON web token that the broker takes.
token() {
  local b64='s/+/-/g; s|/|_|g; s/=*$//' head body
  head=$(printf '{"alg":"HS256"}' | base64 -w0 | sed "$b64")
  body=$(printf '{"sub":"%s"}' "$1" | base64 -w0 | sed "$b64")
  echo "$head.$body.$(printf '%s.%s' "$head" "$body" | openssl dgst -sha256 -hmac "$secret" -binary | base64 -w0 | sed "$b64")"
}

# broker starts it on $broker and $web.
broker() {
  local open=() package
  for package in java.lang java.io java.util java.util.zip java.nio sun.net jdk.internal.misc jdk.internal.platform; do
    open+=(--add-opens "java.base/$package=ALL-UNNAMED")
  done
  cat >"$PROVE_RUN/standalone.conf" <<EOF
clusterName=standalone
webServicePort=$web
brokerServicePort=$broker
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=64
nettyMaxFrameSizeBytes=5253120
journalSyncData=false
loadBalancerEnabled=false
brokerDeleteInactiveTopicsEnabled=false
transactionCoordinatorEnabled=true
acknowledgmentAtBatchIndexLevelEnabled=true
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
anonymousUserRole=anonymous
tokenSecretKey=data:;base64,$(printf %s "$secret" | base64 -w0)
brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
brokerClientAuthenticationParameters={"token":"$(token admin)"}
superUserRoles=admin
numIOThreads=2
numHttpServerThreads=4
numOrderedExecutorThreads=2
bookkeeperClientNumWorkerThreads=2
EOF
  (cd "$PROVE_RUN" && printf 'status=warn\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%%d %%p %%c - %%m%%n\n' >log4j2.properties)
  start broker java -Xms256m -Xmx768m -XX:MaxDirectMemorySize=768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    "${open[@]}" --add-opens java.management/sun.management=ALL-UNNAMED --add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED \
    -Dio.netty.tryReflectionSetAccessible=true -Dlog4j2.is.webapp=false -Dlog4j2.configurationFile="$PROVE_RUN/log4j2.properties" \
    -cp "$(jars broker/pom.xml)/*" org.apache.pulsar.PulsarStandaloneStarter --config "$PROVE_RUN/standalone.conf" \
    -nfw -nss --wipe-data --bookkeeper-dir "$PROVE_RUN/bookkeeper" --metadata-dir "$PROVE_RUN/metadata" --bookkeeper-port "$(port)"
  # The metrics answer earlier than the broker works.
  until_ok 150 ready
}
ready() {
  [[ $(curl -fsS "http://127.0.0.1:$web/admin/v2/clusters") == *standalone* ]] &&
    curl -fsS "http://127.0.0.1:$web/admin/v2/namespaces/public/default" && curl -fsS "http://127.0.0.1:$web/admin/v2/brokers/health"
}

prove() {
  local admin gate tls few
  secret=$(head -c 32 /dev/urandom | base64 -w0)
  broker=$(port) web=$(port) admin=$(port) gate=$(port) tls=$(port) few=$(port)
  go build -o "$PROVE_RUN/" ./goclient ./neighbour
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
  broker
  local limits='topics: [ { name: held, match: "persistent://public/default/held*", messages: 20, burstSeconds: 1 }, { name: slow, match: "persistent://public/default/slow*", messages: 40, burstSeconds: 0.5 } ]'
  local roomy='partitions: { by: topic, default: { limit: { algorithm: fixed, limit: 10000 }, queue: { depth: 10000, maxWait: 1m } } }'
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: queue, protocol: pulsar, listen: 127.0.0.1:$gate, backend: 127.0.0.1:$broker, $roomy, pulsar: { $limits } }
  - { name: tls, protocol: pulsar, listen: 127.0.0.1:$tls, backend: 127.0.0.1:$broker, $roomy, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem } }
  - { name: few, protocol: pulsar, listen: 127.0.0.1:$few, backend: 127.0.0.1:$broker, $roomy, pulsar: { maxProducers: 1 } }
EOF
  export GATE=127.0.0.1:$gate BROKER=127.0.0.1:$broker BROKER_ADMIN=http://127.0.0.1:$web GATE_ADMIN=http://127.0.0.1:$admin
  export GATE_URL=pulsar://127.0.0.1:$gate GATE_TLS_URL=pulsar+ssl://127.0.0.1:$tls FEW_URL=pulsar://127.0.0.1:$few
  local user_token
  user_token=$(token somebody)
  export TOKEN=$user_token CERT=$PROVE_RUN/cert.pem

  cell neighbour "broker $version" "$PROVE_RUN/neighbour"
  cell go "pulsar-client-go 0.19.0 on broker $version" "$PROVE_RUN/goclient"
  cell python "pulsar-client 3.13.0 on broker $version" "$(python_env)/bin/python" python_cell.py
  cell java "pulsar-client 4.2.4 on broker $version" "${small_jvm[@]}" -XX:MaxDirectMemorySize=256m -cp "$(jars client/pom.xml)/*" Client.java
  cell idle "all of these" bash idle_cell.sh
  (($(java_version) >= 21)) || skip pulsar-5 "needs Java 21, found $(java_version)"
}

main "$@"
