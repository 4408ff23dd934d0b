"""Where the Python cells find things."""
import os

GATE, DOOR, DIRECT = (int(os.environ[name]) for name in ("GATE", "DOOR", "DIRECT"))
