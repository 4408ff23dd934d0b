"""Lays the official tests out as the Go driver looks for them, from PyMongo's source archive: specs.py ARCHIVE DIRECTORY."""
import os
import pathlib
import sys
import tarfile

from drivers import SUITES

archive, root = sys.argv[1], pathlib.Path(sys.argv[2])
with tarfile.open(archive) as files:
    for member in files.getmembers():
        member.name = member.name.partition("/")[2]
        if member.name.startswith("test/"):
            files.extract(member, root, filter="data")
for suite, kept in SUITES.items():
    place = root / "testdata" / "specifications" / "source" / suite
    place.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(root / "test" / kept, place)
