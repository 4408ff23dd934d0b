"""PyMongo: work, refusals, and what this generation makes of them."""
import os
import threading
import time
import urllib.request

import pymongo
from pymongo import CursorType, WriteConcern, monitoring
from pymongo.errors import OperationFailure, PyMongoError

from facts import brisk, end, fact

GATE, WRONG, TLS, DIRECT, PORT = (os.environ[n] for n in ("GATE", "WRONG", "TLS", "DIRECT", "GATE_PORT"))
GENERATION, WITHOUT = os.environ["GENERATION"], os.environ.get("WITHOUT", "").split()  # what the server cannot do
ATTEMPTS = 1 if GENERATION == "absent" else 3
NAME = "py" + pymongo.version.replace(".", "")


class Watch(monitoring.CommandListener, monitoring.ConnectionPoolListener):
    """Counts attempts and new connections, and when attempts began and ended."""

    def __init__(self):
        self.began, self.ended, self.replies, self.created = [], [], [], 0

    def started(self, event):
        if event.command_name in ("find", "insert"):
            self.began.append(time.monotonic())

    def succeeded(self, event):
        pass

    def failed(self, event):
        self.ended.append(time.monotonic())
        self.replies.append(event.failure)

    def connection_created(self, event):
        self.created += 1

    def __getattr__(self, name):  # the other events of a pool
        if name.startswith(("connection_", "pool_")):
            return lambda event: None
        raise AttributeError(name)

    def clear(self):
        self.__init__()

    connection_ready = connection_closed = connection_check_out_started = connection_check_out_failed = lambda self, event: None
    connection_checked_out = connection_checked_in = pool_created = pool_ready = pool_cleared = pool_closed = lambda self, event: None


def received():
    """How many operations the gate has seen, that are no handshakes."""
    with urllib.request.urlopen(os.environ["ADMIN"] + "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('admitd_requests_received_total{') and 'ingress="db"' in line)


def work(client):
    things = client[NAME].things
    things.drop()
    things.insert_many([{"_id": n, "half": n // 2} for n in range(1000)])
    things.create_index("half")
    got = [d["_id"] for d in things.find().sort("_id", 1).batch_size(100)]
    fact("login with SCRAM; 1000 documents in, an index, a cursor of ten batches", got == list(range(1000)), len(got))
    total = next(things.aggregate([{"$group": {"_id": None, "n": {"$sum": "$half"}}}]))["n"]
    fact("an aggregation", total == sum(n // 2 for n in range(1000)), total)
    fact("the driver knows of no server but the gate", client.nodes == {("127.0.0.1", int(PORT))}, client.nodes)
    unacknowledged(client)
    if "transactions" not in WITHOUT:
        transactions(client, things)
    if "streams" not in WITHOUT:
        before = received()
        got = [d["_id"] for d in things.find(cursor_type=CursorType.EXHAUST).batch_size(100)]
        seen = received() - before
        fact("an exhaust cursor: ten batches for one find and one getMore", len(got) == things.count_documents({}) and seen == 2, (len(got), seen))


def unacknowledged(client):
    """A reply to a write that wants none must not be taken for that of the next command."""
    silent = client[NAME].get_collection("silent", write_concern=WriteConcern(w=0))
    silent.drop()
    right = True
    for n in range(20):
        silent.insert_one({"_id": n})
        right = right and client[NAME].things.find_one(n)["_id"] == n
    for _ in range(50):
        there = silent.count_documents({})
        if there == 20:
            break
        time.sleep(0.1)
    fact("twenty unacknowledged writes among reads: each read has its own answer", right and there == 20, (right, there))


def transactions(client, things):
    with client.start_session() as session:
        with session.start_transaction():
            things.insert_one({"_id": "committed"}, session=session)
        session.start_transaction()
        things.insert_one({"_id": "aborted"}, session=session)
        session.abort_transaction()
    fact("a transaction that commits, and one that aborts", things.find_one("committed") is not None and things.find_one("aborted") is None)
    with things.watch(max_await_time_ms=500) as stream:
        things.insert_one({"_id": "watched"})
        change = stream.next()
    fact("a change stream", change["documentKey"]["_id"] == "watched", change)


def refusals(client, watch):
    things = client.spent.things
    for name, op in (("a read", lambda: things.find_one(max_time_ms=4000)), ("a write", lambda: things.insert_one({"from": NAME}))):
        watch.clear()
        try:
            op()
            error = None
        except OperationFailure as e:
            error = e
        fact(f"{name} is refused with 462 and both labels", error is not None and error.code == 462 and error.has_error_label("SystemOverloadedError") and error.has_error_label("RetryableError"), error)
        fact(f"{name}: {ATTEMPTS} attempt{'s' * (ATTEMPTS > 1)}, on connections that are there", len(watch.began) == ATTEMPTS and watch.created == 0, (len(watch.began), watch.created))
    fact("a refused write is not at the server", pymongo.MongoClient(DIRECT).spent.things.count_documents({"from": NAME}) == 0)


def waits(client, watch):
    """Backoff is jitter times base times two to the number of the retry: the third generation counts from one, the
    second from zero."""
    worst, total, n = 0.0, 0.0, 0
    for _ in range(10):
        watch.clear()
        try:
            client.spent.things.find_one(max_time_ms=800)
        except PyMongoError:
            pass
        for i in range(min(2, len(watch.began) - 1)):
            base = 2 * watch.replies[i]["baseBackoffMS"] if GENERATION == "2" else 100
            waited = (watch.began[i + 1] - watch.ended[i]) * 1000
            worst, total, n = max(worst, waited / (base * 2**i)), total + waited / (base * 2**i), n + 1
    mean = total / max(n, 1)
    what = "baseBackoffMS" if GENERATION == "2" else "its own 100 ms"
    brisk(f"it waits between attempts as {what} says: at most {worst:.2f} of it, {mean:.2f} on average of {n}", worst < 1.5 and 0.2 < mean < 0.9, (worst, mean, n))


def third(client, watch):
    """Eight threads ask for about half as much again as the rate."""
    watch.clear()
    done, failed, other = [], [], []

    def run():
        for _ in range(40):
            try:
                client.third.things.find_one()
                done.append(1)
            except OperationFailure as e:
                (failed if e.code == 462 else other).append(e)
            time.sleep(0.1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    fact(f"overloaded, every failure is 462 and no connection is lost: {len(failed)} of 320 operations failed in {len(watch.began)} attempts",
         not other and watch.created <= 8 and len(done) > 100 and len(failed) + len(done) == 320, (len(done), other[:2], watch.created))
    refused = len(watch.began) - len(done)
    brisk(f"{100 * refused // len(watch.began)} % of the attempts were refused", refused > 50, refused)


watch = Watch()
with pymongo.MongoClient(GATE, event_listeners=[watch], serverSelectionTimeoutMS=10_000) as main:
    work(main)
    refusals(main, watch)
    if GENERATION != "absent":
        waits(main, watch)
    third(main, watch)
try:
    pymongo.MongoClient(WRONG, serverSelectionTimeoutMS=5000).db.things.find_one()
    wrong = None
except OperationFailure as e:
    wrong = e
fact("a wrong password is the server's answer 18", wrong is not None and wrong.code == 18, wrong)
with pymongo.MongoClient(TLS, serverSelectionTimeoutMS=10_000) as secure:
    secure[NAME].things.insert_one({"_id": "tls"})
    fact("the same over TLS to the gate", secure[NAME].things.find_one("tls") is not None)
if "SQUEEZED" in os.environ:
    with pymongo.MongoClient(os.environ["SQUEEZED"], compressors="zlib") as squeezed:
        things = squeezed[NAME].squeezed
        things.drop()
        things.insert_many([{"_id": n, "pad": "x" * 200} for n in range(200)])
        got = len(list(things.find().batch_size(50)))
        try:
            squeezed.spent.things.find_one(max_time_ms=800)
            code = 0
        except OperationFailure as e:
            code = e.code
        fact("compressed with zlib: 200 documents in and out, a refusal that is not, and on", got == 200 and code == 462 and things.find_one(7)["_id"] == 7, (got, code))
end()
