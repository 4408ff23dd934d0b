"""SQLAlchemy on psycopg and asyncpg: its pool, its sessions."""
import asyncio

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from facts import end, fact
from scene import GATE


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "sa_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[str]


PID = sa.text("select pg_backend_pid()")
# Outside a transaction, so that a statement can be refused.
OPTIONS = {"isolation_level": "AUTOCOMMIT", "pool_size": 1, "max_overflow": 0}


def sync():
    engine = sa.create_engine(f"postgresql+psycopg://driver:secret@127.0.0.1:{GATE}/app", pool_size=1, max_overflow=0, pool_pre_ping=True)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Order(what=f"order {n}") for n in range(1000)])
        session.commit()
        count = session.scalar(sa.select(sa.func.count()).select_from(Order))
    fact("a session that inserts 1000 rows and counts them, with pre-ping", count == 1000, count)
    try:
        with Session(engine) as session:
            session.execute(sa.text("set application_name = 'full'"))
            session.commit()
            session.execute(PID)
        error = None
    except sa.exc.DBAPIError as e:
        error = e
    fact("the BEGIN of a session is refused as DBAPIError with 53000", error is not None and error.orig.sqlstate == "53000", error)
    fact("SQLAlchemy takes no refusal for a lost connection (psycopg)", error is not None and not error.connection_invalidated, error)
    engine.dispose()

    engine = sa.create_engine(f"postgresql+psycopg://driver:secret@127.0.0.1:{GATE}/app", **OPTIONS)
    with engine.connect() as conn:
        mine = conn.scalar(PID)
        conn.execute(sa.text("set application_name = 'full'"))
        try:
            conn.execute(sa.text("select 1"))  # the first statements about the session itself pass
            error = None
        except sa.exc.DBAPIError as e:
            error = e
        conn.execute(sa.text("set application_name = 'prove'"))
    with engine.connect() as conn:
        again = conn.scalar(PID)
    fact("its pool keeps the connection (psycopg)", error is not None and mine == again, (error, mine, again))
    engine.dispose()


async def asynchronous():
    engine = create_async_engine(f"postgresql+asyncpg://driver:secret@127.0.0.1:{GATE}/app", **OPTIONS)
    async with engine.connect() as conn:
        mine = await conn.scalar(PID)
        await conn.execute(sa.text("set application_name = 'full'"))
        try:
            await conn.execute(sa.text("select 1"))
            error = None
        except sa.exc.DBAPIError as e:
            error = e
        await conn.execute(sa.text("set application_name = 'prove'"))
    async with engine.connect() as conn:
        again = await conn.scalar(PID)
    fact("its pool keeps the connection (asyncpg)", error is not None and not error.connection_invalidated and mine == again, (error, mine, again))
    await engine.dispose()


sync()
asyncio.run(asynchronous())
end()
