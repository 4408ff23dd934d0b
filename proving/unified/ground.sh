#!/usr/bin/env bash
# limits: fetch 600 s, prove 2400 s
# The official tests of MongoDB's drivers, run through the gate and, test by test,
# against the same run directly: what passes directly must pass through the gate.
#
# The tests are licensed so that they cannot lie here. They come with PyMongo's
# source archive; the Go driver's module has the runner that its authors use, and
# Node's package has none, so there is one here. SecantusDB is behind the gate, and
# beside it: it has the fail points by which the tests make a server fail. Limits
# are there and never bind. PROVE_PAIRS (4) is how many tests run at once.
# shellcheck source=../lib.sh
source "$PROVE_LIB"
read -r go_driver go_sum <godriver.txt

# tests prints the directory with the official tests, laid out.
tests() {
  local dir
  dir=$(stored mongodb-tests source.txt specs.py drivers.py)
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir" && mkdir -p "$dir/archive"
    "$(python_env tests.txt)/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary pymongo -r source.txt -d "$dir/archive" >&2
    python3 specs.py "$dir"/archive/*.tar.gz "$dir" >&2
    touch "$dir/.done"
  fi
  echo "$dir"
}

# go_tests prints the Go driver's runner, compiled.
go_tests() {
  local dir found
  dir=$(stored mongodb-go godriver.txt)
  if [[ ! -e $dir/.done ]]; then
    rm -rf "$dir" && mkdir -p "$dir"
    found=$(GOFLAGS='' go mod download -json "$go_driver")
    [[ $(sed -n 's/^\t"Sum": "\(.*\)",$/\1/p' <<<"$found") == "$go_sum" ]] || { echo "$go_driver is not what was pinned" >&2; return 1; }
    (cd "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found")" && GOWORK=off GOFLAGS=-mod=readonly go test -c -o "$dir/unified.test" ./internal/integration/unified) >&2
    touch "$dir/.done"
  fi
  echo "$dir/unified.test"
}

fetch() {
  python_env ../mongodb/server.txt >/dev/null
  python_env tests.txt >/dev/null
  tests >/dev/null
  go_tests >/dev/null
  node_modules >/dev/null
}

server() { start "server-$1" "$(python_env ../mongodb/server.txt)/bin/secantusd-py" --host 127.0.0.1 --port "$1" --storage-path "$PROVE_RUN/data-$1" --log-level WARNING --enable-test-commands; }

prove() {
  local admin direct behind gate i config
  admin=$(port)
  export PAIRS='' LOGS=$PROVE_OUT/unified ADMIN=http://127.0.0.1:$admin
  rm -rf "$LOGS" && mkdir -p "$LOGS"
  config="admin: { listen: 127.0.0.1:$admin }"$'\nlog: { level: error, format: text }\ningresses:\n'
  for ((i = 0; i < ${PROVE_PAIRS:-4}; i++)); do
    direct=$(port) behind=$(port) gate=$(port)
    server "$direct"
    server "$behind"
    until_ok 60 listening "$direct"
    until_ok 60 listening "$behind"
    PAIRS+=" $direct:$gate"
    config+="  - { name: db$i, protocol: mongodb, listen: 127.0.0.1:$gate, backend: 127.0.0.1:$behind,
      partitions: { by: database, share: own, default: { rate: 1000000, limit: { algorithm: fixed, limit: 1000 } } },
      mongodb: { topology: { mode: members, members: { \"127.0.0.1:$behind\": \"127.0.0.1:$gate\" } } } }"$'\n'
  done
  gate gate <<<"$config"

  export TESTS GO_TESTS PYMONGO NODE_PATH PROVE_CELL_S=${PROVE_CELL_S:-1200}
  TESTS=$(tests) GO_TESTS=$(go_tests) PYMONGO=$(python_env tests.txt)/bin/python NODE_PATH=$(node_modules)
  local on="on SecantusDB $(sed -n 's/^SecantusDB==//p' ../mongodb/server.txt)"
  cell go "Go driver 2.9.3 $on" python3 compare.py go
  cell node "Node driver 7.9.0 $on" python3 compare.py node
  cell pymongo "PyMongo 4.20.0 $on" python3 compare.py pymongo
  cell idle "all of these" bash ../mongodb/idle_cell.sh
}

main "$@"
