"""What the Python cells share: where things are, and how a fact is told."""
import os
import sys

GATE, DOOR, DIRECT = (int(os.environ[name]) for name in ("GATE", "DOOR", "DIRECT"))
failed = False


def fact(what, holds, seen=None):
    """Tells one fact; what was seen is for the one who has to find out why not."""
    global failed
    if holds:
        print("ok", what, flush=True)
    else:
        failed = True
        print("not ok", what, "- saw", repr(seen), flush=True)


def end():
    sys.exit(1 if failed else 0)
