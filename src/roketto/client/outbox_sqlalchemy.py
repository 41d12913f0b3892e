"""An outbox in any database that SQLAlchemy 2 knows."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    case,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from roketto.client.errors import ClientError
from roketto.client.message import Message
from roketto.client.outbox_store import (
    LANE_CHARS_MAX,
    Backlog,
    Holder,
    KeptMessage,
    OutboxTable,
    decode_message,
    encode_message,
    lane_of,
)
from roketto.client.sqlalchemy_database import (
    AnyConnection,
    SqlAlchemyDatabase,
    bound,
    exact_text,
)

__all__ = ["SqlAlchemyOutbox"]

T = TypeVar("T")

_TEXT_CHARS_MAX: Final = 255
"""Of a topic, and of the name of whoever has the lease."""
_ROW: Final = 1
"""The id of the only row of the lease."""


class SqlAlchemyOutbox:
    """An outbox in the database of the application: its URL, or an engine, also an async one.

    ``table`` takes a Connection or a Session; of an AsyncSession, ``outbox.add_async`` makes one.
    With an engine that is not async it has a thread of its own for what it does itself.
    """

    def __init__(self, database: str | Engine | AsyncEngine) -> None:
        self._tables = _Tables(MetaData())
        self._database = SqlAlchemyDatabase(database, self._tables.metadata)
        self._thread: ThreadPoolExecutor | None = None

    def table(self, connection: AnyConnection | None) -> OutboxTable:
        if connection is None:
            raise ClientError("give add() the connection whose transaction the message belongs to")
        return _SqlAlchemyTable(self._tables, bound(connection))

    async def create_tables(self) -> None:
        """Make the tables if they are missing; only needed with an async engine."""
        await self._database.create_tables()

    async def run(self, work: Callable[[OutboxTable], T]) -> T:
        if self._database.is_async:
            async with self._database.transaction_async() as connection:
                return await connection.run_sync(
                    lambda own: work(_SqlAlchemyTable(self._tables, own))
                )
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "roketto-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[OutboxTable], T]) -> T:
        with self._database.transaction() as connection:
            return work(_SqlAlchemyTable(self._tables, connection))

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._database.close)
            thread.shutdown()


class _Tables:
    """How both tables look."""

    def __init__(self, metadata: MetaData) -> None:
        self.metadata = metadata
        # SQLite counts up only what is called INTEGER there.
        number = BigInteger().with_variant(Integer, "sqlite")
        body = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
        fields = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
        self.messages = Table(
            "roketto_outbox",
            metadata,
            Column("id", number, primary_key=True, autoincrement=True),
            Column("lane", exact_text(LANE_CHARS_MAX), nullable=False),
            Column("topic", exact_text(_TEXT_CHARS_MAX), nullable=False),
            Column("body", body, nullable=False),
            Column("fields", fields, nullable=False),
            Column("added_ms", BigInteger, nullable=False),
            Column("reason", Text),
            Index("roketto_outbox_lane", "lane", "id"),
            sqlite_autoincrement=True,
        )
        self.lease = Table(
            "roketto_outbox_lease",
            metadata,
            Column("id", Integer, primary_key=True, autoincrement=False),
            Column("owner", exact_text(_TEXT_CHARS_MAX), nullable=False),
            Column("beat", BigInteger, nullable=False),
        )


class _SqlAlchemyTable:
    """Both tables in one transaction."""

    def __init__(self, tables: _Tables, connection: Connection) -> None:
        self._messages = tables.messages
        self._lease = tables.lease
        self._connection = connection

    def add(self, message: Message, now_ms: int) -> None:
        self._connection.execute(
            insert(self._messages).values(
                lane=lane_of(message), topic=message.topic, body=bytes(message.body),
                fields=encode_message(message, now_ms), added_ms=now_ms,
            )
        )  # fmt: skip

    def take(self, count_max: int, passed_over: Collection[str]) -> list[KeptMessage]:
        columns = self._messages.c
        rows = self._connection.execute(
            select(columns.id, columns.lane, columns.topic, columns.body, columns.fields)
            .where(columns.reason.is_(None), columns.lane.not_in(list(passed_over)))
            .order_by(columns.id)
            .limit(count_max)
        )
        return [
            KeptMessage(row.id, row.lane, decode_message(row.topic, row.body, row.fields))
            for row in rows
        ]

    def remove(self, numbers: Sequence[int]) -> None:
        self._connection.execute(delete(self._messages).where(self._messages.c.id.in_(numbers)))

    def refuse(self, number: int, reason: str) -> None:
        self._connection.execute(
            update(self._messages).where(self._messages.c.id == number).values(reason=reason)
        )

    def retry_refused(self) -> int:
        reason = self._messages.c.reason
        return self._connection.execute(
            update(self._messages).where(reason.is_not(None)).values(reason=None)
        ).rowcount

    def has(self, lane: str) -> bool:
        columns = self._messages.c
        found = self._connection.execute(
            select(columns.id).where(columns.lane == lane, columns.reason.is_(None)).limit(1)
        )
        return found.first() is not None

    def backlog(self) -> Backlog:
        columns = self._messages.c
        is_waiting = columns.reason.is_(None)
        total, waiting, oldest_ms = self._connection.execute(
            select(
                func.count(), func.count(case((is_waiting, 1))),
                func.min(case((is_waiting, columns.added_ms))),
            ).select_from(self._messages)
        ).one()  # fmt: skip
        return Backlog(waiting, total - waiting, oldest_ms)

    # --- the lease --------------------------------------------------------------------------------

    def holder(self) -> Holder:
        columns = self._lease.c
        row = self._connection.execute(select(columns.owner, columns.beat)).first()
        if row is not None:
            return Holder(row.owner, row.beat)
        try:
            with self._connection.begin_nested():
                self._connection.execute(insert(self._lease).values(id=_ROW, owner="", beat=0))
        except IntegrityError:  # somebody else has made it meanwhile; the next look sees it
            return Holder("somebody", 0)
        return Holder("", 0)

    def hold(self, name: str, known: Holder) -> bool:
        columns = self._lease.c
        return self._count_up(name, columns.owner == known.name, columns.beat == known.beat)

    def renew(self, name: str) -> bool:
        return self._count_up(name, self._lease.c.owner == name)

    def release(self, name: str) -> None:
        self._count_up("", self._lease.c.owner == name)

    def _count_up(self, owner: str, *conditions: Any) -> bool:
        changed = self._connection.execute(
            update(self._lease).where(*conditions).values(owner=owner, beat=self._lease.c.beat + 1)
        )
        return changed.rowcount == 1
