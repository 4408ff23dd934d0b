#!/usr/bin/env bash
# Installs the Debian packages that the tests use and this machine lacks.
# Required ones are a hard failure; tests that want an optional one skip
# themselves with a clear message when it is not there.
set -euo pipefail

# command:package
required=(git:git gcc:gcc)
optional=(curl:curl ip:iproute2 nginx:nginx-light haproxy:haproxy caddy:caddy promtool:prometheus chromium:chromium initdb:postgresql redis-server:redis-server redis-sentinel:redis-sentinel)

PATH=$PATH:/usr/sbin:/sbin
for bin in /usr/lib/postgresql/*/bin; do PATH=$PATH:$bin; done # where Debian keeps the server's programs
missing() { # prints the packages behind the commands that cannot be found
  local pair
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || printf '%s ' "${pair#*:}"
  done
}
need=$(missing "${required[@]}")
want=$(missing "${optional[@]}")
[[ -z $need$want ]] && exit 0

if ! command -v apt-get >/dev/null || [[ $(id -u) -ne 0 ]]; then
  [[ -n $want ]] && echo "test-deps: tests that use these Debian packages will be skipped: $want" >&2
  if [[ -n $need ]]; then
    echo "test-deps: these are needed: $need(as root: apt-get install $need)" >&2
    exit 1
  fi
  exit 0
fi

# Packages such as prometheus start a service when they are installed. Tests
# start their own, so no service may take the port first.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
install() { timeout 600 apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
timeout 120 apt-get update -qq || echo "test-deps: apt-get update failed, going on with the lists at hand" >&2
for p in $need; do
  echo "test-deps: installing $p" >&2
  install "$p" || { echo "test-deps: cannot install $p, which the tests need" >&2; exit 1; }
done
for p in $want; do
  echo "test-deps: installing $p" >&2
  install "$p" || echo "test-deps: cannot install $p; tests that use it will be skipped" >&2
done
