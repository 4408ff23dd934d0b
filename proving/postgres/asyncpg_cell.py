"""asyncpg and its pool."""
import asyncio
import json

import asyncpg

from facts import end, fact
from scene import DOOR, GATE


def url(port):
    return f"postgres://driver:secret@127.0.0.1:{port}/app"


async def refused(conn, statement="select 1"):
    """The error of a statement, or None."""
    try:
        await conn.fetch(statement)
    except asyncpg.PostgresError as e:
        return e


async def call(conn, name):
    await conn.execute(f"set application_name = '{name}'")


async def work(conn):
    await conn.execute("create temp table things (n int, word text)")
    await conn.copy_records_to_table("things", records=[(n, f"word {n}") for n in range(5000)])
    statement = await conn.prepare("select count(*) from things where n >= $1")
    fact("COPY in binary, and a prepared statement", await statement.fetchval(1000) == 4000)
    await conn.executemany("insert into things values ($1, $2)", [(n, "more") for n in range(500)])
    fact("executemany in one pipeline", await conn.fetchval("select count(*) from things") == 5500)
    async with conn.transaction():
        seen = [r["n"] async for r in conn.cursor("select n from things order by n limit 600", prefetch=100)]
    fact("a cursor that fetches by the hundred inside a transaction", len(seen) == 600, len(seen))


async def refusals(conn):
    mine = await conn.fetchval("select pg_backend_pid()")
    await call(conn, "full")
    error = await refused(conn)
    fact("a full partition is 53000 with the document in DETAIL",
         error is not None and error.sqlstate == "53000" and json.loads(error.detail)["reason"] == "concurrency_limit", error)
    await call(conn, "rated")
    error = await refused(conn)
    fact("a spent rate is 53400", error is not None and error.sqlstate == "53400", error)
    await call(conn, "prove")
    fact("the connection stays, and so do its prepared statements",
         await conn.fetchval("select pg_backend_pid()") == mine and await refused(conn) is None)
    await call(conn, "slow")
    got = await asyncio.gather(*(one(n) for n in range(8)))
    fact("8 connections take turns in a partition with one permit: all wait, none is refused", got == list(range(8)), got)
    await call(conn, "prove")


async def one(n):
    conn = await asyncpg.connect(url(GATE), server_settings={"application_name": "slow"})
    try:
        return (await conn.fetchrow("select $1::int, pg_sleep(0.05)", n))[0]
    finally:
        await conn.close()


async def pool():
    async with asyncpg.create_pool(url(GATE), min_size=1, max_size=1) as p:
        async with p.acquire() as conn:
            mine = await conn.fetchval("select pg_backend_pid()")
            await call(conn, "full")
            error = await refused(conn)
        async with p.acquire() as conn:
            # A pool of asyncpg resets what was set when a connection comes back.
            again = await conn.fetchval("select pg_backend_pid()")
        fact("its pool keeps a connection that was refused", error is not None and again == mine, (error, mine, again))


async def cancel(conn):
    try:
        await conn.execute("select pg_sleep(30)", timeout=0.3)
        error = None
    except asyncio.TimeoutError as e:
        error = e
    fact("a timeout cancels the statement at the server, and the connection is good", error is not None and await refused(conn) is None, error)


async def main():
    conn = await asyncpg.connect(url(GATE), server_settings={"application_name": "prove"})
    await work(conn)
    await refusals(conn)
    await cancel(conn)
    await conn.close()
    await pool()
    held = await asyncpg.connect(url(DOOR))
    try:
        await asyncpg.connect(url(DOOR))
        error = None
    except asyncpg.PostgresError as e:
        error = e
    fact("a full door is TooManyConnectionsError", isinstance(error, asyncpg.TooManyConnectionsError), error)
    await held.close()


asyncio.run(main())
end()
