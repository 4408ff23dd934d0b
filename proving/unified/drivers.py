"""How the tests of each driver are listed, run and read. A job is a tuple of words that the driver's class understands.

What runs is described by the environment: TESTS is the directory that specs.py has made.
"""
import os
import re
import subprocess
import xml.etree.ElementTree as xml

TESTS = os.environ.get("TESTS", "")
SUITES = {  # of the specifications, and where PyMongo keeps them
    "client-backpressure/tests": "client-backpressure",
    "retryable-reads/tests/unified": "retryable_reads/unified",
    "retryable-writes/tests/unified": "retryable_writes/unified",
    "transactions/tests/unified": "transactions/unified",
    "transactions-convenient-api/tests/unified": "transactions-convenient-api/unified",
    "server-discovery-and-monitoring/tests/unified": "discovery_and_monitoring/unified",
    "server-selection/tests/logging": "server_selection_logging",
    "crud/tests/unified": "crud/unified",
    "sessions/tests": "sessions",
    "change-streams/tests/unified": "change_streams/unified",
    "client-side-operations-timeout/tests": "csot",
    "command-logging-and-monitoring/tests/monitoring": "command_monitoring",
    "command-logging-and-monitoring/tests/logging": "command_logging",
    "connection-monitoring-and-pooling/tests/logging": "connection_logging",
    "causal-consistency/tests": "causal_consistency",
    "collection-management/tests": "collection_management",
    "gridfs/tests": "gridfs",
    "index-management/tests": "index_management",
    "mongodb-handshake/tests/unified": "handshake/unified",
    "run-command/tests/unified": "run_command/unified",
    "versioned-api/tests": "versioned-api",
    "unified-test-format/tests/valid-pass": "unified-test-format/valid-pass",
}
# What no driver may leave out: a run in which one of these passes nothing has proven nothing.
NAMED = ["client-backpressure", "retryable-reads", "retryable-writes", "transactions", "crud"]


def suite_files(suite, size):
    """Returns the files of a suite, at most size of them at a time."""
    files = sorted(f for f in os.listdir(f"{TESTS}/test/{SUITES[suite]}") if f.endswith(".json"))
    return [files[i : i + size] for i in range(0, len(files), size)]


def uri(port):
    """Returns the address of a server. Tests want secondaries that are not there: no driver waits 30 s for one."""
    return f"mongodb://127.0.0.1:{port}/?replicaSet=secantus&serverSelectionTimeoutMS=5000"


class Go:
    """The driver's own runner for unified tests, compiled: GO_TESTS."""

    named = [*NAMED, "server-discovery-and-monitoring"]

    def jobs(self, _):
        return [(suite, "^(" + "|".join(re.escape(f) for f in files) + ")$") for suite in SUITES for files in suite_files(suite, 6)]

    def command(self, job, port, _):
        suite, pattern = job
        run = "/".join(["^TestUnifiedSpec$", *(f"^{part}$" for part in suite.split("/")), pattern])
        return [os.environ["GO_TESTS"], "-test.v", "-test.run", run], {"MONGODB_URI": uri(port), "PROJECT_DIRECTORY": TESTS}, os.environ["LOGS"]

    def verdicts(self, log):
        with open(log, encoding="utf-8", errors="replace") as f:
            told = re.findall(r"^ *--- (PASS|FAIL|SKIP): TestUnifiedSpec/(\S+\.json/.+) \([0-9.]+s\)$", f.read(), re.M)
        return {test: verdict for verdict, test in told}

    def suite(self, test):
        return test.split("/")[0]

    def only(self, test):
        suite = next(s for s in SUITES if test.startswith(s + "/"))
        return suite, "/".join(f"^{re.escape(part)}$" for part in test[len(suite) + 1 :].split("/"))


class PyMongo:
    """The driver's own tests, prose included: PYMONGO is a Python that has the driver and pytest."""

    named = [*NAMED, "discovery-and-monitoring", "server-selection"]
    modules = """client_backpressure retryable_reads retryable_reads_unified retryable_writes retryable_writes_unified transactions
        transactions_unified discovery_and_monitoring sdam_monitoring_spec streaming_protocol server_selection
        server_selection_in_window server_selection_logging crud_unified client_bulk_write sessions_unified change_stream""".split()
    # These fail directly, after waits of 30 s for what SecantusDB does not do, or want a secondary.
    without = "not ErrorPropagation and not RediscoverQuickly and not test_secondary_readPreference"

    def jobs(self, pairs):
        """Returns the classes of tests, dealt out in turn: those that stand together take about as long."""
        argv, env, cwd = self.command([f"test/test_{m}.py" for m in self.modules], pairs[0][0], os.devnull)
        listed = subprocess.run([*argv, "--collect-only"], env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, timeout=120, check=True)
        classes = list(dict.fromkeys(line.rpartition("::")[0] for line in listed.stdout.splitlines() if line.count("::") == 2))
        return [classes[i :: 3 * len(pairs)] for i in range(3 * len(pairs))]

    def command(self, job, port, log):
        argv = [os.environ["PYMONGO"], "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short", "-W", "ignore", "-k", self.without, "--junitxml", f"{log}.xml"]
        return [*argv, *job], {"DB_IP": "127.0.0.1", "DB_PORT": str(port), "PYTHONPATH": ""}, TESTS

    def verdicts(self, log):
        try:
            cases = list(xml.parse(f"{log}.xml").iter("testcase"))
        except (OSError, xml.ParseError):
            return {}
        seen = {}
        for case in cases:
            tags = {t.tag for t in case}
            module, _, name = case.get("classname").rpartition(".")
            seen[f"{module.replace('.', '/')}.py::{name}::{case.get('name')}"] = "FAIL" if tags & {"failure", "error"} else "SKIP" if "skipped" in tags else "PASS"
        return seen

    def suite(self, test):
        module = test.split("::")[0].removeprefix("test/test_").removesuffix(".py")
        return re.sub("_(unified|in_window|logging)$", "", module).replace("_", "-")

    def only(self, test):
        return (test,)


class Node:
    """Tests of the specifications, by the runner in node, since the package has no tests: NODE_PATH has the driver."""

    named = [*NAMED, "server-discovery-and-monitoring"]
    more = ["sessions", "transactions-convenient-api", "causal-consistency", "run-command"]
    runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node", "run.js")

    def jobs(self, _):
        suites = [s for s in SUITES if s.split("/")[0] in self.named + self.more]
        return [tuple(f"{SUITES[suite]}/{f}" for f in files) for suite in suites for files in suite_files(suite, 8)]

    def command(self, job, port, _):
        return ["node", self.runner, uri(port), *job], {}, f"{TESTS}/test"

    def verdicts(self, log):
        with open(log, encoding="utf-8", errors="replace") as f:
            return {test: verdict for verdict, test in re.findall(r"^(PASS|FAIL|SKIP) (\S+\.json/.+)$", f.read(), re.M)}

    def suite(self, test):
        kept = test[: test.index(".json/")].rpartition("/")[0]
        return next(s for s, k in SUITES.items() if k == kept).split("/")[0]

    def only(self, test):
        end = test.index(".json/") + 5
        return test[:end], "--only", test[end + 1 :]


by_name = {"go": Go, "node": Node, "pymongo": PyMongo}
