#!/usr/bin/env bash
# Compares the HTTP gate with nginx, HAProxy and Go's own reverse proxy, side by
# side on this machine. Arguments go to the comparison: -conns 32 -for 2s
# -rounds 3 -size 100. Peers that are not installed are skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in nginx haproxy; do
	if ! command -v "$tool" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing $tool" >&2
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$tool" >/dev/null 2>&1 ||
			echo "could not install $tool; it will be skipped" >&2
	fi
done

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd bench && go build -o "$bin/httpbench" ./httpbench)
"$bin/httpbench" compare "$@"
