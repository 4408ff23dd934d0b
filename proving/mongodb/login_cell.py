"""PyMongo without credentials: what operations before a login cost."""
import json
import os
import urllib.request

import pymongo
from pymongo.errors import OperationFailure

from facts import end, fact

ADMIN, LEARNS, GATED = (os.environ[n] for n in ("ADMIN", "LEARNS", "GATED"))  # both have five tokens


def codes(port, times, credentials=""):
    """What so many reads are answered, 0 = done."""
    got = []
    with pymongo.MongoClient(f"mongodb://{credentials}127.0.0.1:{port}/?authSource=admin&replicaSet=secantus", retryReads=False) as client:
        for _ in range(times):
            try:
                client.db.things.find_one()
                got.append(0)
            except OperationFailure as e:
                got.append(e.code)
    return got


def in_force(name):
    with urllib.request.urlopen(f"{ADMIN}/v1/status?ingress={name}") as answer:
        for ingress in json.load(answer)["ingresses"]:
            if ingress["name"] == name:
                return ingress["details"]["unauthenticated"]


fact("before anybody was refused operations without a login cost tokens", in_force("learns") == "gate", in_force("learns"))
got = codes(LEARNS, 30)
fact("the server refuses 30 of them, and one token was spent", got == [13] * 30 and in_force("learns") == "pass", got)
got = codes(LEARNS, 8, "driver:secret@")
fact("who logs in pays for what it does, and not for the login: four reads of eight", got == [0] * 4 + [462] * 4, got)
got = codes(LEARNS, 5)
fact("then who does not is refused by the server as before", got == [13] * 5, got)
got = codes(GATED, 8)
fact("unauthenticated: gate has them pay like all others", got == [13] * 5 + [462] * 3, got)
end()
