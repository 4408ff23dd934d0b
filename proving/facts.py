"""How a Python cell tells its facts."""
import os
import sys

failed = False


def fact(what, holds, seen=None):
    """Tells one fact; what was seen is for the one who has to find out why not."""
    global failed
    if holds:
        print("ok", what, flush=True)
    else:
        failed = True
        print("not ok", what, "- saw", repr(seen)[:500], flush=True)


def brisk(what, holds, seen=None):
    """Tells one that is about speed, which is not judged on a busy machine."""
    load = os.getloadavg()[0]
    if not holds and load > 3 * os.cpu_count():
        print(f"# not judged at a load of {load}: {what} - saw {seen!r}", flush=True)
    else:
        fact(what, holds, seen)


def end():
    sys.exit(1 if failed else 0)
