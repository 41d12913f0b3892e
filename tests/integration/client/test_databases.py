"""With a real PostgreSQL and a real broker: messages take effect once, and follow transactions."""

import asyncio
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from integration.client.postgres import postgres
from roketto.client import dedup_sqlalchemy
from roketto.client.dedup import Deduplicator
from roketto.client.dedup_stores import REMOVED_MAX, MemoryStore, SqlAlchemyStore
from roketto.client.message import Message
from roketto.client.outbox import Outbox, OutboxSettings
from roketto.client.outbox_store import SqlAlchemyOutbox
from roketto.client.producer import Producer
from roketto.client.received import ReceivedMessage
from roketto.clock import monotonic_s
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.testing import Broker


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """A server without tables."""
    yield server
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE sold (what TEXT)"))
    yield made
    made.dispose()


def message(number: int = 1) -> ReceivedMessage:
    properties = encode_properties({"UNIQ_KEY": f"ID{number}"})
    return ReceivedMessage(Record("Orders", b"tea", properties), "broker-a")


def sold(engine: Engine) -> list[str]:
    with engine.begin() as connection:
        return list(connection.scalars(text("SELECT what FROM sold")))


# --- consuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["on conflict", "savepoint"])
def test_of_deliveries_at_once_one_takes_effect(
    kind: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of eight fail after they have written; of the others exactly one has written."""
    if kind == "savepoint":  # what databases other than PostgreSQL and SQLite are asked
        monkeypatch.setattr(dedup_sqlalchemy, "_ON_CONFLICT", {})
    deduplicator = Deduplicator(SqlAlchemyStore(engine), "billing")
    ready = threading.Barrier(8)
    news: list[bool] = []

    def consume(fails: bool) -> None:
        ready.wait(10)
        with suppress(ZeroDivisionError), Session(engine) as session, session.begin():
            with deduplicator.once(message(), session) as is_new:
                if is_new:
                    session.execute(text("INSERT INTO sold VALUES ('tea')"))
            if fails:
                raise ZeroDivisionError
            news.append(is_new)

    threads = [threading.Thread(target=consume, args=(number < 2,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(news) == [False] * 5 + [True]
    assert sold(engine) == ["tea"]


async def test_async_engines_and_sessions_take_part_as_well(url: str, engine: Engine) -> None:
    async_engine = create_async_engine(url)
    store = SqlAlchemyStore(async_engine)
    await store.create_tables()
    deduplicator = Deduplicator(store, "billing")
    under_way = 0

    async def consume(fails: bool) -> None:
        nonlocal under_way
        async with deduplicator.once(message()) as is_new:
            under_way += is_new
            assert under_way <= 1
            await asyncio.sleep(0.01)
            under_way -= is_new
            if fails:
                raise ZeroDivisionError

    results = await asyncio.gather(
        *(consume(number == 0) for number in range(5)), return_exceptions=True
    )
    assert [type(result) for result in results].count(type(None)) >= 4
    for number in (1, 2, 2):
        async with AsyncSession(async_engine) as session, session.begin():
            async with deduplicator.once(message(number), session) as is_new:
                if is_new:
                    await session.execute(text("INSERT INTO sold VALUES ('tea')"))
            with suppress(ZeroDivisionError):
                async with deduplicator.once(message(3), session):
                    await session.execute(text("INSERT INTO sold VALUES ('milk')"))
                    raise ZeroDivisionError
    await async_engine.dispose()
    assert sold(engine) == ["tea"]


def test_old_keys_are_removed_by_several_at_once(engine: Engine) -> None:
    """Each takes others, and nobody waits for anybody."""
    stores = [SqlAlchemyStore(engine, seconds=60) for _ in range(2)]
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO roketto_consumed SELECT 'g', i, 0 FROM generate_series(1, 400) i")
        )
    with engine.begin() as one, engine.begin() as two:
        for number, (store, connection) in enumerate(zip(stores, (one, two), strict=True)):
            connection.execute(text("SET LOCAL lock_timeout = 1000"))
            with Deduplicator(store, "billing").once(message(number), connection) as is_new:
                assert is_new
    with engine.begin() as connection:
        left = connection.scalar(text("SELECT COUNT(*) FROM roketto_consumed"))
    assert left == 400 - 2 * REMOVED_MAX + 2


# --- the outbox -----------------------------------------------------------------------------------

KEYS = ("a", "b", "c", None)


def number_of(found: ReceivedMessage) -> int:
    return int(found.body)


@contextmanager
def relay_process(url: str, broker: Broker, *sends: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "integration.client.relay_process", url, broker.name_server, *sends],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            expect(process, "relaying")
            yield process
        finally:
            process.kill()


def expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


def holder_pid(engine: Engine) -> int:
    """The process that has the lease."""
    with engine.begin() as connection:
        owner = connection.scalar(text("SELECT owner FROM roketto_outbox_lease"))
    return int(owner.partition("@")[2].partition("#")[0])


def waiting(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.scalar(text("SELECT COUNT(*) FROM roketto_outbox")))


def wait_until(condition: object, timeout_s: float = 20) -> None:
    assert callable(condition)
    deadline_s = monotonic_s() + timeout_s
    while not condition():
        assert monotonic_s() < deadline_s
        threading.Event().wait(0.005)


class Shop:
    """Sells: each sale writes to a table and announces it to two topics; one in five fails."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._outbox = Outbox(SqlAlchemyOutbox(engine))
        self._random = random.Random(seed)
        self._numbers = iter(range(1_000_000))
        self.sold: dict[str | None, list[int]] = {key: [] for key in KEYS}

    def sell(self, count: int) -> None:
        for _ in range(count):
            number, key = next(self._numbers), self._random.choice(KEYS)
            with suppress(ZeroDivisionError), self._engine.begin() as connection:
                connection.execute(text("INSERT INTO sold VALUES (:n)"), {"n": str(number)})
                for topic in ("Orders", "Bills"):
                    announced = Message(topic, b"%d" % number, sharding_key=key)
                    self._outbox.add(announced, connection)
                if self._random.random() < 0.2:
                    raise ZeroDivisionError
                self.sold[key].append(number)


def test_a_killed_relay_loses_nothing_and_another_keeps_the_order(engine: Engine, url: str) -> None:
    """It is killed in the middle of a batch: some were sent and not yet removed. Seed 7."""
    with Broker() as broker:
        broker.create_topic("Orders", queues=3)
        broker.create_topic("Bills", queues=3, attributes={"dedup.window.seconds": "600"})
        shop = Shop(engine, seed=7)
        shop.sell(40)
        with relay_process(url, broker, "39") as one:
            expect(one, "stalled")
            with relay_process(url, broker) as two:
                assert holder_pid(engine) == one.pid
                selling = threading.Thread(target=shop.sell, args=(40,))
                selling.start()
                one.kill()
                assert one.wait(10) == -9
                selling.join()
                wait_until(lambda: waiting(engine) == 0)
                assert holder_pid(engine) == two.pid
        found = {topic: broker.messages(topic) for topic in ("Orders", "Bills")}
        for key in KEYS:
            for messages in found.values():
                numbers = [number_of(one) for one in messages if one.sharding_key == key]
                assert list(dict.fromkeys(numbers)) == shop.sold[key]
        assert len(found["Bills"]) == sum(map(len, shop.sold.values())), "the window has no repeats"
        deduplicator = Deduplicator(MemoryStore(), "audit")
        assert len(found["Orders"]) > len(found["Bills"]), "no repeats; it was killed too late"
        once = []
        for one_message in found["Orders"]:
            with deduplicator.once(one_message) as is_new:
                once += [number_of(one_message)] * is_new
        assert sorted(once) == sorted(number for all_of in shop.sold.values() for number in all_of)
        assert sorted(map(int, sold(engine))) == sorted(once)


async def test_an_outbox_of_an_async_engine_relays_what_sessions_add(url: str) -> None:
    async_engine = create_async_engine(url)
    settings = OutboxSettings(poll_s=0.01)
    async with Broker() as broker:
        broker.create_topic("Orders", queues=1)
        async with (
            Producer("shop", broker.name_server) as producer,
            Outbox(SqlAlchemyOutbox(async_engine), producer, settings=settings) as outbox,
        ):
            for fails in (False, True, False):
                with suppress(ZeroDivisionError):
                    async with AsyncSession(async_engine) as session, session.begin():
                        await outbox.add_async(Message("Orders", b"%d" % fails), session)
                        if fails:
                            raise ZeroDivisionError
            assert await outbox.wait_until_sent(10)
        assert [found.body for found in broker.messages("Orders")] == [b"0", b"0"]
    await async_engine.dispose()


async def test_messages_wait_in_the_outbox_while_the_broker_is_away(url: str) -> None:
    engine = create_engine(url)
    settings = OutboxSettings(poll_s=0.01, retry_first_s=0.02, retry_s_max=0.1)
    with Broker() as broker:
        broker.create_topic("Orders", queues=1)
        async with (
            Producer("shop", broker.name_server) as producer,
            Outbox(SqlAlchemyOutbox(engine), producer, settings=settings) as outbox,
        ):
            keyed = [Message("Orders", b"%d" % number, sharding_key="a") for number in range(4)]
            assert await outbox.send_or_keep(keyed[0]) is not None
            broker.stop()
            assert await outbox.send_or_keep(keyed[1]) is None
            assert await outbox.send_or_keep(keyed[2]) is None
            assert (await outbox.backlog()).waiting == 2
            broker.start()
            assert await outbox.wait_until_sent(20)
            assert await outbox.send_or_keep(keyed[3]) is not None
        assert [found.body for found in broker.messages("Orders")] == [b"0", b"1", b"2", b"3"]
        assert [found.message_id for found in broker.messages("Orders")] == [
            one.message_id for one in keyed
        ]
    engine.dispose()
