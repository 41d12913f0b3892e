"""Both kinds of outbox keep messages as they were, in order, and only with their transaction."""

import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from roketto.client import outbox_store
from roketto.client.errors import ClientError
from roketto.client.message import Message
from roketto.client.outbox_store import (
    Backlog,
    Holder,
    OutboxStore,
    OutboxTable,
    SqlAlchemyOutbox,
    SqliteOutbox,
    decode_message,
    encode_message,
    lane_of,
)

FULL = Message(
    "Orders", b"\x00\xff", tags="new", keys=["a", "b"], properties={"land": "\U0001f1e8"},
    sharding_key="order-17", deliver_at_ms=5, priority=3, flag=7, wait_for_store=False,
    message_id="ID",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "sqlalchemy"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OutboxStore]:
    path = tmp_path / "shop.db"
    made: OutboxStore = (
        SqliteOutbox(path) if request.param == "sqlite" else SqlAlchemyOutbox(f"sqlite:///{path}")
    )
    yield made
    await made.close()


def adding(message: Message) -> Callable[[OutboxTable], None]:
    return lambda table: table.add(message, 1_000)


async def add(store: OutboxStore, *messages: Message) -> None:
    for message in messages:
        await store.run(adding(message))


async def test_a_message_comes_back_as_it_was(store: OutboxStore) -> None:
    await add(store, FULL)
    (kept,) = await store.run(lambda table: table.take(10, []))
    assert kept.message == FULL
    assert kept.lane == "Orders order-17"


def test_a_delay_is_counted_from_when_it_was_added() -> None:
    fields = encode_message(Message("Orders", b"x", delay_ms=500), 1_000)
    assert decode_message("Orders", b"x", fields) == Message("Orders", b"x", deliver_at_ms=1_500)
    fields = encode_message(Message("Orders", b"x", keys=(key for key in ("a", "b"))), 1_000)
    assert decode_message("Orders", b"x", fields).keys == ["a", "b"]


def test_order_is_kept_within_a_topic_and_its_sharding_keys() -> None:
    lanes = [
        lane_of(Message(topic, b"x", sharding_key=key))
        for topic in ("Orders", "Bills")
        for key in (None, "", "a", "b", "c" * 300, "d" * 300, "\x00")
    ]
    assert len(set(lanes)) == len(lanes)
    assert all(0 < len(lane) <= 255 and lane.isprintable() for lane in lanes)


async def test_messages_are_taken_in_order_without_those_that_rest(store: OutboxStore) -> None:
    messages = [
        Message("Orders", b"%d" % number, sharding_key="ab"[number % 2]) for number in range(6)
    ]
    await add(store, *messages)
    taken = await store.run(lambda table: table.take(4, []))
    assert [kept.message.body for kept in taken] == [b"0", b"1", b"2", b"3"]
    rest = await store.run(lambda table: table.take(4, ["Orders a", "Orders x"]))
    assert [kept.message.body for kept in rest] == [b"1", b"3", b"5"]
    await store.run(lambda table: table.remove([kept.number for kept in taken]))
    assert await store.run(lambda table: table.backlog()) == Backlog(2, 0, 1_000)
    assert await store.run(lambda table: table.has("Orders a"))
    assert not await store.run(lambda table: table.has("Orders c"))
    last = await store.run(lambda table: table.take(4, []))
    await store.run(lambda table: table.remove([kept.number for kept in last]))
    await add(store, messages[0])
    (new,) = await store.run(lambda table: table.take(4, []))
    assert new.number > last[-1].number, "no number is used twice"


async def test_what_is_refused_waits_no_longer_until_it_is_tried_again(store: OutboxStore) -> None:
    await add(store, FULL, FULL)
    first, second = await store.run(lambda table: table.take(4, []))
    await store.run(lambda table: table.refuse(first.number, "too large"))
    assert await store.run(lambda table: table.take(4, [])) == [second]
    assert await store.run(lambda table: table.backlog()) == Backlog(1, 1, 1_000)
    await store.run(lambda table: table.remove([second.number]))
    assert not await store.run(lambda table: table.has(first.lane))
    assert await store.run(lambda table: table.backlog()) == Backlog(0, 1, None)
    assert await store.run(lambda table: table.retry_refused()) == 1
    assert await store.run(lambda table: table.take(4, [])) == [first]


async def test_the_lease_goes_from_hand_to_hand(store: OutboxStore) -> None:
    assert await store.run(lambda table: table.holder()) == Holder("", 0)
    assert not await store.run(lambda table: table.renew("a"))
    assert await store.run(lambda table: table.hold("a", Holder("", 0)))
    assert not await store.run(lambda table: table.hold("b", Holder("", 0)))
    assert await store.run(lambda table: table.renew("a"))
    assert await store.run(lambda table: table.holder()) == Holder("a", 2)
    await store.run(lambda table: table.release("b"))
    await store.run(lambda table: table.release("a"))
    assert await store.run(lambda table: table.holder()) == Holder("", 3)


async def test_a_message_is_there_if_its_transaction_commits(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite, engine = SqliteOutbox(path), create_engine(f"sqlite:///{path}")
    sqlalchemy = SqlAlchemyOutbox(engine)
    with closing(sqlite3.connect(path)) as connection:
        for fails in (True, False):
            with suppress(ZeroDivisionError), connection:
                sqlite.table(connection).add(Message("Orders", b"sqlite3 %d" % fails), 0)
                if fails:
                    raise ZeroDivisionError
    for fails in (True, False):
        with suppress(ZeroDivisionError), Session(engine) as session, session.begin():
            sqlalchemy.table(session).add(Message("Orders", b"session %d" % fails), 0)
            if fails:
                raise ZeroDivisionError
    kept = await sqlite.run(lambda table: table.take(9, []))
    assert [one.message.body for one in kept] == [b"sqlite3 0", b"session 0"]
    await sqlite.close()
    engine.dispose()


def test_what_cannot_be_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match="the connection whose transaction"):
        SqliteOutbox(tmp_path / "shop.db").table(None)
    with pytest.raises(ClientError, match="the path of a file"):
        SqliteOutbox(":memory:")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "roketto.client.outbox_sqlalchemy", raising=False)
    with pytest.raises(ImportError, match=r"SqlAlchemyOutbox needs SQLAlchemy 2.*roketto\[sql\]"):
        _ = outbox_store.SqlAlchemyOutbox
    with pytest.raises(AttributeError, match="Nothing"):
        _ = outbox_store.Nothing
