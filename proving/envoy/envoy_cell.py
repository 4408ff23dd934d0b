"""One cell of the ground: what clients of an Envoy that asks admitd are told."""
import http.client
import json
import os
import sys
import threading
import time
import urllib.request

failed = False


def fact(seen, what):
    global failed
    failed |= not seen
    print(("ok " if seen else "not ok ") + what, flush=True)


def get(port, tenant, path="/", headers=()):
    """One request on a connection of its own: status, headers, body."""
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    c.request("GET", path, headers={"x-tenant": tenant, **dict(headers)})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, body


def served(tenant):
    return json.loads(get(os.environ["BACKEND"], "", "/counts")[2]).get(tenant, 0)


def partition(name):
    """What admitd says of a partition of the ingress."""
    url = f"http://127.0.0.1:{os.environ['ADMIN']}/v1/status?partitions=100"
    with urllib.request.urlopen(url, timeout=10) as r:
        for p in json.load(r)["ingresses"][0]["partitions"]:
            if p["name"] == name:
                return p
    return {}


def until(seconds, true):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def document(answer):
    try:
        return json.loads(answer[2])
    except ValueError:
        return {}


def rate(port):
    fact(get(port, "free")[0] == 200, "a request within its rate is served")
    before = served("slow")
    answers = [get(port, "slow") for _ in range(12)]
    passed = sum(a[0] == 200 for a in answers)
    refused = [a for a in answers if a[0] == 429]
    fact(1 <= passed <= 4 and passed + len(refused) == 12, "a tenant over its rate is told 429")
    fact(served("slow") - before == passed, "what is refused does not reach the backend")
    status, headers, body = refused[-1] if refused else (0, {}, b"")
    fact(headers.get("x-admitd-reason") == "request_rate" and int(headers.get("retry-after", "0")) >= 1, "headers say why, and when to come again")
    doc = document((status, headers, body))
    fact(doc.get("code") == 462 and doc.get("partition") == "slow", "the body is the document that clients of a gate get")
    fact(headers.get("content-type") == "application/problem+json", "and is called so")
    fact("x-ratelimit-limit" in headers, "Envoy words the limit in X-RateLimit fields")
    fact(get(port, "free")[0] == 200, "other tenants are not touched")


def concurrency(port):
    before = served("narrow")
    answers, threads = [], []
    for _ in range(2):
        threads.append(threading.Thread(target=lambda: answers.append(get(port, "narrow", "/hold"))))
        threads[-1].start()
    fact(until(20, lambda: served("narrow") - before == 2), "as many requests as the limit are at the backend")
    status, headers, _ = get(port, "narrow", headers={"x-request-id": "chosen"})
    fact(status == 429 and headers.get("x-admitd-reason") == "concurrency_limit", "one more is refused while they are held")
    fact(partition("narrow").get("inFlight") == 2, "admitd holds a permit for each")
    get(os.environ["BACKEND"], "", "/release")
    for t in threads:
        t.join()
    fact([a[0] for a in answers] == [200, 200], "both are served in the end")
    fact(until(20, lambda: partition("narrow").get("inFlight") == 0), "the end of a stream gives its permit back")
    get(port, "narrow", "/busy")
    fact(until(20, lambda: partition("narrow").get("inFlight") == 0), "so does one that the backend refuses")
    fact(until(20, lambda: partition("narrow")["counts"]["dropped"] == 1), "and its 503 counts as dropped")


def authorize(port):
    answers = [get(port, "slow") for _ in range(12)]
    refused = [a for a in answers if a[0] == 429]
    fact(any(a[0] == 200 for a in answers) or get(port, "free")[0] == 200, "a request within its rate is served")
    fact(len(refused) >= 8, "a tenant over its rate is told 429")
    doc = document(refused[-1]) if refused else {}
    fact(doc.get("reason") == "request_rate" and doc.get("partition") == "slow", "the ingress identified the tenant by its own rules")
    fact(bool(refused) and refused[-1][1].get("content-type") == "application/problem+json" and "retry-after" in refused[-1][1], "with the headers of every refusal")
    fact(get(port, "free", headers={"x-admitd-permit": "forged"})[0] == 200, "other tenants are not touched")


def load(port, seconds, per_second, out):
    """Asks at a steady pace over one connection; out gets what is served, and
    what is asked, per second, after two seconds."""
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    start = time.monotonic()
    n = asked = passed = 0
    while (now := time.monotonic() - start) < seconds:
        if n > now * per_second:
            time.sleep(0.005)
            continue
        n += 1
        c.request("GET", "/", headers={"x-tenant": "shared"})
        r = c.getresponse()
        r.read()
        asked += now > 2
        passed += r.status == 200 and now > 2
    c.close()
    out.append((passed / (seconds - 2), asked / (seconds - 2)))


def quota(first, second):
    both, alone = [], []
    threads = [threading.Thread(target=load, args=(p, 7, 80, both)) for p in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    total = sum(b[0] for b in both)
    print(f"two Envoys serve (of those asked, a second) {both}, of 50")
    fact(35 <= total <= 58, "two Envoys serve one rate of 50 a second between them")
    fact(min(b[0] for b in both) >= 0.25 * total, "both have a share of it")
    load(first, 22, 80, alone)
    print(f"one of them alone, in 20 s, serves {alone[0]}")
    fact(alone[0][0] <= 58 and alone[0][0] > max(b[0] for b in both) * 1.2, "one of them has most of it when the other is idle")


def away(rate_port, concurrency_port, authorize_port, quota_port):
    fact(all(get(rate_port, "slow")[0] == 200 for _ in range(6)), "with admitd away rates pass, as failure_mode_deny says")
    fact(get(concurrency_port, "narrow")[0] == 200, "so do permits")
    fact(all(get(authorize_port, "slow")[0] == 200 for _ in range(6)), "and authorization, as failure_mode_allow says")
    out = []
    load(quota_port, 4, 200, out)
    fact(0 < out[0][0] < 0.7 * out[0][1], "quota shares go on by the last assignment")


globals()[sys.argv[1]](*sys.argv[2:])
sys.exit(failed)
