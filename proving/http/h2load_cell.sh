# h2load: many streams on few connections; every one of them gets an answer.
# shellcheck shell=bash
source ../facts.sh
load() { h2load -n 5000 -c 5 -m 50 "$@" 2>&1 | grep -E '^(requests|status codes):' | tr '\n' ' '; }

fact "5000 requests, 5 connections with 50 streams, TLS" "$(load "$TLS/a")" "*5000 succeeded, 0 failed, 0 errored, 0 timeout*5000 2xx, 0 3xx, 0 4xx, 0 5xx*"
fact "the same without TLS" "$(load "$PLAIN/a")" "*5000 succeeded, 0 failed, 0 errored, 0 timeout*5000 2xx, 0 3xx, 0 4xx, 0 5xx*"
fact "the same, all refused: each is told, no stream is reset" "$(load -H 'X-Tenant: full' "$TLS/flood")" "*0 errored, 0 timeout*0 2xx, 0 3xx, 0 4xx, 5000 5xx*"
fact "the backend has seen none of those" "$(curl -sS "$DIRECT/count?of=flood")" 0
exit $failed
