"""Tries the client on a gate whose ingress "jobs" has two permits and the token "secret"."""
import sys

from admitd import Gate, Refused

gate = Gate(sys.argv[1], token="secret")


def refused(**asked):
    try:
        with gate.permit("jobs", **asked):
            return None
    except Refused as refusal:
        return refusal


with gate.permit("jobs", partition="py", ttl=60), gate.permit("jobs", partition="py", ttl=60):
    third = refused(partition="py")
    assert third is not None and third.reason == "concurrency_limit" and third.retry_after > 0, third
assert refused(partition="py") is None, "permits came back"
assert refused(cost=5000).retry_after is None, "what can never pass says so"
try:
    with gate.permit("jobs", partition="py"):
        raise ValueError("the work failed")
except ValueError:
    pass
gate.end("nobody's")
for wrong in (Gate(sys.argv[1]), Gate("http://127.0.0.1:1", timeout=1)):
    try:
        wrong.admit("jobs")
        raise AssertionError("admitted")
    except OSError:
        pass
print("ok")
