"""A message takes effect once: with its transaction, without one, and whoever comes at once."""

import asyncio
import inspect
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

from roketto.client import dedup_stores
from roketto.client.dedup import Deduplicator, IllegalKeyError
from roketto.client.dedup_stores import (
    ADDED_PER_REMOVAL,
    KEPT_S,
    DedupStore,
    MemoryStore,
    SqlAlchemyStore,
    SqliteStore,
)
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.message import MessageQueue
from roketto.client.received import ReceivedMessage
from roketto.clock import wall_ms
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER
CONTEXT = ConsumeContext(MessageQueue("broker-a", 0, "Orders"))


def message(number: int = 1, **properties: str) -> ReceivedMessage:
    found = encode_properties({"UNIQ_KEY": f"ID{number}", **properties})
    return ReceivedMessage(Record("Orders", b"tea", found), "broker-a")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE sold (what TEXT)")
    return tmp_path / "shop.db"


@pytest.fixture(params=["memory", "sqlite", "sqlalchemy"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[DedupStore]:
    if request.param == "sqlalchemy":
        made = SqlAlchemyStore(f"sqlite:///{path}")
        yield made
        made.close()
    else:
        yield MemoryStore() if request.param == "memory" else SqliteStore(path)


def sold(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM sold ORDER BY rowid")]


# --- without a transaction of the application -----------------------------------------------------


def test_what_was_consumed_is_not_new_again(store: DedupStore) -> None:
    deduplicator = Deduplicator(store, "billing")
    seen = []
    for number in (1, 1, 2, 1):
        with deduplicator.once(message(number)) as is_new:
            seen.append(is_new)
    assert seen == [True, False, True, False]
    with Deduplicator(store, "shipping").once(message(1)) as is_new:
        assert is_new, "another group consumes it for itself"


def test_what_has_failed_is_new_once_more(store: DedupStore) -> None:
    deduplicator = Deduplicator(store, "billing")
    with pytest.raises(ZeroDivisionError), deduplicator.once(message()):
        _ = 1 / 0
    with deduplicator.once(message()) as is_new:
        assert is_new


def test_the_application_says_what_is_the_same(store: DedupStore) -> None:
    deduplicator = Deduplicator(store, "billing", key=lambda one: one.keys[0])
    with deduplicator.once(message(1, KEYS="order-7")) as is_new:
        assert is_new
    with deduplicator.once(message(2, KEYS="order-7")) as is_new:
        assert not is_new
    with pytest.raises(IllegalKeyError, match=r"256 characters.*1 to 255"):
        deduplicator.once(message(3, KEYS="x" * 256))


def test_threads_with_one_key_wait_for_each_other(store: DedupStore) -> None:
    """The first one fails while the others wait; then exactly one of them consumes it."""
    deduplicator = Deduplicator(store, "billing")
    begun, proceed, news = threading.Event(), threading.Event(), list[bool]()

    def fail() -> None:
        with suppress(ZeroDivisionError), deduplicator.once(message()):
            begun.set()
            proceed.wait(5)
            _ = 1 / 0

    def consume() -> None:
        begun.wait(5)
        with deduplicator.once(message()) as is_new:
            news.append(is_new)

    threads = [threading.Thread(target=work) for work in (fail, consume, consume, consume)]
    for thread in threads:
        thread.start()
    begun.wait(5)
    assert news == []
    proceed.set()
    for thread in threads:
        thread.join()
    assert sorted(news) == [False, False, True]


async def test_coroutines_with_one_key_wait_for_each_other(store: DedupStore) -> None:
    deduplicator = Deduplicator(store, "billing")
    under_way = 0
    news = []

    async def consume() -> None:
        nonlocal under_way
        async with deduplicator.once(message()) as is_new:
            under_way += is_new
            assert under_way <= 1
            await asyncio.sleep(0.01)
            under_way -= is_new
            news.append(is_new)

    await asyncio.gather(*(consume() for _ in range(4)))
    await asyncio.get_running_loop().shutdown_default_executor()
    assert sorted(news) == [False, False, False, True]


async def test_whoever_is_cancelled_leaves_the_key_free(store: DedupStore) -> None:
    deduplicator = Deduplicator(store, "billing")
    entered = asyncio.Event()

    async def consume() -> None:
        async with deduplicator.once(message()):
            entered.set()
            await asyncio.sleep(5)

    holding, waiting = asyncio.create_task(consume()), asyncio.create_task(consume())
    await entered.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    holding.cancel()
    await asyncio.wait([holding])
    async with deduplicator.once(message()) as is_new:
        assert is_new
    await asyncio.get_running_loop().shutdown_default_executor()


# --- in the transaction of the application --------------------------------------------------------


Begin = Callable[[], AbstractContextManager[Any]]
Insert = Callable[[Any, str], object]


@pytest.fixture(params=["sqlite3", "Connection", "Session"])
def application(
    request: pytest.FixtureRequest, path: Path
) -> Iterator[tuple[DedupStore, Begin, Insert]]:
    """A store, how the application begins a transaction, and how it writes in one."""
    if request.param == "sqlite3":

        @contextmanager
        def begin() -> Iterator[sqlite3.Connection]:
            with closing(sqlite3.connect(path)) as connection, connection:
                yield connection

        insert = "INSERT INTO sold VALUES (?)"
        yield SqliteStore(path), begin, lambda own, what: own.execute(insert, (what,))
        return
    engine = create_engine(f"sqlite:///{path}")
    begins: dict[str, Begin] = {"Connection": engine.begin, "Session": sessionmaker(engine).begin}
    statement = text("INSERT INTO sold VALUES (:what)")
    yield (
        SqlAlchemyStore(engine), begins[request.param],
        lambda own, what: own.execute(statement, {"what": what}),
    )  # fmt: skip
    engine.dispose()


def test_key_and_work_are_committed_together_or_not_at_all(
    application: tuple[DedupStore, Begin, Insert], path: Path
) -> None:
    store, begin, insert = application
    deduplicator = Deduplicator(store, "billing")
    for fails in (True, False, False):
        with suppress(ZeroDivisionError), begin() as connection:
            with deduplicator.once(message(), connection) as is_new:
                if is_new:
                    insert(connection, "tea")
            insert(connection, f"{fails} {is_new}")
            if fails:
                raise ZeroDivisionError
    assert sold(path) == ["tea", "False True", "False False"]


def test_a_block_that_fails_undoes_its_own_part_only(
    application: tuple[DedupStore, Begin, Insert], path: Path
) -> None:
    store, begin, insert = application
    deduplicator = Deduplicator(store, "billing")
    with begin() as connection:
        insert(connection, "before")
        with suppress(ZeroDivisionError), deduplicator.once(message(), connection):
            insert(connection, "tea")
            raise ZeroDivisionError
        insert(connection, "after")
    assert sold(path) == ["before", "after"]
    with begin() as connection, deduplicator.once(message(), connection) as is_new:
        assert is_new


def test_a_connection_that_the_store_was_made_of_commits_by_itself(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect(path)) as other:
        deduplicator = Deduplicator(SqliteStore(connection), "billing")
        with deduplicator.once(message()) as is_new:
            assert is_new
            connection.execute("INSERT INTO sold VALUES ('tea')")
        assert not connection.in_transaction
        assert other.execute("SELECT message_key FROM roketto_consumed").fetchall() == [("ID1",)]
        connection.execute("INSERT INTO sold VALUES ('milk')")
        with deduplicator.once(message(2)):
            pass
        assert connection.in_transaction, "it was open before, so it is the application's"
        connection.rollback()
    assert sold(path) == ["tea"]


def test_memory_takes_no_part_in_a_transaction(path: Path) -> None:
    deduplicator = Deduplicator(MemoryStore(), "billing")
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(ClientError, match="cannot be part of a transaction"),
        deduplicator.once(message(), connection),
    ):
        raise AssertionError("not reached")


# --- what is kept ---------------------------------------------------------------------------------


def test_old_keys_go_in_bounded_steps(
    application: tuple[DedupStore, Begin, Insert], path: Path
) -> None:
    store, begin, _ = application
    old_ms = wall_ms() - (KEPT_S + 60) * 1000
    old = [("billing", f"old{number}", old_ms) for number in range(300)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO roketto_consumed VALUES (?, ?, ?)", old)
    deduplicator = Deduplicator(store, "billing")
    counted: Any = "SELECT COUNT(*) FROM roketto_consumed"
    counts = []
    with begin() as connection:
        if not isinstance(connection, sqlite3.Connection):
            counted = text(counted)
        for number in range(2 * ADDED_PER_REMOVAL + 1):
            with deduplicator.once(message(number), connection):
                pass
            counts += connection.execute(counted).fetchone()
    steps = [before + 1 - after for before, after in pairwise([300, *counts])]
    assert [step for step in steps if step] == [128, 128, 44]
    assert steps.index(128, 1) == ADDED_PER_REMOVAL
    assert counts[-1] == 2 * ADDED_PER_REMOVAL + 1, "what is not old stays"


def test_memory_keeps_so_many_keys_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(dedup_stores, "monotonic_s", lambda: now_s)
    deduplicator = Deduplicator(MemoryStore(count_max=10, seconds=60), "billing")

    def is_new(number: int) -> bool:
        with deduplicator.once(message(number)) as found:
            return found

    assert all(is_new(number) for number in range(20))
    assert is_new(0), "forgotten: there is no room for it"
    assert not is_new(19)
    now_s = 61.0
    assert is_new(19)


def test_memory_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    deduplicator = Deduplicator(MemoryStore(wait_s=0.01), "billing")
    with (
        deduplicator.once(message()),
        pytest.raises(ClientError, match=r"for more than 0\.01 s"),
        deduplicator.once(message()),
    ):
        raise AssertionError("not reached")


def test_what_needs_sqlalchemy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    for name in [name for name in sys.modules if name.startswith("roketto.client.dedup_sqla")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"SqlAlchemyStore needs SQLAlchemy 2.*roketto\[sql\]"):
        _ = dedup_stores.SqlAlchemyStore
    with pytest.raises(AttributeError, match="Nothing"):
        _ = dedup_stores.Nothing


# --- listeners ------------------------------------------------------------------------------------


def test_a_wrapped_listener_gets_each_message_once(store: DedupStore) -> None:
    got: list[str] = []
    answers = iter([SUCCESS, LATER, SUCCESS, SUCCESS])

    def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        assert context is CONTEXT
        got.extend(one.message_id for one in messages)
        return next(answers)

    wrapped = Deduplicator(store, "billing").wrap(listen)
    batch = [message(number) for number in (1, 2, 3)]
    assert wrapped(batch, CONTEXT) is LATER
    assert wrapped(batch, CONTEXT) is SUCCESS
    assert wrapped(batch, CONTEXT) is SUCCESS
    assert got == ["ID1", "ID2", "ID2", "ID3"]


async def test_a_wrapped_coroutine_gets_each_message_once(store: DedupStore) -> None:
    got: list[str] = []

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        got.extend(one.message_id for one in messages)
        if len(got) == 1:
            raise ZeroDivisionError
        return SUCCESS

    wrapped = Deduplicator(store, "billing").wrap(listen)
    for _ in range(3):
        with suppress(ZeroDivisionError):
            answer = wrapped([message(1), message(2)], CONTEXT)
            assert not isinstance(answer, ConsumeResult | None)
            assert await answer is SUCCESS
    assert got == ["ID1", "ID1", "ID2"]
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_a_wrapped_listener_writes_in_the_transaction_of_its_key(
    kind: str, path: Path
) -> None:
    def listen(
        messages: list[ReceivedMessage], context: ConsumeContext, connection: sqlite3.Connection
    ) -> ConsumeResult:
        connection.execute("INSERT INTO sold VALUES ('tea')")
        return next(answers)

    async def listen_async(
        messages: list[ReceivedMessage], context: ConsumeContext, connection: sqlite3.Connection
    ) -> ConsumeResult:
        return listen(messages, context, connection)

    answers = iter([LATER, SUCCESS, SUCCESS])
    deduplicator = Deduplicator(SqliteStore(path), "billing")
    wrapped = deduplicator.wrap(
        listen if kind == "function" else listen_async, with_connection=True
    )
    for expected in (LATER, SUCCESS, SUCCESS):
        answer = wrapped([message()], CONTEXT)
        assert (await answer if inspect.isawaitable(answer) else answer) is expected
    assert sold(path) == ["tea"]
    await asyncio.get_running_loop().shutdown_default_executor()


def test_a_listener_that_commits_for_itself_is_not_wrapped(store: DedupStore) -> None:
    context = ConsumeContext(CONTEXT.queue, auto_commit=False)
    wrapped = Deduplicator(store, "billing").wrap(lambda messages, context: SUCCESS)
    with pytest.raises(ClientError, match="auto_commit"):
        wrapped([message()], context)
