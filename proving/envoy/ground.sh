#!/usr/bin/env bash
# limits: fetch 300 s, prove 180 s
# A real Envoy asks admitd, configured by examples/envoy: rates, permits that end
# with the stream, authorization, quota shares of two Envoys, and the service away.
source "$PROVE_LIB"

fetch() { python_env >/dev/null; }

examples=$(cd ../../examples/envoy && pwd)

# proxy NAME FILE PORT starts an Envoy of an example, on ports of its own.
proxy() {
  sed -e "s/port_value: 10000/port_value: $3/; s/port_value: 9000/port_value: $backend/; s/port_value: 9463/port_value: $decisions/" \
    "$examples/$2.yml" >"$PROVE_RUN/$1.yaml"
  start "$1" "$(python_env)/bin/envoy" -c "$PROVE_RUN/$1.yaml" --concurrency 1 --disable-hot-restart --log-level warning
  until_ok 20 listening "$3"
}

prove() {
  backend=$(port) admin=$(port) decisions=$(port)
  local rate concurrency authorize first second
  rate=$(port) concurrency=$(port) authorize=$(port) first=$(port) second=$(port)
  start backend python3 backend.py "$backend"
  until_ok 10 listening "$backend"
  gate gate < <(sed "s/^admin:.*/admin: { listen: 127.0.0.1:$admin }/; /^  listen: 127.0.0.1:9462/d; s/127.0.0.1:9463/127.0.0.1:$decisions/" "$examples/admitd.yaml")
  local daemon=$started version
  proxy rate rate "$rate"
  proxy concurrency concurrency "$concurrency"
  proxy authorize authorize "$authorize"
  proxy first quota "$first"
  proxy second quota "$second"
  version=$("$(python_env)/bin/envoy" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+/' | tr -d /)
  export BACKEND=$backend ADMIN=$admin
  cell rate "$version" python3 envoy_cell.py rate "$rate"
  cell concurrency "$version" python3 envoy_cell.py concurrency "$concurrency"
  cell authorize "$version" python3 envoy_cell.py authorize "$authorize"
  cell quota "$version" python3 envoy_cell.py quota "$first" "$second"
  halt "$daemon"
  cell away "$version" python3 envoy_cell.py away "$rate" "$concurrency" "$authorize" "$first"
}
main "$@"
