# curl: versions of HTTP, uploads, refusals, its own retries.
# shellcheck shell=bash
source ../facts.sh
ask() { curl -sS --cacert "$CERT" -o /dev/null "$@"; }

fact "HTTP/1.1" "$(ask -w '%{http_version} %{http_code}' --http1.1 "$PLAIN/a")" "1.1 200"
fact "HTTP/2 over TLS" "$(ask -w '%{http_version} %{http_code}' --http2 "$TLS/a")" "2 200"
fact "HTTP/2 without TLS, known beforehand" "$(ask -w '%{http_version} %{http_code}' --http2-prior-knowledge "$PLAIN/a")" "2 200"
fact "an upgrade to h2c that was asked for is answered over HTTP/1.1 or 2" "$(ask -w '%{http_code}' --http2 "$PLAIN/a")" "200"
head -c 3000000 /dev/zero >"$PROVE_RUN/big"
fact "3 MB up, with Expect: 100-continue" "$(curl -sS -H 'Expect: 100-continue' --data-binary "@$PROVE_RUN/big" "$PLAIN/up")" '*"size":3000000*'
fact "3 MB up, chunked" "$(curl -sS -H 'Transfer-Encoding: chunked' --data-binary "@$PROVE_RUN/big" "$PLAIN/up")" '*"size":3000000*'
fact "3 MB up over HTTP/2" "$(curl -sS --cacert "$CERT" --data-binary "@$PROVE_RUN/big" "$TLS/up")" '*"size":3000000*'
fact "5 MB down" "$(ask -w '%{size_download}' "$PLAIN/bytes?n=5000000")" 5000000
fact "a full partition is 503 with a problem, a wait and a reason" \
  "$(curl -sS -D - -H 'X-Tenant: full' "$PLAIN/refused" | tr -d '\r' | grep -ciE '^(HTTP/1.1 503|content-type: application/problem|retry-after: [1-9]|x-admitd-reason: concurrency_limit)')" 4
fact "the backend has not seen it" "$(curl -sS "$DIRECT/count?of=refused")" 0
fact "the connection is used again after a refusal" \
  "$(curl -sS -o /dev/null -H 'X-Tenant: full' "$PLAIN/refused" -w '%{num_connects} ' --next -sS -o /dev/null "$PLAIN/a" -w '%{num_connects}')" "1 0"
fact "so is one whose body was not wanted" \
  "$(curl -sS -o /dev/null --data-binary "@$PROVE_RUN/big" -H 'Expect: 100-continue' -H 'X-Tenant: full' "$PLAIN/refused" -w '%{http_code} ' --next -sS -o /dev/null "$PLAIN/a" -w '%{http_code}')" "503 200"
ask -H 'X-Tenant: beat-curl' "$PLAIN/beat-curl"
began=$(date +%s%N)
code=$(curl -sS -o "$PROVE_RUN/out" -w '%{http_code}' --retry 3 -H 'X-Tenant: beat-curl' "$PLAIN/beat-curl" )
took=$((($(date +%s%N) - began) / 1000000))
fact "curl --retry waits as Retry-After says and gets through" "$code $(curl -sS "$DIRECT/count?of=beat-curl") $((took >= 950))" "200 2 1"
exit $failed
