"""Every transaction ends as its producer says, once, whenever the broker is killed."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from roketto.broker import transactions
from roketto.broker.half_messages import first_link
from roketto.broker.transactions import GROUP
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC, TRANSACTION_GIVEN_UP_TOPIC
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult
from unit.broker.handlers.test_transactions import COMMIT, ROLLBACK, end, prepare
from unit.broker.send_rig import SendRig

TIME_OUT_MS = 6_000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store", has_index=True)
    rig.transactions.start()
    yield rig
    rig.close()


def restart(rig: SendRig) -> None:
    """Go on after a kill -9, with the offsets that were saved last."""
    rig.kill()
    rig.transactions.start()


def check(rig: SendRig) -> list[Record]:
    """What producers are asked about."""
    rig.asked.clear()
    asyncio.run(rig.transactions.check())
    return list(rig.asked)


def answer_of(rig: SendRig, link: Record, decision: str = COMMIT) -> None:
    """A producer answers the question about a link."""
    ext = {
        "producerGroup": "PG", "tranStateTableOffset": str(link.queue_offset),
        "commitLogOffset": str(link.log_offset), "commitOrRollback": decision,
        "fromTransactionCheck": "true", "msgId": "U",
    }  # fmt: skip
    end(rig, Command(RequestCode.END_TRANSACTION, ext, opaque=9))


def bodies(rig: SendRig) -> list[bytes]:
    return [bytes(record.body) for record in rig.records()]


def saved(rig: SendRig) -> tuple[int | None, int | None]:
    """How far the half topic and the op topic are done, by the table of offsets."""
    offsets = rig.context.offsets
    return offsets.get(HALF_TOPIC, GROUP, 0), offsets.get(HALF_OP_TOPIC, GROUP, 0)


# --- asking ---------------------------------------------------------------------------------------


def test_nobody_is_asked_before_the_time_is_over(rig: SendRig) -> None:
    """Of the broker, or that which the producer named."""
    prepare(rig)
    prepare(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    rig.pass_ms(TIME_OUT_MS - 1)
    assert check(rig) == []
    rig.pass_ms(1)
    assert [first_link(link) for link in check(rig)] == [0]
    rig.pass_ms(60_000)
    assert [first_link(link) for link in check(rig)] == [1, 0]


def test_a_producer_whose_clock_is_ahead_is_asked_none_the_less(rig: SendRig) -> None:
    rig.now_ms += 10**9
    prepare(rig)
    rig.now_ms -= 10**9
    restart(rig)
    rig.pass_ms(TIME_OUT_MS)
    assert len(check(rig)) == 1


def test_each_question_is_about_a_new_link(rig: SendRig) -> None:
    """It is stored before anybody is asked, with how often that was."""
    prepare(rig)
    for times in (1, 2, 3):
        rig.pass_ms(30_000)
        (link,) = check(rig)
        assert link.get_property("TRANSACTION_CHECK_TIMES") == str(times)
        assert (link.queue_offset, first_link(link)) == (times, 0)
        stored = rig.store.record_at(link.log_offset)
        assert stored.queue_offset == times
    answer_of(rig, link)
    assert bodies(rig) == [b"hello"]
    rig.pass_ms(30_000)
    assert check(rig) == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_end_of_an_older_link_is_the_end(rig: SendRig, is_restarted: bool) -> None:
    """A slow producer, which was asked meanwhile: it says it once more, and both count once."""
    request = prepare(rig)
    rig.pass_ms(30_000)
    (link,) = check(rig)
    end(rig, request)
    if is_restarted:
        restart(rig)
    answer_of(rig, link)
    end(rig, request)
    assert bodies(rig) == [b"hello"]
    assert len(rig.transactions) == 0


def test_what_nobody_decides_is_given_up_after_so_many_questions(rig: SendRig) -> None:
    """It is where operators find it, and is not asked about again, also after a kill."""
    rig.config.transaction_check_max = 2
    prepare(rig)
    for count in (1, 1, 0, 0):
        rig.pass_ms(30_000)
        assert len(check(rig)) == count
    given_up = rig.record(TRANSACTION_GIVEN_UP_TOPIC, 0)
    assert bytes(given_up.body) == b"hello"
    assert rig.context.topics.get(TRANSACTION_GIVEN_UP_TOPIC) is not None
    restart(rig)
    assert len(rig.transactions) == 0


def test_operators_see_how_transactions_went(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that nobody decides among them, and that no producer was there to be asked."""
    told = rig.transactions.figures()
    assert told.pop("transactionsOpenMax") == "1000000"
    assert told.pop("transactionsOpenByTopic") == "none"
    assert list(told.values()) == ["0"] * 6
    rig.config.transaction_check_max = 1
    for decision in (COMMIT, COMMIT, ROLLBACK):
        end(rig, prepare(rig), commitOrRollback=decision)
    prepare(rig)
    monkeypatch.setattr(rig.transactions, "_ask", lambda _half: False)
    rig.pass_ms(30_000)
    check(rig)
    prepare(rig)
    told = rig.transactions.figures()
    assert told == {
        "transactionsOpen": "2", "transactionsOpenMax": "1000000",
        "transactionsOpenByTopic": "[T]:2", "transactionsCommitted": "2",
        "transactionsRolledBack": "1", "transactionsAsked": "1", "transactionsAskedNobody": "1",
        "transactionsGivenUp": "0",
    }  # fmt: skip
    rig.pass_ms(1_000)
    check(rig)
    told = rig.transactions.figures()
    assert (told["transactionsOpen"], told["transactionsGivenUp"]) == ("1", "1")
    restart(rig)
    assert rig.transactions.figures()["transactionsOpen"] == "1"


def test_open_transactions_are_counted_by_topic(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over questions and a kill, for operators and in Java's file; what that said is corrected."""
    requests = [prepare(rig) for _ in range(3)]
    prepare(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    rig.pass_ms(1_000)
    assert len(check(rig)) == 1
    monkeypatch.setattr(transactions, "TOPICS_MAX", 1)
    rig.transactions.enter_plain(9, 9, 100, rig.now_ms, "PG", "Other", 0)
    assert rig.transactions.figures()["transactionsOpenByTopic"] == "[T]:4 []:1"
    end(rig, requests[0])
    end(rig, requests[1], commitOrRollback=ROLLBACK)
    rig.transaction_metrics.note({"Gone": 7})
    rig.transactions.note_counts()
    assert rig.transaction_metrics.counts == {"T": 2, "": 1, "Gone": 0}
    restart(rig)
    assert rig.transaction_metrics.counts == {"T": 2}
    end(rig, requests[2])
    assert rig.transactions.figures()["transactionsOpenByTopic"] == "[T]:1"


def test_what_is_older_than_messages_get_is_given_up(rig: SendRig) -> None:
    prepare(rig)
    rig.pass_ms(72 * 3_600_000 + 1)
    assert check(rig) == []
    assert len(rig.records(TRANSACTION_GIVEN_UP_TOPIC, 0)) == 1


def test_a_half_message_that_is_gone_holds_nothing_up(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file was deleted, or is damaged: others are asked about."""
    prepare(rig)
    prepare(rig)
    rig.pass_ms(30_000)
    read = rig.store.record_at

    def lose_first(log_offset: int) -> Record:
        if log_offset == 0:
            raise StoreError("gone")
        return read(log_offset)

    monkeypatch.setattr(rig.store, "record_at", lose_first)
    assert [first_link(link) for link in check(rig)] == [1]
    assert "the half message at 0 of the log is lost: gone" in caplog.text
    assert len(rig.transactions) == 1


def test_many_are_asked_about_in_turns(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served in between, and may decide what is yet to be asked about."""
    monkeypatch.setattr(transactions, "TURN_MAX", 2)
    requests = [prepare(rig) for _ in range(4)]
    rig.pass_ms(30_000)

    async def check_and_decide() -> None:
        checking = asyncio.create_task(rig.transactions.check())
        await asyncio.sleep(0)
        end(rig, requests[2])
        await checking

    asyncio.run(check_and_decide())
    assert [first_link(link) for link in rig.asked] == [0, 1, 3]


def refuse(record: Record) -> PutResult:
    raise PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, f"no room for {record.topic}")


def test_a_store_that_takes_nothing_is_asked_again(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is asked about a link that is not there; the refusal is told once."""
    prepare(rig)
    request = prepare(rig)
    rig.pass_ms(30_000)
    with monkeypatch.context() as patch:
        patch.setattr(rig.transactions, "_put", refuse)
        assert check(rig) == []
        assert check(rig) == []
        assert end(rig, request) is not None  # the commit itself takes another way
        assert caplog.text.count("the store takes no messages") == 2  # links, and then what ended
        rig.transactions.settle()
        assert saved(rig) == (None, None)
    assert rig.records(HALF_OP_TOPIC, 0) == []
    rig.transactions.write_decided()
    assert bytes(rig.record(HALF_OP_TOPIC, 0).body) == b"1,"
    assert len(check(rig)) == 1


def test_a_rollback_that_cannot_be_recorded_is_refused(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that it was rolled back; it is open, and can be later."""
    request = prepare(rig)
    with monkeypatch.context() as patch:
        patch.setattr(rig.transactions, "_put", refuse)
        with pytest.raises(PutRefusedError, match="no room"):
            end(rig, request, commitOrRollback=ROLLBACK)
    assert len(rig.transactions) == 1
    end(rig, request, commitOrRollback=ROLLBACK)
    assert bytes(rig.record(HALF_OP_TOPIC, 0).body) == b"0,"


def test_no_more_transactions_are_open_than_there_is_room_for(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half messages are refused then, until one is decided."""
    monkeypatch.setattr(transactions, "OPEN_MAX", 2)
    request = prepare(rig)
    prepare(rig)
    with pytest.raises(PutRefusedError, match="2 transactions are open, the bound"):
        prepare(rig)
    end(rig, request)
    prepare(rig)
    assert len(rig.transactions) == 2


# --- kills ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_what_was_decided_is_decided_after_a_kill(rig: SendRig, decision: str) -> None:
    """Whatever the producer says then, and however often it is killed."""
    request = prepare(rig)
    end(rig, request, commitOrRollback=decision)
    expected = bodies(rig)
    for _ in range(2):
        restart(rig)
        assert len(rig.transactions) == 0
        rig.pass_ms(30_000)
        assert check(rig) == []
        end(rig, request, commitOrRollback=decision)
        assert bodies(rig) == expected


def test_what_is_open_is_open_after_a_kill(rig: SendRig) -> None:
    """With the links that it had, and can be decided by each of them."""
    request = prepare(rig, b"one")
    prepare(rig, b"two")
    rig.pass_ms(30_000)
    check(rig)
    restart(rig)
    assert len(rig.transactions) == 2
    rig.pass_ms(30_000)
    one, two = check(rig)
    assert (first_link(one), one.get_property("TRANSACTION_CHECK_TIMES")) == (0, "2")
    end(rig, request)
    answer_of(rig, two, ROLLBACK)
    restart(rig)
    assert len(rig.transactions) == 0
    assert bodies(rig) == [b"one"]


@pytest.mark.parametrize("properties", [{}, {"DELAY": "2"}])
def test_a_kill_between_a_commit_and_its_op_does_not_commit_twice(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    """The message itself says that it was committed, where it is or where it waits."""
    request = prepare(rig, b"hello", **properties)
    rig.pass_ms(30_000)
    check(rig)
    monkeypatch.setattr(rig.transactions, "write_decided", lambda: None)
    end(rig, request)
    assert rig.records(HALF_OP_TOPIC, 0) == []
    stored = len(list(rig.store.log.records(0)))
    restart(rig)
    assert len(rig.transactions) == 0
    end(rig, request)
    rig.pass_ms(30_000)
    assert check(rig) == []
    assert len(list(rig.store.log.records(0))) == stored + 1  # the op
    assert bytes(rig.record(HALF_OP_TOPIC, 0).body) == b"0,1,"


# --- how far it is --------------------------------------------------------------------------------


def flush(rig: SendRig) -> None:
    rig.store.request_flush()
    rig.store.tick()
    while rig.store.flushed < rig.store.log.max_offset:
        rig.store.advance()


def test_offsets_follow_what_is_decided_and_on_the_disk(rig: SendRig) -> None:
    """The first half message that is open; of the op topic what speaks of it or of later ones."""
    first, second, third = (prepare(rig) for _ in range(3))
    end(rig, second)
    flush(rig)
    rig.transactions.settle()
    assert saved(rig) == (None, None)
    end(rig, first)
    rig.transactions.settle()
    assert saved(rig) == (None, None)  # not on the disk yet
    flush(rig)
    rig.transactions.settle()
    assert saved(rig) == (2, 2)
    end(rig, third)
    flush(rig)
    rig.transactions.settle()
    assert saved(rig) == (3, 3)


def test_a_broker_that_is_never_idle_gets_on(rig: SendRig) -> None:
    """What was on the disk at the last look is noted, while more is on its way."""
    for _ in range(2):
        end(rig, prepare(rig))
    rig.transactions.settle()
    flush(rig)
    end(rig, prepare(rig))
    rig.transactions.settle()
    assert saved(rig) == (2, 2)


def test_a_start_reads_from_there(rig: SendRig) -> None:
    """And from the beginning where the offsets are of another store."""
    end(rig, prepare(rig))
    request = prepare(rig, b"open")
    flush(rig)
    rig.transactions.settle()
    assert saved(rig) == (1, 1)
    rig.offset_table.save_if_changed()
    restart(rig)
    assert len(rig.transactions) == 1
    rig.context.offsets.commit(HALF_TOPIC, GROUP, 0, 4_711)
    rig.offset_table.save_if_changed()
    restart(rig)
    assert len(rig.transactions) == 1
    end(rig, request)
    assert bodies(rig) == [b"hello", b"open"]


def test_what_ended_in_one_turn_is_one_message(rig: SendRig) -> None:
    """As many as fit into it."""

    async def run() -> None:
        loop = asyncio.create_task(rig.transactions.run())
        await asyncio.sleep(0)
        for request in [prepare(rig) for _ in range(1_200)]:
            end(rig, request)
        assert rig.records(HALF_OP_TOPIC, 0) == []
        await asyncio.sleep(0)
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop

    asyncio.run(run())
    texts = [bytes(record.body) for record in rig.records(HALF_OP_TOPIC, 0)]
    assert [int(text) for text in b"".join(texts).split(b",") if text] == list(range(1_200))
    assert max(map(len, texts)) <= 4_096
    assert len(texts) == 2


def test_the_loop_asks_by_itself(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And goes on after an error of the store."""
    monkeypatch.setattr(transactions, "_BEAT_S", 0.001)
    rig.config.transaction_check_interval = 1
    prepare(rig)
    rig.pass_ms(30_000)
    settle = rig.transactions.settle
    failures = iter([StoreError("a bad day")])

    def fail_once() -> None:
        for failure in failures:
            raise failure
        settle()

    monkeypatch.setattr(rig.transactions, "settle", fail_once)

    async def run() -> None:
        is_asked = asyncio.Event()
        monkeypatch.setattr(rig.transactions, "_ask", lambda link: is_asked.set())
        loop = asyncio.create_task(rig.transactions.run())
        async with asyncio.timeout(10):
            await is_asked.wait()
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop

    asyncio.run(run())
    assert "tried again: a bad day" in caplog.text
