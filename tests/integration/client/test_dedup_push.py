"""Messages that were sent twice, and failed at first, take effect once in a push consumer."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from roketto.client.dedup import Deduplicator
from roketto.client.dedup_stores import SqliteStore
from roketto.client.listeners import ConsumeContext, ConsumeResult, Listener
from roketto.client.message import Message
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage
from roketto.testing import Broker

COUNT = 8


class Till:
    """Takes money for messages, in the transaction of their keys; each fails once at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.calls: Counter[bytes] = Counter()
        self.last = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE paid (what BLOB)")

    def listen(
        self,
        messages: list[ReceivedMessage],
        context: ConsumeContext,
        connection: sqlite3.Connection,
    ) -> ConsumeResult:
        (message,) = messages
        self.calls[message.body] += 1
        if message.body == b"end":
            self._loop.call_soon_threadsafe(self.last.set)
            return ConsumeResult.SUCCESS
        connection.execute("INSERT INTO paid VALUES (?)", (message.body,))
        is_first = self.calls[message.body] == 1
        return ConsumeResult.LATER if is_first else ConsumeResult.SUCCESS

    async def listen_async(
        self,
        messages: list[ReceivedMessage],
        context: ConsumeContext,
        connection: sqlite3.Connection,
    ) -> ConsumeResult:
        return self.listen(messages, context, connection)

    def paid(self) -> list[bytes]:
        with closing(sqlite3.connect(self._path)) as connection:
            return [what for (what,) in connection.execute("SELECT what FROM paid ORDER BY rowid")]


async def consume(broker: Broker, listener: Listener, till: Till) -> None:
    async with Producer("till", broker.name_server) as producer:
        for number in range(COUNT):
            for _ in range(2):
                await producer.send(Message("Bills", b"%d" % number, message_id=f"BILL-{number}"))
        await producer.send(Message("Bills", b"end"))
    async with (
        PushConsumer(
            "billing", broker.name_server, topics={"Bills": "*"}, listener=listener, in_order=True,
            from_where=FromWhere.FIRST, tuning=PushTuning(suspend_ms=10, batch_max=4),
        ),
        asyncio.timeout(30),
    ):  # fmt: skip
        await till.last.wait()


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_each_bill_is_paid_once(kind: str, tmp_path: Path) -> None:
    till = Till(tmp_path / "till.db")
    deduplicator = Deduplicator(SqliteStore(tmp_path / "till.db"), "billing")
    listener = till.listen if kind == "function" else till.listen_async
    with Broker() as broker:
        broker.create_topic("Bills", queues=1)
        await consume(broker, deduplicator.wrap(listener, with_connection=True), till)
        assert len(broker.messages("Bills")) == 2 * COUNT + 1
    assert till.paid() == [b"%d" % number for number in range(COUNT)]
    assert set(till.calls.values()) == {1, 2}, "the second delivery comes to nobody"
    await asyncio.get_running_loop().shutdown_default_executor()
