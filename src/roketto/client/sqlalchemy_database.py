"""Any database by SQLAlchemy 2: an engine of ours or the application's, of either kind."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, MetaData, String, create_engine
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from roketto.client.errors import ClientError

__all__ = [
    "AnyConnection", "AsyncAny", "SqlAlchemyDatabase", "bound", "exact_text", "savepoint",
    "savepoint_async",
]  # fmt: skip

T = TypeVar("T")

AnyConnection = Connection | Session
"""What an application has its transactions with."""
AsyncAny = AsyncConnection | AsyncSession

_SQLITE: Final = "sqlite"


class SqlAlchemyDatabase:
    """A database by its URL, or by an engine that the application has, also an async one.

    An engine that was made here from a URL is disposed of by ``close``; others are left alone.
    """

    def __init__(self, database: str | Engine | AsyncEngine, metadata: MetaData) -> None:
        self._is_own = isinstance(database, str)
        self.engine = create_engine(database) if isinstance(database, str) else database
        self._metadata = metadata
        if isinstance(self.engine, Engine):
            self._create(self.engine.begin)

    @property
    def is_async(self) -> bool:
        return isinstance(self.engine, AsyncEngine)

    def _create(self, begin: Callable[[], Any]) -> None:
        try:
            with begin() as connection:
                self._metadata.create_all(connection)
        except DBAPIError:
            with begin() as connection:  # another process was quicker
                self._metadata.create_all(connection)

    async def create_tables(self) -> None:
        """Make what is missing; with an async engine, to be called before anything else."""
        if isinstance(self.engine, AsyncEngine):
            try:
                async with self.engine.begin() as connection:
                    await connection.run_sync(self._metadata.create_all)
            except DBAPIError:
                async with self.engine.begin() as connection:
                    await connection.run_sync(self._metadata.create_all)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of our own, committed at the end of the block."""
        if isinstance(self.engine, AsyncEngine):
            raise ClientError(
                "this database has an async engine: use `async with` instead of `with`"
            )
        with self.engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def transaction_async(self) -> AsyncIterator[AsyncConnection]:
        """The same with an async engine."""
        assert isinstance(self.engine, AsyncEngine)
        async with self.engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close our own connections; with an async engine there are none."""
        if self._is_own and isinstance(self.engine, Engine):
            self.engine.dispose()


@contextmanager
def savepoint(connection: AnyConnection) -> Iterator[Connection]:
    """A part of the application's transaction: undone if the block fails, else left to it."""
    begin_sqlite(connection)
    with connection.begin_nested():
        yield bound(connection)


@asynccontextmanager
async def savepoint_async(connection: AsyncAny) -> AsyncIterator[None]:
    """The same for an async connection or session."""
    await connection.run_sync(begin_sqlite)
    async with connection.begin_nested():
        yield


def bound(connection: AnyConnection) -> Connection:
    """The connection that a session has."""
    return connection if isinstance(connection, Connection) else connection.connection()


def begin_sqlite(connection: AnyConnection) -> None:
    """Begin a transaction where sqlite3 would wait for a statement that writes.

    Without one, its first savepoint would be a transaction by itself and end with a commit.
    """
    found = bound(connection)
    if found.dialect.name == _SQLITE:
        driver: Any = found.connection.driver_connection
        if not driver.in_transaction:
            found.exec_driver_sql("BEGIN IMMEDIATE")


def exact_text(chars_max: int) -> String:
    """A text in which every letter counts; MySQL takes "a" for "A" unless it is told."""
    exact = mysql.VARCHAR(chars_max, charset="utf8mb4", collation="utf8mb4_bin")
    return String(chars_max).with_variant(exact, "mysql", "mariadb")
