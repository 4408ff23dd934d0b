"""psycopg 3 and its pool."""
import json
import threading
import time

import psycopg
import psycopg_pool

from facts import end, fact
from scene import DIRECT, DOOR, GATE


def url(port, application="prove"):
    return f"postgres://driver:secret@127.0.0.1:{port}/app?application_name={application}"


def pid(conn):
    return conn.execute("select pg_backend_pid()").fetchone()[0]


def refused(conn, statement="select 1"):
    """The error of a statement, or None."""
    try:
        conn.execute(statement)
    except psycopg.Error as e:
        return e


def work():
    with psycopg.connect(url(GATE), autocommit=True) as conn:
        conn.execute("create table things (n int primary key, word text)")
        with conn.cursor() as cur, cur.copy("copy things from stdin") as copy:
            for n in range(10_000):
                copy.write_row((n, f"word {n}"))
        with conn.cursor(binary=True) as cur:
            cur.execute("select count(*), max(n) from things where n >= %s", (5,), prepare=True)
            row = cur.fetchone()
        fact("SCRAM login, COPY of 10,000 rows, a prepared statement in binary", row == (9995, 9999), row)
        with conn.pipeline():
            cursors = [conn.execute("select %s::int", (n,)) for n in range(50)]
        got = [c.fetchone()[0] for c in cursors]
        fact("a pipeline of 50 answers in order", got == list(range(50)), got)
        with conn.cursor("server_side") as cur, conn.transaction():
            cur.execute("select n from things order by n")
            fact("a server-side cursor inside a transaction", len(cur.fetchmany(700)) == 700)


def refusals():
    with psycopg.connect(url(GATE), autocommit=True) as conn:
        mine = pid(conn)
        conn.execute("set application_name = 'full'")
        error = refused(conn)
        document = json.loads(error.diag.message_detail) if error else {}
        fact("a full partition is SQLSTATE 53000, with the document in DETAIL",
             error is not None and error.sqlstate == "53000" and document.get("reason") == "concurrency_limit", error)
        fact("HINT says how long to wait", bool(error and error.diag.message_hint), error)
        conn.execute("set application_name = 'rated'")
        error = refused(conn)
        fact("a spent rate is SQLSTATE 53400", error is not None and error.sqlstate == "53400", error)
        conn.execute("set application_name = 'prove'")
        fact("the connection is as good as before: same server process", pid(conn) == mine and not conn.closed)

        conn.execute("set application_name = 'full'")
        try:
            with conn.pipeline():
                conn.execute("select 1")
                conn.execute("select 2")
            error = None
        except psycopg.Error as e:
            error = e
        conn.execute("set application_name = 'prove'")
        fact("a pipeline is refused in its place, and the next one is not",
             error is not None and error.sqlstate == "53000" and pid(conn) == mine, error)
        with conn.transaction():
            conn.execute("select 1")
            conn.execute("set local application_name = 'full'")
            fact("a statement inside a transaction is never refused", refused(conn) is None)


def pool():
    with psycopg_pool.ConnectionPool(url(GATE), min_size=1, max_size=1, open=True) as p:
        with p.connection() as conn:
            mine = pid(conn)
        try:
            with p.connection() as conn:
                conn.autocommit = True
                conn.execute("set application_name = 'full'")
                conn.execute("select 1")
        except psycopg.OperationalError as e:
            error = e
        except psycopg.Error as e:
            error = e
        with p.connection() as conn:
            conn.execute("set application_name = 'prove'")
            again = pid(conn)
        fact(f"psycopg_pool keeps a connection that was refused ({type(error).__name__})", again == mine, (mine, again))


def door():
    first = psycopg.connect(url(DOOR))
    try:
        psycopg.connect(url(DOOR)).close()
        error = None
    except psycopg.OperationalError as e:
        error = e
    fact("a full door is a failed login that says 53300", "too many connections" in str(error).lower() or "53300" in str(error), error)
    threading.Timer(1, first.close).start()
    began = time.monotonic()
    with psycopg_pool.ConnectionPool(url(DOOR), min_size=1, max_size=1, open=True) as p, p.connection(timeout=20) as conn:
        fact("psycopg_pool tries again until there is a place", pid(conn) > 0 and time.monotonic() - began > 0.5)


work()
refusals()
pool()
door()
end()
