#!/usr/bin/env bash
# limits: fetch 240 s, prove 240 s
# Foreign clients before the HTTP gate: what they make of a refusal, and whether
# they wait as long as they are told.
#
# The tenant `full` has one permit, which a request holds for as long as the
# ground stands. A tenant whose name begins with `beat` has one token a second,
# and each client has a beat of its own.
# shellcheck source=../lib.sh
source "$PROVE_LIB"

fetch() {
  command -v curl >/dev/null || absent http "needs the Debian package curl"
  (($(node_version) >= 18)) || absent http "needs Node 18, found $(node_version)"
  python_env >/dev/null
  node_modules >/dev/null
}
node_version() { if command -v node >/dev/null; then node -v | sed 's/^v\([0-9]*\).*/\1/'; else echo 0; fi; }

prove() {
  local admin backend plain tls python
  admin=$(port) backend=$(port) plain=$(port) tls=$(port)
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
  start backend node backend.js "$backend"
  until_ok 10 listening "$backend"
  local partitions='{ by: "header:X-Tenant", share: own, default: { limit: { algorithm: fixed, limit: 1000 } }, named: [ { name: full, match: full, limit: { algorithm: fixed, limit: 1 }, queue: { depth: 0 } }'
  local beat
  for beat in curl requests httpx fetch undici java; do partitions+=", { name: beat-$beat, match: beat-$beat, rate: 1, burstSeconds: 1 }"; done
  partitions+=' ] }'
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: plain, protocol: http, listen: 127.0.0.1:$plain, backend: "http://127.0.0.1:$backend", backendTimeout: 10m, partitions: $partitions }
  - { name: tls, protocol: http, listen: 127.0.0.1:$tls, backend: "http://127.0.0.1:$backend", backendTimeout: 10m, tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem }, partitions: $partitions }
EOF
  export PLAIN=http://127.0.0.1:$plain TLS=https://127.0.0.1:$tls DIRECT=http://127.0.0.1:$backend
  export CERT=$PROVE_RUN/cert.pem ADMIN=http://127.0.0.1:$admin
  local at
  for at in "$PLAIN" "$TLS"; do start "holder-${at##*:}" curl -sS --cacert "$CERT" -H 'X-Tenant: full' "$at/hold"; done
  until_ok 10 holds 2

  python=$(python_env)/bin/python
  cell curl "$(curl --version | awk 'NR == 1 {print $2}')" bash curl_cell.sh
  cell requests "2.34.2, urllib3 2.8.0" "$python" requests_cell.py
  cell httpx "0.28.1, h2 4.4.1" "$python" httpx_cell.py
  cell fetch "Node $(node -v | tr -d v), undici 7.30.2" env NODE_PATH="$(node_modules)" NODE_EXTRA_CA_CERTS="$CERT" node fetch_cell.js
  if (($(java_version) >= 11)); then
    cell java "HttpClient of Java $(java_version)" "${small_jvm[@]}" Http.java
  else
    skip http-java "needs Java 11, found $(java_version)"
  fi
  if command -v h2load >/dev/null; then
    cell h2load "$(h2load --version | grep -oE '[0-9]+[.][0-9.]+' | head -n 1)" bash h2load_cell.sh
  else
    skip http-h2load "needs the Debian package nghttp2-client"
  fi
  cell idle "all of these" bash idle_cell.sh
}
holds() { [[ $(curl -fsS "$DIRECT/count?of=hold") -ge $1 ]]; }

main "$@"
