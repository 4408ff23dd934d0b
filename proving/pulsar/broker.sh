# A Pulsar broker on its own: standalone, made of what Maven Central has, since the
# archive is not there.
# shellcheck shell=bash

# token ROLE [SECONDS] prints a JSON web token that the broker takes, for that long.
token() {
  local b64='s/+/-/g; s|/|_|g; s/=*$//' head body expires=
  [[ -z ${2:-} ]] || expires=",\"exp\":$(($(date +%s) + $2))"
  head=$(printf '{"alg":"HS256"}' | base64 -w0 | sed "$b64")
  body=$(printf '{"sub":"%s"%s}' "$1" "$expires" | base64 -w0 | sed "$b64")
  echo "$head.$body.$(printf '%s.%s' "$head" "$body" | openssl dgst -sha256 -hmac "$secret" -binary | base64 -w0 | sed "$b64")"
}

# namespaces makes two networks. In one are the broker, which calls itself $host, and
# the gate, on $door; in the other are clients, and $door is all that they reach. They
# go with their processes.
namespaces() {
  local clients brokers
  start clients unshare --net sleep 3600
  clients=$started
  start brokers unshare --net sleep 3600
  brokers=$started
  until_ok 5 differs "$clients" && until_ok 5 differs "$brokers" || return 1
  within=(nsenter "--net=/proc/$brokers/ns/net") outside=(nsenter "--net=/proc/$clients/ns/net")
  "${within[@]}" ip link set lo up
  "${within[@]}" ip address add "$host/32" dev lo
  "${within[@]}" ip link add gates type veth peer name clients netns "$clients"
  "${within[@]}" ip address add "$door/24" dev gates
  "${within[@]}" ip link set gates up
  "${outside[@]}" ip link set lo up
  "${outside[@]}" ip address add "${door%.*}.2/24" dev clients
  "${outside[@]}" ip link set clients up
}
differs() { [[ $(readlink "/proc/$1/ns/net") != $(readlink /proc/self/ns/net) ]]; }

# broker JARS VERSION starts one on $host, by way of $within and with $java, with the
# settings on standard input besides; broker_pid is its process.
broker() {
  local open=() package jars=$1 bookie=() bind=127.0.0.1
  [[ $host == 127.* ]] || bind=0.0.0.0
  [[ $2 == 5.* ]] || bookie=(--bookkeeper-port "$(port)") # which takes a free one by itself
  broker=$(port) web=$(port)
  for package in java.lang java.io java.util java.util.zip java.nio sun.net jdk.internal.misc jdk.internal.platform; do
    open+=(--add-opens "java.base/$package=ALL-UNNAMED")
  done
  rm -rf "$PROVE_RUN/bookkeeper" "$PROVE_RUN/metadata"
  cat <(settings "$bind") - >"$PROVE_RUN/standalone.conf"
  (cd "$PROVE_RUN" && printf 'status=warn\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%%d %%p %%c - %%m%%n\n' >log4j2.properties)
  start "broker-$2" "${within[@]}" "${java[@]}" -Xms256m -Xmx768m -XX:MaxDirectMemorySize=768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    "${open[@]}" --add-opens java.management/sun.management=ALL-UNNAMED --add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED \
    -Dio.netty.tryReflectionSetAccessible=true -Dlog4j2.is.webapp=false -Dlog4j2.configurationFile="$PROVE_RUN/log4j2.properties" \
    -cp "$jars/*" org.apache.pulsar.PulsarStandaloneStarter --config "$PROVE_RUN/standalone.conf" \
    -nfw -nss --wipe-data --bookkeeper-dir "$PROVE_RUN/bookkeeper" --metadata-dir "$PROVE_RUN/metadata" "${bookie[@]}"
  broker_pid=$started
  until_ok 150 settled && ready >/dev/null
  export BROKER=$door:$broker
}
# settings ADDRESS prints what every broker is told.
settings() {
  cat <<EOF
clusterName=standalone
webServicePort=$web
brokerServicePort=$broker
bindAddress=$1
advertisedAddress=$host
allowLoopback=true
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
authenticationRefreshCheckSeconds=1
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
}
# settled reports whether it works, or has ended. The metrics answer earlier.
settled() { ready || ! kill -0 "$broker_pid"; }
ready() {
  local at=http://$host:$web/admin/v2
  [[ $("${within[@]}" curl -fsS "$at/clusters") == *standalone* ]] &&
    "${within[@]}" curl -fsS "$at/namespaces/public/default" && "${within[@]}" curl -fsS "$at/brokers/health"
}
