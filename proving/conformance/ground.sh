#!/usr/bin/env bash
# limits: fetch 240 s, prove 300 s
# How the HTTP gate reads what can be read in two ways, and the official suite for
# HTTP/2.
# shellcheck source=../lib.sh
source "$PROVE_LIB"
PATH=$PATH:/usr/sbin:/sbin

fetch() { go mod download; }

prove() {
  local admin backend kind
  local -A package=([nginx]=nginx-light [haproxy]=haproxy [node]=nodejs)
  go build -o "$PROVE_RUN/" ./differ ./reference github.com/summerwind/h2spec/cmd/h2spec
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$PROVE_RUN/key.pem" -out "$PROVE_RUN/cert.pem" 2>/dev/null
  for kind in nginx haproxy node; do
    if ! command -v "$kind" >/dev/null; then
      skip "conformance-$kind" "needs the Debian package ${package[$kind]}"
      continue
    fi
    cell "$kind" "$(version "$kind")" "$PROVE_RUN/differ" "$kind" "$PROVE_RUN/cert.pem" "$PROVE_RUN/key.pem"
  done

  admin=$(port) backend=$(port)
  export GATE GATE_TLS REFERENCE REFERENCE_TLS H2SPEC=$PROVE_RUN/h2spec
  GATE=$(port) GATE_TLS=$(port) REFERENCE=$(port) REFERENCE_TLS=$(port)
  start backend "$PROVE_RUN/reference" "127.0.0.1:$backend"
  start reference "$PROVE_RUN/reference" "127.0.0.1:$REFERENCE"
  start reference-tls "$PROVE_RUN/reference" "127.0.0.1:$REFERENCE_TLS" "$PROVE_RUN/cert.pem" "$PROVE_RUN/key.pem"
  for kind in "$backend" "$REFERENCE" "$REFERENCE_TLS"; do until_ok 10 listening "$kind"; done
  gate gate <<EOF
admin: { listen: 127.0.0.1:$admin }
log: { level: error, format: text }
ingresses:
  - { name: plain, protocol: http, listen: 127.0.0.1:$GATE, backend: "http://127.0.0.1:$backend" }
  - { name: tls, protocol: http, listen: 127.0.0.1:$GATE_TLS, backend: "http://127.0.0.1:$backend", tls: { certFile: $PROVE_RUN/cert.pem, keyFile: $PROVE_RUN/key.pem } }
EOF
  PROVE_CELL_S=240 cell h2spec "2.2.1" bash h2spec_cell.sh
}
version() {
  case $1 in
    nginx) nginx -v 2>&1 | sed 's|.*/||' ;;
    haproxy) haproxy -v | awk 'NR == 1 {print $3}' ;;
    node) node -v | tr -d v ;;
  esac
}

main "$@"
