"""How a Python cell tells its facts."""
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


def end():
    sys.exit(1 if failed else 0)
