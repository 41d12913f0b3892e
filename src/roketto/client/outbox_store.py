"""Where messages wait that a transaction has committed and no broker has acknowledged yet."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from roketto.client.errors import ClientError
from roketto.client.extras import load_extra
from roketto.client.message import Message
from roketto.client.sqlite_database import TIMEOUT_S, connect

if TYPE_CHECKING:
    from roketto.client.outbox_sqlalchemy import SqlAlchemyOutbox

__all__ = [
    "Backlog", "Holder", "KeptMessage", "LeaseRow", "OutboxStore", "OutboxTable",
    "SqlAlchemyOutbox", "SqliteOutbox", "decode_message", "encode_message", "lane_of",
]  # fmt: skip

T = TypeVar("T")

LANE_CHARS_MAX: Final = 255
REASON_CHARS_MAX: Final = 1_000

_FIELDS: Final = (
    "tags", "keys", "properties", "sharding_key", "delay_level", "deliver_at_ms", "priority",
    "flag", "wait_for_store", "message_id",
)  # fmt: skip
"""What is kept of a message beside its topic and body."""


class KeptMessage(NamedTuple):
    """A message in the outbox; its number is its place in the order."""

    number: int
    lane: str
    message: Message


class Holder(NamedTuple):
    """Who has the lease, and how often it has been renewed; nobody has it if the name is empty."""

    name: str
    beat: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is in an outbox."""

    waiting: int
    refused: int
    """Those that no broker will ever take; they stay until somebody decides about them."""
    oldest_ms: int | None
    """When the first of those that wait was added."""


class LeaseRow(Protocol):
    """The row that says who relays, in one transaction."""

    def holder(self) -> Holder: ...

    def hold(self, name: str, known: Holder) -> bool:
        """Give the lease from ``known``, if it is still as known, to ``name``."""

    def renew(self, name: str) -> bool:
        """Count the lease up, if ``name`` has it."""

    def release(self, name: str) -> None: ...


class OutboxTable(LeaseRow, Protocol):
    """The tables of an outbox in one transaction."""

    def add(self, message: Message, now_ms: int) -> None: ...

    def take(self, count_max: int, passed_over: Collection[str]) -> list[KeptMessage]:
        """The first that wait, in their order, without those of some lanes."""

    def remove(self, numbers: Sequence[int]) -> None: ...

    def refuse(self, number: int, reason: str) -> None:
        """Let a message wait no longer; it is kept with the reason."""

    def retry_refused(self) -> int: ...

    def has(self, lane: str) -> bool:
        """Whether messages of a lane wait."""

    def backlog(self) -> Backlog: ...


class OutboxStore(Protocol):
    """A database with an outbox in it."""

    def table(self, connection: Any) -> OutboxTable:
        """The outbox in a transaction of the application."""

    async def run(self, work: Callable[[OutboxTable], T]) -> T:
        """Do something in a transaction of our own."""

    async def create_tables(self) -> None: ...

    async def close(self) -> None: ...


# --- messages -------------------------------------------------------------------------------------


def lane_of(message: Message) -> str:
    """What a message keeps its order in: its sharding key, or else all of its topic without one."""
    if message.sharding_key is None:
        return message.topic
    lane = f"{message.topic} {message.sharding_key}"
    if len(lane) <= LANE_CHARS_MAX and message.sharding_key.isprintable():
        return lane
    return f"{message.topic[:128]} #{sha256(lane.encode()).hexdigest()}"


def encode_message(message: Message, now_ms: int) -> str:
    """Everything of a message but topic and body; a delay is counted from now."""
    found = {name: getattr(message, name) for name in _FIELDS}
    keys = message.keys
    found["keys"] = keys if isinstance(keys, str) else list(keys)
    found["properties"] = dict(message.properties)
    if message.delay_ms:
        found["deliver_at_ms"] = now_ms + message.delay_ms
    return json.dumps({name: value for name, value in found.items() if value not in (None, [], {})})


def decode_message(topic: str, body: bytes, fields: str) -> Message:
    """The message as it was added."""
    return Message(topic, bytes(body), **json.loads(fields))


# --- SQLite ---------------------------------------------------------------------------------------


class SqliteOutbox:
    """An outbox in a SQLite file: the one whose transactions are to announce something.

    It has a thread and a connection of its own for what it does itself.
    """

    def __init__(self, path: str | Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._own: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        with closing(connect(path, timeout_s)) as connection:
            for statement in _CREATE:
                connection.execute(statement)

    def table(self, connection: sqlite3.Connection | None) -> OutboxTable:
        if connection is None:
            raise ClientError("give add() the connection whose transaction the message belongs to")
        return _SqliteTable(connection)

    async def run(self, work: Callable[[OutboxTable], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "roketto-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[OutboxTable], T]) -> T:
        if self._own is None:
            self._own = connect(self._path, self._timeout_s)
        return work(_SqliteTable(self._own))

    async def create_tables(self) -> None:
        """They are there since it was made."""

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None


class _SqliteTable:
    """Single statements, each of them a transaction where the application has none."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _do(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def add(self, message: Message, now_ms: int) -> None:
        self._do(
            "INSERT INTO roketto_outbox (lane, topic, body, fields, added_ms)"
            " VALUES (?, ?, ?, ?, ?)",
            lane_of(message), message.topic, message.body, encode_message(message, now_ms), now_ms,
        )  # fmt: skip

    def take(self, count_max: int, passed_over: Collection[str]) -> list[KeptMessage]:
        rows = self._do(
            "SELECT id, lane, topic, body, fields FROM roketto_outbox WHERE reason IS NULL"  # noqa: S608 (only ?)
            f" AND lane NOT IN ({_marks(passed_over)}) ORDER BY id LIMIT ?",
            *passed_over, count_max,
        )  # fmt: skip
        return [
            KeptMessage(number, lane, decode_message(topic, body, fields))
            for number, lane, topic, body, fields in rows
        ]

    def remove(self, numbers: Sequence[int]) -> None:
        self._do(
            f"DELETE FROM roketto_outbox WHERE id IN ({_marks(numbers)})",  # noqa: S608 (only ?)
            *numbers,
        )

    def refuse(self, number: int, reason: str) -> None:
        self._do("UPDATE roketto_outbox SET reason = ? WHERE id = ?", reason, number)

    def retry_refused(self) -> int:
        return self._do("UPDATE roketto_outbox SET reason = NULL WHERE reason IS NOT NULL").rowcount

    def has(self, lane: str) -> bool:
        found = self._do(
            "SELECT 1 FROM roketto_outbox WHERE lane = ? AND reason IS NULL LIMIT 1", lane
        )
        return found.fetchone() is not None

    def backlog(self) -> Backlog:
        total, waiting, oldest_ms = self._do(
            "SELECT COUNT(*), COUNT(CASE WHEN reason IS NULL THEN 1 END),"
            " MIN(CASE WHEN reason IS NULL THEN added_ms END) FROM roketto_outbox"
        ).fetchone()
        return Backlog(waiting, total - waiting, oldest_ms)

    def holder(self) -> Holder:
        return Holder(*self._do("SELECT owner, beat FROM roketto_outbox_lease").fetchone())

    def hold(self, name: str, known: Holder) -> bool:
        taken = self._do(
            "UPDATE roketto_outbox_lease SET owner = ?, beat = beat + 1"
            " WHERE owner = ? AND beat = ?",
            name, *known,
        )  # fmt: skip
        return taken.rowcount == 1

    def renew(self, name: str) -> bool:
        renewed = self._do("UPDATE roketto_outbox_lease SET beat = beat + 1 WHERE owner = ?", name)
        return renewed.rowcount == 1

    def release(self, name: str) -> None:
        self._do(
            "UPDATE roketto_outbox_lease SET owner = '', beat = beat + 1 WHERE owner = ?", name
        )


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


_CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS roketto_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane TEXT NOT NULL, topic TEXT NOT NULL, body BLOB NOT NULL, fields TEXT NOT NULL,
    added_ms INTEGER NOT NULL, reason TEXT)""",
    "CREATE INDEX IF NOT EXISTS roketto_outbox_lane ON roketto_outbox (lane, id)",
    """CREATE TABLE IF NOT EXISTS roketto_outbox_lease (id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL, beat INTEGER NOT NULL)""",
    "INSERT OR IGNORE INTO roketto_outbox_lease VALUES (1, '', 0)",
)


def __getattr__(name: str) -> Any:
    """SqlAlchemyOutbox, which needs a library that few have, is imported when it is asked for."""
    if name != "SqlAlchemyOutbox":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_extra("roketto.client.outbox_sqlalchemy", name, library="SQLAlchemy 2", extra="sql")
