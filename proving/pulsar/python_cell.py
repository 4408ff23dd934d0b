"""The Python client, which is the C++ client."""
import os
import threading
import time
import urllib.request

import pulsar

from facts import brisk, end, fact

URL, TLS, FEW, TOKEN, CERT, ADMIN = (os.environ[n] for n in ("GATE_URL", "GATE_TLS_URL", "FEW_URL", "TOKEN", "CERT", "BROKER_ADMIN"))
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def client(url=URL, **more):
    return pulsar.Client(url, authentication=pulsar.AuthenticationToken(TOKEN), logger=QUIET,
                         operation_timeout_seconds=5, **more)


def consumer(c, topic):
    return c.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest, batch_index_ack_enabled=True)


def receive(s, n):
    got = []
    for _ in range(n):
        m = s.receive(timeout_millis=20_000)
        got.append(m.data())
        s.acknowledge(m)
    return got


def publish(p, n):
    """Sends n messages and returns the results of their receipts."""
    results, done = [], threading.Event()

    def landed(result, _):
        results.append(result)
        if len(results) == n:
            done.set()

    for i in range(n):
        p.send_async(str(i).encode(), landed)
    done.wait(60)
    return results


def numbers(n):
    return [str(i).encode() for i in range(n)]


def work(c):
    p = c.create_producer("py-batches", batching_enabled=True, compression_type=pulsar.CompressionType.ZSTD, batching_max_publish_delay_ms=5,
                          block_if_queue_full=True)
    s = consumer(c, "py-batches")
    ok = publish(p, 3000) == [pulsar.Result.Ok] * 3000
    fact("3000 messages in compressed batches, in order", ok and receive(s, 3000) == numbers(3000))
    s.close()
    p = c.create_producer("py-chunks", batching_enabled=False, chunking_enabled=True)
    s = consumer(c, "py-chunks")
    big = b"0123456789" * 1_200_000
    p.send(big)
    fact("a message of 12 MB in chunks of 5 MiB", receive(s, 1) == [big])
    s.close()
    s = consumer(c, "py-nack")
    p = c.create_producer("py-nack")
    p.send(b"again")
    s.negative_acknowledge(s.receive(timeout_millis=10_000))
    s.close()
    s = consumer(c, "py-nack")
    fact("a message that was not acknowledged comes again", receive(s, 1) == [b"again"])
    s.close()


def held(c):
    slow = c.create_producer("held-py", batching_enabled=False)
    fast = c.create_producer("py-neighbour", batching_enabled=False)
    s = consumer(c, "held-py")
    took, results = [], []

    def run():
        began = time.monotonic()
        results.extend(publish(slow, 60))
        took.append(time.monotonic() - began)

    t = threading.Thread(target=run)
    t.start()
    published = 0
    while t.is_alive():
        fast.send(b"x")
        published += 1
    fact("60 messages to a topic of 20 a second arrive at their rate, and none fails", results == [pulsar.Result.Ok] * 60 and took[0] > 1.5, (took, results))
    brisk("a neighbour on the same connection publishes at least 5 times as much meanwhile", published >= 300, published)
    fact("what was held is in order", receive(s, 60) == numbers(60))
    s.close()


def unloaded(c):
    p = c.create_producer("py-unloaded", batching_enabled=False, send_timeout_millis=30_000)
    s = consumer(c, "py-unloaded")
    stop = threading.Event()

    def unload():
        while not stop.wait(0.4):
            urllib.request.urlopen(urllib.request.Request(f"{ADMIN}/admin/v2/persistent/public/default/py-unloaded/unload", method="PUT"))

    t = threading.Thread(target=unload)
    t.start()
    n, began = 0, time.monotonic()
    while time.monotonic() - began < 2.5:
        p.send(str(n).encode())
        n += 1
    stop.set()
    t.join()
    seen = set()  # some come twice after an unload
    while len(seen) < n:
        seen.update(receive(s, 1))
    fact("the topic is unloaded while its producer publishes: no message is lost", seen == set(numbers(n)), n)
    s.close()


def refused():
    c = client(FEW)
    first = c.create_producer("py-few-1")
    try:
        c.create_producer("py-few-2")
        error = None
    except pulsar.PulsarException as e:
        error = e
    first.send(b"x")
    fact(f"a producer too many fails at once with TooManyRequests ({type(error).__name__}), and the connection stays", error is not None, error)
    c.close()


def over_tls():
    c = client(TLS, tls_trust_certs_file_path=CERT)
    p = c.create_producer("py-tls", batching_enabled=False)
    s = consumer(c, "py-tls")
    publish(p, 100)
    fact("the same over TLS to the gate, with a token", receive(s, 100) == numbers(100))
    c.close()


main = client()
work(main)
held(main)
unloaded(main)
main.close()
refused()
over_tls()
end()
