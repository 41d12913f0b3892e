"""Where the keys of consumed messages are kept: in memory, in SQLite, or in any other database."""

import asyncio
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from roketto.client.errors import ClientError
from roketto.client.extras import load_extra
from roketto.client.sqlite_database import TIMEOUT_S, savepoint, transaction
from roketto.client.thread_context import in_threads
from roketto.clock import monotonic_s, wall_ms

if TYPE_CHECKING:
    from roketto.client.dedup_sqlalchemy import SqlAlchemyStore

__all__ = ["Claim", "DedupStore", "MemoryStore", "SqlAlchemyStore", "SqliteStore"]

KEY_CHARS_MAX: Final = 255
"""Of a key and of a group: what a primary key of two texts may have in every database."""
KEPT_S: Final = 7 * 86_400
"""How long a key is kept: longer than brokers keep messages for (72 hours unless told)."""
ADDED_PER_REMOVAL: Final = 64
REMOVED_MAX: Final = 2 * ADDED_PER_REMOVAL
"""Old keys that are removed at once. Twice what has come: what has piled up goes away."""

_FORGOTTEN_MAX: Final = 16


class Claim(NamedTuple):
    """Whether a message is to be consumed, and the connection whose transaction says so."""

    is_new: bool
    connection: Any


class DedupStore(Protocol):
    """Keeps the keys of groups; whoever claims one has it when the block ends without an error.

    ``connection`` is one of the application's whose transaction the key becomes part of; the
    application ends it. Without one the key is kept when the block has ended. Claims of one key
    wait for each other.
    """

    def claim(self, group: str, key: str, connection: Any) -> AbstractContextManager[Claim]: ...

    def claim_async(
        self, group: str, key: str, connection: Any
    ) -> AbstractAsyncContextManager[Claim]: ...


class MemoryStore:
    """Keys in memory, for a process that may forget them when it ends.

    It keeps ``count_max`` of them for ``seconds`` each; where there are more, the oldest go.
    """

    def __init__(
        self, count_max: int = 100_000, seconds: float = 3_600, *, wait_s: float = 60
    ) -> None:
        self._count_max = count_max
        self._seconds = seconds
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._begun: dict[tuple[str, str], Future[None]] = {}

    @contextmanager
    def claim(self, group: str, key: str, connection: Any) -> Iterator[Claim]:
        name = self._name(group, key, connection)
        deadline_s = monotonic_s() + self._wait_s
        while isinstance(begun := self._begin(name), Future):
            try:
                begun.result(max(0.0, deadline_s - monotonic_s()))
            except TimeoutError:
                raise self._late(key) from None
        with self._consuming(name, is_new=begun):
            yield Claim(begun, None)

    @asynccontextmanager
    async def claim_async(self, group: str, key: str, connection: Any) -> AsyncIterator[Claim]:
        name = self._name(group, key, connection)
        try:
            async with asyncio.timeout(self._wait_s):
                while isinstance(begun := self._begin(name), Future):
                    await asyncio.wrap_future(begun)
        except TimeoutError:
            raise self._late(key) from None
        with self._consuming(name, is_new=begun):
            yield Claim(begun, None)

    def _name(self, group: str, key: str, connection: Any) -> tuple[str, str]:
        if connection is not None:
            raise ClientError(
                "a MemoryStore cannot be part of a transaction: were that rolled back, its message"
                " would be taken for consumed; use a SqliteStore or a SqlAlchemyStore"
            )
        return group, key

    def _begin(self, name: tuple[str, str]) -> "bool | Future[None]":
        """Whether it is new, or who is at it now."""
        with self._lock:
            self._forget()
            if name in self._seen:
                return False
            begun = self._begun.get(name)
            if begun is not None:
                return begun
            begun = self._begun[name] = Future()
            begun.set_running_or_notify_cancel()  # who waits for it and gives up leaves it alone
            return True

    @contextmanager
    def _consuming(self, name: tuple[str, str], *, is_new: bool) -> Iterator[None]:
        if not is_new:
            yield
            return
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with self._lock:
                begun = self._begun.pop(name)
                if is_done:
                    self._seen[name] = monotonic_s()
            begun.set_result(None)

    def _forget(self) -> None:
        """Let go of what is old or too much, a few at a time."""
        oldest_s = monotonic_s() - self._seconds
        for _ in range(_FORGOTTEN_MAX):
            is_over = len(self._seen) > self._count_max
            if not self._seen or not (is_over or next(iter(self._seen.values())) < oldest_s):
                return
            self._seen.popitem(last=False)

    def _late(self, key: str) -> ClientError:
        return ClientError(
            f"a message with key {key!r} is being consumed for more than {self._wait_s:g} s; this"
            " one of the same key is to be delivered again later"
        )


class SqliteStore:
    """Keys in a table of a SQLite database: a path, or a connection that the application has.

    ``seconds`` is how long a key is kept at least. SQLite lets one transaction write at a time;
    each waits ``timeout_s`` for the others.
    """

    def __init__(
        self,
        database: str | Path | sqlite3.Connection,
        seconds: float = KEPT_S,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._database = database
        self._seconds = seconds
        self._timeout_s = timeout_s
        self._added = count()
        self._turn = asyncio.Lock()
        if isinstance(database, sqlite3.Connection):
            _create_table(database)
        else:
            with transaction(database, timeout_s) as connection:
                _create_table(connection)

    @contextmanager
    def claim(self, group: str, key: str, connection: sqlite3.Connection | None) -> Iterator[Claim]:
        if connection is not None:
            with savepoint(connection):
                yield Claim(self._add(connection, group, key), connection)
        elif isinstance(self._database, sqlite3.Connection):
            with self._whole(self._database) as own:
                yield Claim(self._add(own, group, key), own)
        else:
            with transaction(self._database, self._timeout_s) as own:
                yield Claim(self._add(own, group, key), own)

    @asynccontextmanager
    async def claim_async(
        self, group: str, key: str, connection: sqlite3.Connection | None
    ) -> AsyncIterator[Claim]:
        """The same; without a connection it is one message after the other, as SQLite wants it."""
        claim = self.claim(group, key, connection)
        if connection is not None or isinstance(self._database, sqlite3.Connection):
            with claim as claimed:
                yield claimed
            return
        async with self._turn, in_threads(claim) as claimed:
            yield claimed

    @contextmanager
    def _whole(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        """Commit at the end of the block, unless a transaction was open before it."""
        is_ours = not connection.in_transaction
        try:
            with savepoint(connection):
                yield connection
        except BaseException:
            if is_ours:
                connection.rollback()
            raise
        if is_ours:
            connection.commit()

    def _add(self, connection: sqlite3.Connection, group: str, key: str) -> bool:
        now_ms = wall_ms()
        added = connection.execute(_INSERT, (group, key, now_ms))
        is_new = added.rowcount == 1
        if is_new and next(self._added) % ADDED_PER_REMOVAL == 0:
            connection.execute(_REMOVE, (now_ms - int(self._seconds * 1000), REMOVED_MAX))
        return is_new


_INSERT: Final = "INSERT INTO roketto_consumed VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_REMOVE: Final = (
    "DELETE FROM roketto_consumed WHERE rowid IN"
    " (SELECT rowid FROM roketto_consumed WHERE seen_ms < ? ORDER BY seen_ms LIMIT ?)"
)


def _create_table(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS roketto_consumed (consumer_group TEXT NOT NULL,"
        " message_key TEXT NOT NULL, seen_ms INTEGER NOT NULL,"
        " PRIMARY KEY (consumer_group, message_key))"
    )
    connection.execute(
        "CREATE INDEX IF NOT EXISTS roketto_consumed_seen ON roketto_consumed (seen_ms)"
    )


def __getattr__(name: str) -> Any:
    """SqlAlchemyStore, which needs a library that few have, is imported when it is asked for."""
    if name != "SqlAlchemyStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_extra("roketto.client.dedup_sqlalchemy", name, library="SQLAlchemy 2", extra="sql")
