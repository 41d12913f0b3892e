"""The keys of consumed messages in any database that SQLAlchemy 2 knows."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    MetaData,
    Table,
    and_,
    delete,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from roketto.client.dedup_stores import (
    ADDED_PER_REMOVAL,
    KEPT_S,
    KEY_CHARS_MAX,
    REMOVED_MAX,
    Claim,
)
from roketto.client.sqlalchemy_database import (
    AnyConnection,
    AsyncAny,
    SqlAlchemyDatabase,
    bound,
    exact_text,
    savepoint,
    savepoint_async,
)
from roketto.client.sqlite_database import TIMEOUT_S
from roketto.client.thread_context import in_threads
from roketto.clock import wall_ms

__all__ = ["SqlAlchemyStore"]

_POSTGRESQL: Final = "postgresql"


class SqlAlchemyStore:
    """Keys in the table ``roketto_consumed`` of a database: its URL, or the application's engine.

    store = SqlAlchemyStore("postgresql+psycopg://shop@db/shop")
    with engine.begin() as connection, deduplicator.once(message, connection) as is_new: ...

    ``connection`` may be a Connection or a Session, or with ``async with`` an AsyncConnection or an
    AsyncSession. With an async engine, call ``await store.create_tables()`` once before. Keys are
    kept for ``seconds``; in PostgreSQL, transactions of the store itself wait ``timeout_s``
    for another one with the same key. Elsewhere the database's own bounds hold.
    """

    def __init__(
        self,
        database: str | Engine | AsyncEngine,
        seconds: float = KEPT_S,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._seconds = seconds
        self._timeout_s = timeout_s
        self._added = count()
        self._turn = asyncio.Lock()
        self._table = _make_table(MetaData())
        self._database = SqlAlchemyDatabase(database, self._table.metadata)

    async def create_tables(self) -> None:
        """Make the table if it is missing; only needed with an async engine."""
        await self._database.create_tables()

    def close(self) -> None:
        """Close the connections of an engine that was made from a URL."""
        self._database.close()

    @contextmanager
    def claim(self, group: str, key: str, connection: AnyConnection | None) -> Iterator[Claim]:
        if connection is not None:
            with savepoint(connection):
                yield Claim(self._add(connection, group, key), connection)
            return
        with self._database.transaction() as own:
            self._bound_waits(own)
            yield Claim(self._add(own, group, key), own)

    @asynccontextmanager
    async def claim_async(
        self, group: str, key: str, connection: AnyConnection | AsyncAny | None
    ) -> AsyncIterator[Claim]:
        """The same; an engine that is not async gives one message after the other."""
        if isinstance(connection, AsyncConnection | AsyncSession):
            async with savepoint_async(connection):
                yield Claim(await connection.run_sync(self._add, group, key), connection)
        elif connection is not None:
            with self.claim(group, key, connection) as claim:
                yield claim
        elif self._database.is_async:
            async with self._database.transaction_async() as own:
                await own.run_sync(self._bound_waits)
                yield Claim(await own.run_sync(self._add, group, key), own)
        else:
            async with self._turn, in_threads(self.claim(group, key, None)) as claim:
                yield claim

    def _bound_waits(self, connection: Connection) -> None:
        if connection.dialect.name == _POSTGRESQL:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(self._timeout_s * 1000)}")

    def _add(self, connection: AnyConnection, group: str, key: str) -> bool:
        """Whether the key was not there; waits for another transaction that has added it."""
        found = bound(connection)
        now_ms = wall_ms()
        values = {"consumer_group": group, "message_key": key, "seen_ms": now_ms}
        is_new = self._insert(found, values)
        if is_new and next(self._added) % ADDED_PER_REMOVAL == 0:
            self._remove(found, now_ms - int(self._seconds * 1000))
        return is_new

    def _insert(self, connection: Connection, values: dict[str, Any]) -> bool:
        name = connection.dialect.name
        if name in _ON_CONFLICT:
            statement = _ON_CONFLICT[name](self._table).values(values).on_conflict_do_nothing()
            options = {"preserve_rowcount": True}  # which SQLAlchemy does not ask for otherwise
            return connection.execute(statement, execution_options=options).rowcount == 1
        try:
            with connection.begin_nested():
                connection.execute(insert(self._table).values(values))
        except IntegrityError:
            return False
        return True

    def _remove(self, connection: Connection, before_ms: int) -> None:
        """Remove some old keys, but for those that somebody else is removing."""
        columns = self._table.c
        old = connection.execute(
            select(columns.consumer_group, columns.message_key)
            .where(columns.seen_ms < before_ms)
            .order_by(columns.seen_ms)
            .limit(REMOVED_MAX)
            .with_for_update(skip_locked=True)
        ).all()
        if old:
            names = (
                and_(columns.consumer_group == group, columns.message_key == key)
                for group, key in old
            )
            connection.execute(delete(self._table).where(or_(*names)))


_ON_CONFLICT: Final[dict[str, Any]] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""Databases that say in one statement whether a row was there; others are asked to fail."""


def _make_table(metadata: MetaData) -> Table:
    return Table(
        "roketto_consumed",
        metadata,
        Column("consumer_group", exact_text(KEY_CHARS_MAX), primary_key=True),
        Column("message_key", exact_text(KEY_CHARS_MAX), primary_key=True),
        Column("seen_ms", BigInteger, nullable=False),
        Index("roketto_consumed_seen", "seen_ms"),
    )
