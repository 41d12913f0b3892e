"""A message that comes again is answered with the first one's place, also after a kill."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roketto.broker import dedup as module
from roketto.broker.dedup import Dedup, Rebuild
from roketto.broker.dedup_window import UNKNOWN
from roketto.broker.dispatch import Dispatcher
from roketto.broker.handlers.transactions import ROUTES as END_ROUTES
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roketto.store.put_status import PutRefusedError
from unit.broker.dedup_rig import WINDOW_S, DedupRig
from unit.broker.send_rig import PLAIN, SendRig

HALF = PLAIN | {"TRAN_MSG": "true", "PGROUP": "PG"}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DedupRig]:
    rig = DedupRig(tmp_path / "store", has_index=True)
    yield rig
    rig.close()


def named(number: int, **more: str) -> dict[str, str]:
    return PLAIN | {"UNIQ_KEY": f"{number:032X}"} | more


def place(answer: Command) -> tuple[str, ...]:
    assert answer.code == 0
    assert answer.ext is not None
    return tuple(answer.ext[name] for name in ("msgId", "queueId", "queueOffset", "transactionId"))


def end(rig: SendRig, half: Command, decision: str) -> int:
    """Commit (8) or roll back (12) what was prepared; the code of the answer."""
    assert half.ext is not None
    ext = {
        "producerGroup": "PG", "tranStateTableOffset": half.ext["queueOffset"],
        "commitLogOffset": str(decode_offset_id(half.ext["msgId"]).log_offset),
        "commitOrRollback": decision, "fromTransactionCheck": "false",
        "msgId": half.ext["transactionId"], "transactionId": half.ext["transactionId"],
    }  # fmt: skip
    request = Command(RequestCode.END_TRANSACTION, ext, opaque=9)
    answer = rig.handle(request, END_ROUTES[RequestCode.END_TRANSACTION])
    assert isinstance(answer, Command)
    return answer.code


# --- one message ----------------------------------------------------------------------------------


def test_a_retry_is_answered_with_the_first_ones_place(rig: DedupRig) -> None:
    """Also if it is for another queue, as retries of Java's clients are."""
    first = rig.send(body=b"once")
    again = rig.send(body=b"once", e="3")
    assert place(again) == place(first)
    assert rig.record().body == b"once"
    assert (rig.count(), rig.duplicates) == (1, 1)
    assert rig.context.stats.put.count == 1


def test_messages_with_other_ids_are_all_taken(rig: DedupRig) -> None:
    """And so are those to other topics, and after the window."""
    for number in range(10):
        rig.send(properties=named(number))
    rig.send("Other", properties=named(0))
    assert (rig.count(), rig.duplicates) == (10, 0)


def test_a_message_without_an_id_is_always_taken(rig: DedupRig) -> None:
    """The broker gives it one, which nobody else has."""
    for _ in range(3):
        rig.send(properties={"TAGS": "A"})
    assert (rig.count(), rig.duplicates) == (3, 0)


def test_keys_may_be_the_ids(rig: DedupRig) -> None:
    """Then an application that sends anew, under another id, is told of the first, too."""
    rig.attributes = {**rig.attributes, "dedup.by": "KEYS"}
    rig.fill()
    first = rig.send(properties=named(1, KEYS="order-7"))
    again = rig.send(properties=named(2, KEYS="order-7"))
    assert place(again) == place(first)
    rig.send(properties=named(3))
    rig.send(properties=named(3))
    rig.send(properties=named(4, KEYS="order-8"))
    assert (rig.count(), rig.duplicates) == (4, 1)


def test_a_one_way_retry_is_dropped(rig: DedupRig) -> None:
    """Nobody is told of it."""
    assert rig.send_one_way() is None
    assert rig.send_one_way() is None
    assert (rig.count(), rig.duplicates) == (1, 1)


def test_a_message_that_was_refused_is_taken_when_it_comes_again(rig: DedupRig) -> None:
    """Nothing is known of it: it was not stored."""
    rig.store.gate.hold("the disk is 96 % full")
    with pytest.raises(PutRefusedError):
        rig.send()
    rig.store.gate.retry()
    place(rig.send())
    assert (rig.count(), rig.duplicates) == (1, 0)


def test_two_ids_with_one_hash_are_two_messages(rig: DedupRig) -> None:
    """What is found by a hash is looked at."""
    rig.send(properties=named(1))
    at = rig.window.find(named(1)["UNIQ_KEY"])
    rig.window.remember(named(2)["UNIQ_KEY"], at)
    rig.send(properties=named(2))
    assert (rig.count(), rig.duplicates) == (2, 0)
    rig.send(properties=named(2))
    assert (rig.count(), rig.duplicates) == (2, 1)


def test_what_is_not_in_the_log_any_more_is_taken(rig: DedupRig) -> None:
    """Retention has removed it, or nobody can read it."""
    rig.window.remember(PLAIN["UNIQ_KEY"], 10**9)
    place(rig.send())
    assert (rig.count(), rig.duplicates) == (1, 0)


def test_a_topic_that_was_deleted_and_made_again_knows_nothing(rig: DedupRig) -> None:
    """The first message is in the log, where nobody consumes it."""
    rig.send()
    rig.context.topics.remove("T")
    rig.store.delete_topic("T")
    rig.fill()
    rig.send()
    assert (rig.count(), rig.duplicates) == (1, 0)


async def test_under_sync_flush_the_answer_waits_for_the_first(tmp_path: Path) -> None:
    """A retry that overtakes the disk is not told that its message is safe before it is."""
    rig = DedupRig(tmp_path / "store", is_sync=True)
    assert rig.handle(rig.request()) is None
    assert rig.handle(rig.request()) is None
    assert (rig.connection.held, len(rig.context.durability)) == (2, 2)
    rig.context.durability.attach(asyncio.get_running_loop())
    rig.store.request_flush()
    async with asyncio.timeout(10):
        while rig.connection.held:
            rig.context.durability.note_flushed(0)
            await asyncio.sleep(0.001)
    (_, first), (_, again) = rig.connection.replies
    assert place(first) == place(again)
    late = rig.send()
    assert place(late) == place(first), "it is safe, so nobody waits for it"
    hasty = rig.send(properties=PLAIN | {"WAIT": "false"})
    assert place(hasty) == place(first)
    rig.context.durability.detach()
    rig.close()


# --- delays and transactions ----------------------------------------------------------------------


def test_a_delayed_message_is_put_aside_once(rig: DedupRig) -> None:
    """Before and after it was delivered, and after a kill."""
    first = rig.send(properties=PLAIN | {"DELAY": "1"})
    again = rig.send(properties=PLAIN | {"DELAY": "1"})
    assert place(again) == place(first)
    rig.delays.start()
    rig.pass_ms(1_001)
    rig.delays.step()
    assert rig.count() == 1
    assert place(rig.send(properties=PLAIN | {"DELAY": "1"})) == place(first)
    rig.kill()
    assert place(rig.send(properties=PLAIN | {"DELAY": "1"})) == place(first)
    assert len(rig.records(SCHEDULE_TOPIC, 0)) == 1


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_half_message_is_prepared_once(rig: DedupRig, is_killed: bool) -> None:
    """Its producer decides about the first, of which the retry was told."""
    first = rig.send(properties=HALF, f="4")
    if is_killed:
        rig.kill()
    again = rig.send(properties=HALF, f="4")
    assert place(again) == place(first)
    assert end(rig, again, "8") == 0
    assert (rig.count(), len(rig.records(HALF_TOPIC, 0))) == (1, 1)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_half_message_that_comes_after_the_commit_is_none(rig: DedupRig, is_killed: bool) -> None:
    """It was on its way for long; the message is there, once."""
    first = rig.send(properties=HALF, f="4")
    end(rig, first, "8")
    if is_killed:
        rig.kill()
    again = rig.send(properties=HALF, f="4")
    assert place(again) == place(first)
    assert end(rig, again, "8") == 0
    assert rig.count() == 1
    assert len(rig.transactions) == 0


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_rolled_back_may_be_sent_again(rig: DedupRig, is_killed: bool) -> None:
    """The message is nowhere: to answer with it would be to lose it."""
    end(rig, rig.send(properties=HALF, f="4"), "12")
    if is_killed:
        rig.kill()
    again = rig.send(properties=HALF, f="4")
    assert len(rig.transactions) == 1
    assert end(rig, again, "8") == 0
    assert rig.count() == 1


def test_a_message_and_a_half_message_are_not_each_others_retries(rig: DedupRig) -> None:
    """Whoever sends both with one id gets both."""
    rig.send(properties=HALF, f="4")
    rig.send()
    assert (rig.count(), rig.duplicates) == (1, 0)
    rig.send(properties=HALF, f="4")
    assert len(rig.transactions) == 2


# --- after a start --------------------------------------------------------------------------------


def test_a_kill_is_survived(rig: DedupRig) -> None:
    """All that was taken within the window is known; what was before is not."""
    rig.send(properties=named(0))
    rig.pass_ms(WINDOW_S * 1_000 + 1)
    told = [rig.send(properties=named(n), e=str(n % 4)) for n in range(1, 9)]
    rig.kill()
    again = [rig.send(properties=named(n), e="0") for n in range(1, 9)]
    assert [place(one) for one in again] == [place(one) for one in told]
    assert rig.duplicates == 8
    assert rig.window.find(named(0)["UNIQ_KEY"]) == UNKNOWN


def test_what_is_read_after_a_start_ends_with_its_time(rig: DedupRig) -> None:
    """Counted from when it was stored, not from the start."""
    rig.send(properties=named(1))
    rig.pass_ms(WINDOW_S * 500)
    rig.send(properties=named(2))
    rig.kill()
    rig.pass_ms(WINDOW_S * 500 + 3_000)
    rig.window.expire(rig.now_ms, 100)
    assert rig.window.find(named(1)["UNIQ_KEY"]) == UNKNOWN
    assert rig.window.find(named(2)["UNIQ_KEY"]) != UNKNOWN


def test_a_start_reads_in_small_turns(rig: DedupRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of each queue no more than there is room for."""
    monkeypatch.setattr(module, "LOOKS_PER_TURN", 16)
    for number in range(100):
        rig.send(properties=named(number))
    assert rig.fill() == 1 + 100 // 16 + 1
    rig.config.dedup_ids_max = 20
    rig.kill()
    assert (len(rig.window), rig.context.topics.windows.room.forgotten) == (20, 0)
    assert rig.window.find(named(99)["UNIQ_KEY"]) != UNKNOWN
    assert rig.window.find(named(79)["UNIQ_KEY"]) == UNKNOWN


def test_a_window_waits_for_messages_that_are_in_no_queue_yet(tmp_path: Path) -> None:
    """Under SYNC_FLUSH they come there with the sync."""
    rig = SendRig(tmp_path / "store", is_sync=True)
    rig.handle(rig.request())
    topics = rig.context.topics
    topics.put(TopicConfig(topic_name="T", attributes=dict(DedupRig.attributes)))
    window = topics.windows.of(topics.topics["T"])
    assert window is not None
    rebuild = Rebuild(rig.store, [window], rig.now_ms, 100)
    assert not rebuild.step()
    assert rebuild.waits_for_disk
    rig.store.appender.dispatch_waiting(rig.store.log.written)
    while not rebuild.step():
        assert not rebuild.waits_for_disk
    assert window.find(PLAIN["UNIQ_KEY"]) != UNKNOWN
    rig.close()


def test_a_window_that_goes_while_it_is_filled_takes_no_room(rig: DedupRig) -> None:
    """An operator changes the topic meanwhile."""
    rig.send()
    windows = rig.context.topics.windows
    windows.drop("T")
    window = windows.of(rig.context.topics.topics["T"])
    assert window is not None
    rebuild = Rebuild(rig.store, [window], rig.now_ms, 100)
    windows.drop("T")
    while not rebuild.step():
        pass
    assert windows.room.left == windows.ids_max


async def dispatched(rig: SendRig, request: Command) -> Command | None:
    """What a connection would be answered."""
    reply = Dispatcher(rig.context).handle(rig.connection.as_connection, request)
    return reply if reply is None or isinstance(reply, Command) else await reply


async def test_a_retry_waits_until_the_window_knows(tmp_path: Path) -> None:
    """It comes before what was stored was read again, and does not slip through."""
    rig = DedupRig(tmp_path / "store")
    first = rig.send()
    rig.context.topics.windows.drop("T")
    rig.context.topics.targets.clear()
    waiting = asyncio.create_task(dispatched(rig, rig.request()))
    await asyncio.sleep(0)
    assert not waiting.done()
    dedup = Dedup(rig.store, rig.context.topics, rig.clock_ms)
    await dedup.fill()
    again = await waiting
    assert again is not None
    assert place(again) == place(first)
    assert rig.count() == 1
    rig.close()


async def test_whoever_waits_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a code that clients try again after, and nothing stored."""
    monkeypatch.setattr(module, "WAIT_S_MAX", 0.01)
    rig = DedupRig(tmp_path / "store")
    rig.context.topics.windows.drop("T")
    rig.context.topics.targets.clear()
    answer = await dispatched(rig, rig.request())
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "dedup.window.seconds" in (answer.remark or "")
    assert rig.count() == 0
    rig.close()


async def test_a_topic_that_is_changed_meanwhile_is_waited_for_again(tmp_path: Path) -> None:
    """The window that was waited for is gone, and the next one is not ready."""
    rig = DedupRig(tmp_path / "store")
    rig.context.topics.windows.drop("T")
    rig.context.topics.targets.clear()
    waiting = asyncio.create_task(dispatched(rig, rig.request()))
    await asyncio.sleep(0)
    changed = TopicConfig(topic_name="T", attributes={"dedup.window.seconds": "30"})
    rig.context.topics.put(changed)
    rig.context.topics.target("T", "TBW102", 4)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await Dedup(rig.store, rig.context.topics, rig.clock_ms).fill()
    assert (await waiting) is not None
    assert rig.count() == 1
    rig.close()


# --- the driver -----------------------------------------------------------------------------------


async def test_the_driver_fills_and_forgets(rig: DedupRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that topics have at the start, those that come later, and none that are gone."""
    rig.send()
    topics = rig.context.topics
    topics.windows.drop("T")
    dedup = Dedup(rig.store, topics, rig.clock_ms)
    dedup.start()
    monkeypatch.setattr(module, "_BEAT_S", 0.001)
    running = asyncio.create_task(dedup.run())
    async with asyncio.timeout(10):
        await rig.window.ready.wait()
        assert len(rig.window) == 1
        rig.pass_ms(2 * WINDOW_S * 1_000)
        while len(rig.window):  # noqa: ASYNC110 (another task does it)
            await asyncio.sleep(0.001)
        topics.put(TopicConfig(topic_name="T"))
        while topics.windows.by_topic:  # noqa: ASYNC110 (likewise)
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_topic_that_is_gone_has_no_window(rig: DedupRig) -> None:
    """Though nobody has dropped it."""
    topics = rig.context.topics
    dedup = Dedup(rig.store, topics, rig.clock_ms)
    topics._table.remove("T")
    await dedup.tick()
    assert not topics.windows.by_topic


async def test_memory_of_many_ids_is_put_into_huge_pages(
    rig: DedupRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every ten seconds, for there may be more of it by then; of few it is not worth that."""
    calls: list[int] = []

    def collapse() -> int:
        calls.append(windows.count)
        return 0

    monkeypatch.setattr(module, "IDS_MANY", 2)
    windows = rig.context.topics.windows
    dedup = Dedup(rig.store, rig.context.topics, rig.clock_ms, collapse)
    rig.send(properties=named(1))
    for beat in range(30):
        if beat == 10:
            assert (calls, windows.count) == ([], 1)
            rig.send(properties=named(2))
        await dedup.tick()
    assert calls == [2, 2]


async def test_ids_that_found_no_room_are_in_the_log(
    rig: DedupRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a minute, if there were any."""
    monkeypatch.setattr(module, "_BEATS_PER_MINUTE", 1)
    dedup = Dedup(rig.store, rig.context.topics, rig.clock_ms)
    await dedup.tick()
    rig.context.topics.windows.room.forgotten += 3
    await dedup.tick()
    await dedup.tick()
    (said,) = [record.getMessage() for record in caplog.records if "forgotten" in record.msg]
    assert said.startswith("3 ids were forgotten before their windows were over")


async def test_a_failure_of_the_disk_is_told_and_tried_again(
    rig: DedupRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends waits meanwhile, and is refused in the end; nothing slips through."""
    failures = iter([OSError("the disk is gone")])

    async def fail(self: Dedup, *_: Any) -> None:
        for error in failures:
            raise error

    monkeypatch.setattr(module, "_BEAT_S", 0.001)
    monkeypatch.setattr(Dedup, "fill", fail)
    running = asyncio.create_task(Dedup(rig.store, rig.context.topics, rig.clock_ms).run())
    async with asyncio.timeout(10):
        while not caplog.records:  # noqa: ASYNC110 (another task does it)
            await asyncio.sleep(0.001)
    assert "the disk is gone" in caplog.text
    await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
