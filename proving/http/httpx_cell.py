"""httpx, which does not retry answers by itself: the application reads the wait."""
import asyncio
import os
import ssl
import time

import httpx

from facts import end, fact

PLAIN, TLS, CERT = (os.environ[n] for n in ("PLAIN", "TLS", "CERT"))


async def main():
    context = ssl.create_default_context(cafile=CERT)
    async with httpx.AsyncClient(http2=True, verify=context) as c:
        answers = await asyncio.gather(*(c.get(f"{TLS}/many/{n}") for n in range(200)))
        fact("200 requests at once over one HTTP/2 connection",
             all(a.status_code == 200 and a.http_version == "HTTP/2" for a in answers))
        mixed = await asyncio.gather(*(c.get(f"{TLS}/mixed", headers={"X-Tenant": "full" if n % 2 else "other"}) for n in range(100)))
        fact("refusals among them touch no other stream",
             [a.status_code for a in mixed] == [200, 503] * 50, [a.status_code for a in mixed])
        up = await asyncio.gather(*(c.post(f"{TLS}/up", content=b"x" * 10_000, headers={"X-Tenant": "full" if n % 2 else "other"}) for n in range(10)))
        fact("nor do refused uploads that fit into the first window", [a.status_code for a in up] == [200, 503] * 5, [a.status_code for a in up])

        beat = {"X-Tenant": "beat-httpx"}
        await c.get(f"{TLS}/beat-httpx", headers=beat)
        r = await c.get(f"{TLS}/beat-httpx", headers=beat)
        fact("429 with the document, RateLimit and its policy", r.status_code == 429 and "RateLimit" in r.headers and "RateLimit-Policy" in r.headers, r.headers)
        exact = r.json()["retryAfterMS"]
        time.sleep(exact / 1000)
        r = await c.get(f"{TLS}/beat-httpx", headers=beat)
        fact("who waits retryAfterMS of the document gets through", r.status_code == 200, (exact, r.status_code))
    # Over HTTP/2 httpcore cannot take an answer that comes in the middle of a large
    # body: it goes on writing to a stream that is closed. Over HTTP/1.1 it can.
    async with httpx.AsyncClient() as c:
        up = await asyncio.gather(*(c.post(f"{PLAIN}/up", content=b"x" * 200_000, headers={"X-Tenant": "full" if n % 2 else "other"}) for n in range(10)))
        fact("refused uploads of 200 kB over HTTP/1.1", [a.status_code for a in up] == [200, 503] * 5, [a.status_code for a in up])


asyncio.run(main())
end()
