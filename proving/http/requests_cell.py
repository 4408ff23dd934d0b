"""requests with urllib3's Retry."""
import os
import time

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from facts import end, fact

PLAIN, TLS, DIRECT, CERT = (os.environ[n] for n in ("PLAIN", "TLS", "DIRECT", "CERT"))


def count(of):
    return int(requests.get(f"{DIRECT}/count", params={"of": of}).text)


with requests.Session() as s:
    r = s.get(f"{PLAIN}/refused", headers={"X-Tenant": "full"})
    fact("503 with the document and its wait", r.status_code == 503 and r.json()["reason"] == "concurrency_limit" and int(r.headers["Retry-After"]) >= 1, r.text)
    r = s.post(f"{PLAIN}/up", data=(b"x" * 50_000 for _ in range(40)))
    fact("a generator as a chunked body", r.json()["size"] == 2_000_000, r.text)
    r = s.get(f"{TLS}/bytes", params={"n": 1_000_000}, verify=CERT, stream=True)
    fact("a streamed answer over TLS", sum(len(part) for part in r.iter_content(8192)) == 1_000_000)

with requests.Session() as s:
    s.mount("http://", HTTPAdapter(max_retries=Retry(total=3, status_forcelist=[429, 503], respect_retry_after_header=True, backoff_factor=0)))
    s.get(f"{PLAIN}/beat-requests", headers={"X-Tenant": "beat-requests"})
    began = time.monotonic()
    r = s.get(f"{PLAIN}/beat-requests", headers={"X-Tenant": "beat-requests"})
    took = time.monotonic() - began
    fact("urllib3's Retry waits as Retry-After says and gets through", r.status_code == 200 and took >= 0.95 and len(r.raw.retries.history) == 1, (r.status_code, took))
    fact("the backend has seen two of the three requests", count("beat-requests") == 2, count("beat-requests"))
end()
