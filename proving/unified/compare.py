"""Runs the tests of a driver directly and through the gate, and compares them test by test.

    compare.py DRIVER     one of those in drivers.py

PAIRS is "DIRECT:GATE …": ports of a server, and of a gate before another server that is the same. A fail point
belongs to a whole server, so on each pair one job runs at a time, on both sides at once. A test that passes directly
and fails through the gate is run alone, on both sides again: it counts when it passed directly and failed through the
gate three times more, and never passed there. On a busy machine some tests fail alone on both sides; they say nothing
about the gate, as those that fail directly in the first place, and are counted as such.
"""
import collections
import os
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.request

import drivers
from facts import end, fact

JOB_S = 600  # a job that takes longer is ended, and what it has not told is missing
cut = []  # logs of jobs that were ended so
AGAIN = 3
AGAIN_TRIES = 8  # to see a test pass directly, and fail through the gate, that often
AGAIN_MAX = 100  # more suspects than this are no accident


def run(driver, job, port, log):
    """Runs a job against the server at port, and returns the verdict of each test that it told: PASS, FAIL or SKIP."""
    argv, env, cwd = driver.command(job, port, log)
    with open(log, "wb") as out:
        try:
            subprocess.run(argv, env={**os.environ, **env}, cwd=cwd, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=JOB_S)
        except subprocess.TimeoutExpired:
            out.write(b"\nended: it took too long\n")
            cut.append(log)
    return driver.verdicts(log)


def side_by_side(*calls):
    """Runs the functions at once, and returns what they return."""
    back = [None] * len(calls)

    def one(i):
        back[i] = calls[i]()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return back


def run_all(driver, jobs, pairs, logs):
    """Runs the jobs, as many at a time as there are pairs, and returns what each of the two sides told."""
    todo, seen = queue.Queue(), ({}, {})
    for n, job in enumerate(jobs):
        todo.put((n, job))

    def work(direct, gate):
        while True:
            try:
                n, job = todo.get_nowait()
            except queue.Empty:
                return
            began, log = time.monotonic(), f"{logs}-{n}"
            told = side_by_side(lambda: run(driver, job, direct, f"{log}.direct.log"), lambda: run(driver, job, gate, f"{log}.gate.log"))
            seen[0].update(told[0])
            seen[1].update(told[1])
            print(f"# {time.monotonic() - began:.1f} s, {len(told[0])} and {len(told[1])} tests: {log}", flush=True)

    side_by_side(*(lambda pair=pair: work(*pair) for pair in pairs))
    return seen


def alone(driver, seen, pairs, logs):
    """Returns the tests that pass directly and fail through the gate, also when they are run once more; how many passed
    there only then; and how many were not seen to pass directly while they failed: of these, seen says so."""
    direct, gate = seen
    first = suspects = [test for test, verdict in direct.items() if verdict == "PASS" and gate.get(test) != "PASS"]
    if len(suspects) > AGAIN_MAX:
        return suspects, 0, 0
    against = collections.Counter()
    for again in range(AGAIN_TRIES):
        if not suspects:
            break
        for test in suspects:
            print(f"# passes directly, {gate.get(test, 'not done')} through the gate: {test}", flush=True)
        told = run_all(driver, [driver.only(test) for test in suspects], pairs, f"{logs}-again-{again}")
        gate.update(told[1])
        against.update(test for test in suspects if told[0].get(test) == "PASS" and gate.get(test) != "PASS")
        suspects = [test for test in suspects if gate.get(test) != "PASS" and against[test] < AGAIN]
    for test in suspects:
        print(f"# fails directly too, {AGAIN_TRIES - against[test]} times of {AGAIN_TRIES}: {test}", flush=True)
        direct[test] = "FAIL"
    only = [test for test in first if against[test] >= AGAIN and gate.get(test) != "PASS"]
    return only, len(first) - len(only) - len(suspects), len(suspects)


def admitted():
    """Returns how many commands the gate has admitted since it began."""
    with urllib.request.urlopen(f"{os.environ['ADMIN']}/metrics", timeout=10) as page:
        return sum(float(n) for n in re.findall(r"^admitd_requests_admitted_total\{.*\} (\S+)$", page.read().decode(), re.M))


def tell(driver, seen, only, later, neither):
    """Tells a fact for each suite, and returns how many tests passed through the gate."""
    suites = collections.defaultdict(collections.Counter)
    for test, verdict in seen[0].items():
        suites[driver.suite(test)].update(direct=int(verdict == "PASS"), gate=int(seen[1].get(test) == "PASS"), only=int(test in only))
    for suite, n in sorted(suites.items()):
        if n["direct"]:
            fact(f"{suite}: {n['direct']} tests pass directly, {n['gate']} through the gate, {n['only']} fail through it alone", not n["only"], [t for t in only if driver.suite(t) == suite])
    missing = [suite for suite in driver.named if not suites[suite]["direct"]]
    more = f" ({later} passed when they ran alone)" * (later > 0) + f"; {neither} more passed once, and then failed on both sides" * (neither > 0)
    fact(f"in all {sum(n['direct'] for n in suites.values())} pass directly, and {len(only)} of these fail through the gate" + more, not only and not missing, missing)
    return sum(n["gate"] for n in suites.values())


def main(name):
    pairs = [tuple(int(port) for port in pair.split(":")) for pair in os.environ["PAIRS"].split()]
    logs = f"{os.environ['LOGS']}/{name}"
    driver, before = drivers.by_name[name](), admitted()
    seen = run_all(driver, driver.jobs(pairs), pairs, logs)
    # What a job that was ended directly has not told is compared with nothing; what it has not told through the gate alone, alone() sees.
    ended = [log for log in cut if log.endswith(".direct.log")]
    fact("every job came to its end where nothing stands between", not ended, ended)
    passed = tell(driver, seen, *alone(driver, seen, pairs, logs))
    commands = admitted() - before
    fact("they went through the gate, and not around it", commands > passed, (commands, passed))
    end()


main(sys.argv[1])
