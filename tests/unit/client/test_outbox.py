"""What a transaction has committed is sent in order, at least once, by one relay at a time."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roketto.client.errors import (
    ClientError,
    IllegalMessageError,
    RefusedError,
    SendFailedError,
    UnreachableError,
)
from roketto.client.message import Message, MessageQueue, SendResult, SendStatus
from roketto.client.outbox import Outbox
from roketto.client.outbox_relay import LaneDelays, OutboxSettings
from roketto.client.outbox_store import Backlog, SqliteOutbox
from roketto.protocol.codes import ResponseCode

QUICK = OutboxSettings(poll_s=0.005, lease_s=0.2, retry_first_s=0.01, retry_s_max=0.02)
QUEUE = MessageQueue("broker-a", 0, "Orders")


class Producer:
    """Sends to a list; ``script`` may raise, or say how well a message was stored."""

    def __init__(self, script: Callable[[Message], SendStatus | None] = lambda _: None) -> None:
        self.client: Any = SimpleNamespace(ip="10.0.0.1")
        self.sent: list[Message] = []
        self.tried_messages: list[Message] = []
        self.under_way: dict[str | None, int] = {}
        self.script = script

    async def send(self, message: Message) -> SendResult:
        key = message.sharding_key
        self.under_way[key] = self.under_way.get(key, 0) + 1
        assert self.under_way[key] == 1, "two of one sharding key at once"
        await asyncio.sleep(0)
        self.under_way[key] -= 1
        self.tried_messages.append(message)
        status = self.script(message) or SendStatus.SEND_OK
        self.sent.append(message)
        return SendResult(status, message.message_id or "", QUEUE, len(self.sent))

    @property
    def tried(self) -> list[bytes]:
        return [message.body for message in self.tried_messages]

    def bodies(self, key: str | None = None) -> list[bytes]:
        return [message.body for message in self.sent if message.sharding_key == key]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@asynccontextmanager
async def relaying(
    path: Path, producer: Producer, settings: OutboxSettings = QUICK
) -> AsyncIterator[Outbox]:
    async with Outbox(SqliteOutbox(path), producer, settings=settings) as outbox:
        yield outbox


def fill(path: Path, *messages: Message) -> list[str]:
    outbox = Outbox(SqliteOutbox(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        return [outbox.add(message, connection) for message in messages]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it has not come to that")


def numbered(count: int, keys: str = "") -> list[Message]:
    return [
        Message("Orders", b"%d" % number, sharding_key=keys[number % len(keys)] if keys else None)
        for number in range(count)
    ]


async def test_what_was_committed_is_sent_and_nothing_else(path: Path) -> None:
    producer = Producer()
    async with relaying(path, producer) as outbox:
        with closing(sqlite3.connect(path)) as connection:
            for number in range(10):
                with suppress(ZeroDivisionError), connection:
                    outbox.add(Message("Orders", b"%d" % number), connection)
                    if number % 2:
                        raise ZeroDivisionError
        assert await outbox.wait_until_sent(5)
        assert await outbox.backlog() == Backlog(0, 0, None)
    assert producer.bodies() == [b"0", b"2", b"4", b"6", b"8"]


async def test_ids_are_those_from_when_messages_were_added(path: Path) -> None:
    messages = [*numbered(3), Message("Orders", b"own", message_id="MINE")]
    ids = fill(path, *messages)
    producer = Producer()
    async with relaying(path, producer) as outbox:
        assert await outbox.wait_until_sent(5)
    assert [message.message_id for message in producer.sent] == ids
    assert [message.message_id for message in messages] == ids
    assert ids[3] == "MINE"
    assert len(set(ids)) == 4


async def test_a_failure_holds_back_its_own_sharding_key_only(path: Path) -> None:
    fill(path, *numbered(30, "abc"))
    failures = 5

    def script(message: Message) -> None:
        nonlocal failures
        if message.body == b"7" and failures:
            failures -= 1
            raise UnreachableError("10.0.0.1:10911", "no connection", is_sent=False)

    producer = Producer(script)
    async with relaying(path, producer) as outbox:
        assert await outbox.wait_until_sent(5)
    for index, key in enumerate("abc"):
        assert producer.bodies(key) == [b"%d" % number for number in range(index, 30, 3)]
    assert producer.tried.count(b"7") == 6
    assert producer.tried.index(b"29") < 30, "c went on while b was resting"


async def test_what_nobody_will_ever_take_is_set_aside(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused = RefusedError("10.0.0.1:10911", ResponseCode.MESSAGE_ILLEGAL, "too large")

    def script(message: Message) -> None:
        if message.body == b"1" and not is_mended:
            raise SendFailedError("not sent", [refused])

    is_mended = False
    fill(path, *numbered(3))
    producer = Producer(script)
    async with relaying(path, producer) as outbox:
        assert await outbox.wait_until_sent(5)
        assert (await outbox.backlog()).refused == 1
        assert "set aside" in caplog.text
        assert "too large" in caplog.text or "not sent" in caplog.text
        is_mended = True
        assert await outbox.retry_refused() == 1
        assert await outbox.wait_until_sent(5)
    assert producer.bodies() == [b"0", b"2", b"1"]


async def test_what_may_be_lost_is_sent_again_if_it_is_asked_for(path: Path) -> None:
    statuses = iter([SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.SEND_OK])
    fill(path, *numbered(1))
    producer = Producer(lambda _: next(statuses))
    settings = OutboxSettings(poll_s=0.005, retry_first_s=0.01, until_ok=True)
    async with relaying(path, producer, settings) as outbox:
        assert await outbox.wait_until_sent(5)
    assert producer.tried == [b"0", b"0"]
    statuses = iter([SendStatus.FLUSH_DISK_TIMEOUT])
    fill(path, *numbered(1))
    async with relaying(path, producer) as outbox:
        assert await outbox.wait_until_sent(5)
    assert producer.tried == [b"0"] * 3


async def test_one_relay_sends_and_the_next_goes_on_when_it_stops(path: Path) -> None:
    fill(path, *numbered(200))
    first, second = Producer(), Producer()
    async with relaying(path, first) as one:
        await until(lambda: bool(first.sent))
        async with relaying(path, second) as two:
            assert await two.wait_until_sent(5)
            assert not second.sent, "both at once"
            await one.stop()
            fill(path, Message("Orders", b"later"))
            assert await two.wait_until_sent(5)
    assert first.bodies() == [b"%d" % number for number in range(200)]
    assert second.bodies() == [b"later"]


async def test_a_relay_that_is_gone_without_a_word_is_followed_by_another(path: Path) -> None:
    """Its task is killed where it stands, as the whole process would be."""
    fill(path, *numbered(100))
    first, second = Producer(), Producer()
    store = SqliteOutbox(path)
    outbox = Outbox(store, first, settings=QUICK)
    await outbox.start()
    await until(lambda: len(first.sent) >= 10)
    assert outbox._task is not None
    outbox._task.cancel()
    await asyncio.gather(outbox._task, return_exceptions=True)
    await store.close()
    begun = asyncio.get_running_loop().time()
    async with relaying(path, second) as two:
        assert await two.wait_until_sent(5)
    assert asyncio.get_running_loop().time() - begun > QUICK.lease_s
    numbers = [int(body) for body in first.bodies() + second.bodies()]
    assert list(dict.fromkeys(numbers)) == list(range(100)), "in order, but for repeats"
    assert int(second.bodies()[0]) <= len(first.sent)


async def test_an_acknowledged_message_is_not_sent_again_while_the_database_is_away(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(path, *numbered(3))
    locked = sqlite3.connect(path, isolation_level=None)

    def script(message: Message) -> None:
        if message.body == b"2":
            locked.execute("BEGIN IMMEDIATE")

    producer = Producer(script)
    store = SqliteOutbox(path, timeout_s=0.01)
    async with Outbox(store, producer, settings=QUICK) as outbox:
        await until(lambda: "tried again" in caplog.text)
        locked.execute("ROLLBACK")
        assert await outbox.wait_until_sent(5)
    locked.close()
    assert producer.bodies() == [b"0", b"1", b"2"]


async def test_what_cannot_be_sent_now_is_kept_and_keeps_its_place(path: Path) -> None:
    is_away = True

    def script(message: Message) -> None:
        if is_away:
            raise UnreachableError("10.0.0.1:10911", "no connection", is_sent=True)

    producer = Producer(script)
    slow = OutboxSettings(poll_s=0.005, retry_first_s=0.05)
    async with relaying(path, producer, slow) as outbox:
        first = Message("Orders", b"0", sharding_key="a")
        assert await outbox.send_or_keep(first) is None
        is_away = False
        assert await outbox.send_or_keep(Message("Orders", b"1", sharding_key="a")) is None
        direct = await outbox.send_or_keep(Message("Orders", b"x", sharding_key="b"))
        assert direct is not None
        assert direct.is_ok
        assert await outbox.wait_until_sent(5)
        assert (await outbox.send_or_keep(Message("Orders", b"2", sharding_key="a"))) is not None
    assert producer.bodies("a") == [b"0", b"1", b"2"]
    ids = {message.message_id for message in producer.tried_messages if message.body == b"0"}
    assert ids == {first.message_id}, "all attempts have one id"


async def test_what_nobody_will_ever_take_is_not_kept(path: Path) -> None:
    def script(message: Message) -> None:
        raise RefusedError("10.0.0.1:10911", ResponseCode.MESSAGE_ILLEGAL, "too large")

    async with relaying(path, Producer(script)) as outbox:
        with pytest.raises(RefusedError, match="too large"):
            await outbox.send_or_keep(Message("Orders", b"x"))
        assert (await outbox.backlog()).waiting == 0


async def test_what_is_no_message_fails_in_the_transaction(path: Path) -> None:
    with pytest.raises(IllegalMessageError, match="0 bytes"):
        fill(path, Message("Orders", b""))
    with pytest.raises(IllegalMessageError, match="UNIQ_KEY is the client's own"):
        fill(path, Message("Orders", b"x", properties={"UNIQ_KEY": "1"}))
    with pytest.raises(IllegalMessageError, match=r"id of a message.*1 to 255"):
        fill(path, Message("Orders", b"x", message_id="a b"))
    producer = Producer()
    async with relaying(path, producer) as outbox:
        with pytest.raises(IllegalMessageError):
            await outbox.send_or_keep(Message("Orders", b""))
        assert (await outbox.backlog()).waiting == 0
        with pytest.raises(ClientError, match="started already"):
            await outbox.start()
    with pytest.raises(ClientError, match="has no producer"):
        await Outbox(SqliteOutbox(path)).start()


def test_a_lane_rests_longer_each_time_up_to_a_bound() -> None:
    delays = LaneDelays(1.0, 5.0, jitter=lambda: 1.0)
    assert [delays.fail("a", 0.0) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    delays.fail("b", 2.0)
    assert delays.resting(2.5) == ["a", "b"]
    assert delays.next_s() == 3.0
    assert delays.resting(4.0) == ["a"]
    delays.succeed("a")
    assert delays.resting(4.0) == []
    assert delays.fail("a", 4.0) == 1.0
    delays.resting(100.0)
    assert delays.fail("b", 100.0) == 1.0, "forgotten"
