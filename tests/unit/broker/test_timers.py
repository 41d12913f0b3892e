"""Timer messages come when they are due, not before, and once, whatever happens to the broker."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from roketto.broker import timers as module
from roketto.broker.copies import LOOKS_PER_TURN
from roketto.broker.timer_intake import ENQUEUE_TURN_MAX
from roketto.broker.turn import TURN_MESSAGES_MAX
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult
from unit.broker.send_rig import PLAIN, START_MS, SendRig

MAGIC_AT = 4


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    rig.timers.start()
    yield rig
    rig.close()


def send(
    rig: SendRig, delay_ms: int = 5_000, body: bytes = b"x", queue: str = "1", **more: str
) -> None:
    properties = PLAIN | {"TIMER_DELAY_MS": str(delay_ms)} | more
    rig.send(body=body, properties=properties, e=queue)


def recall(rig: SendRig, deliver_ms: int, key: str) -> None:
    send(rig, UNIQ_KEY="R", TIMER_DEL_UNIQKEY=key, TIMER_DELAY_MS=str(deliver_ms))


def work(rig: SendRig) -> float:
    """Take turns until there is nothing to do; how long it would sleep then."""
    for _ in range(10_000):
        wait_s = rig.timers.step()
        if wait_s > 0:
            return wait_s
    raise AssertionError("there is always more to do")


def flush_log(rig: SendRig) -> None:
    """Bring the log to the disk, now and in this thread."""
    assert rig.store._flusher is not None
    rig.store._segments.sync(rig.store._segments.flushed, rig.store.log.max_offset)
    rig.store._flusher.flushed = rig.store.log.max_offset
    rig.store.advance()


def flush(rig: SendRig) -> None:
    """Bring everything to the disk, the log first."""
    work(rig)
    flush_log(rig)
    assert rig.timers.flush.flush()


def restart(rig: SendRig) -> None:
    """As after a kill -9: what was not flushed is still in the files of the log."""
    rig.kill()
    begin(rig)


def begin(rig: SendRig) -> None:
    """Start the timers of a rig that was opened again, which knows no topics."""
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
    rig.timers.start()


def bodies(rig: SendRig, queue_id: int = 1) -> list[bytes]:
    return [bytes(record.body) for record in rig.records("T", queue_id)]


# --- on time --------------------------------------------------------------------------------------


def test_a_message_comes_at_the_end_of_its_slot_and_not_before(rig: SendRig) -> None:
    """Which is when it is due here, to the millisecond; no sleep is longer than until then."""
    send(rig, 5_000)
    rig.pass_ms(4_950)
    assert work(rig) == pytest.approx(0.05)
    rig.pass_ms(49)
    assert work(rig) == pytest.approx(0.001)
    assert bodies(rig) == []
    rig.pass_ms(1)
    work(rig)
    assert bodies(rig) == [b"x"]


@pytest.mark.parametrize("precision_ms", [10, 100, 1000])
def test_no_message_is_early_and_none_later_than_the_precision(
    tmp_path: Path, precision_ms: int
) -> None:
    """For delays of any length."""
    rig = SendRig(tmp_path / "store")
    rig.close()
    rig.config.timer_precision_ms = precision_ms
    rig.now_ms += 123
    rig.open()
    begin(rig)
    delays = [1, 7, 10, 99, 100, 101, 877, 1_000, 1_001, 1_877, 2_500]
    for number, delay_ms in enumerate(delays):
        send(rig, delay_ms, b"%d" % number)
    sent_ms = rig.now_ms
    for _ in range(3_600 // 10):
        work(rig)
        rig.pass_ms(10)
    late = {
        int(record.body): record.store_time_ms - sent_ms - delays[int(record.body)]
        for record in rig.records()
    }
    assert len(late) == len(delays)
    assert all(0 <= late_ms < precision_ms + 10 for late_ms in late.values()), late
    rig.close()


def test_a_delivered_message_has_all_that_it_had(rig: SendRig) -> None:
    """Java's consumers see the properties of the wait, too."""
    send(rig)
    waiting = rig.record(TIMER_TOPIC, 0)
    rig.pass_ms(5_000)
    work(rig)
    record = rig.record()
    assert record.properties == waiting.properties | {
        "TIMER_ENQUEUE_MS": str(START_MS + 5_000), "TIMER_DEQUEUE_MS": str(START_MS + 5_000),
    }  # fmt: skip
    assert (record.flag, record.born_time_ms, record.born_host, record.store_host) == (
        waiting.flag, waiting.born_time_ms, waiting.born_host, waiting.store_host,
    )  # fmt: skip
    assert record.store_time_ms == waiting.store_time_ms + 5_000


def test_messages_of_one_slot_come_in_the_order_they_were_sent(rig: SendRig) -> None:
    """And those of earlier ones before them."""
    for number in range(10):
        send(rig, 5_000 - number % 2 * 2_000, b"%d" % number)
    rig.pass_ms(60_000)
    work(rig)
    assert bodies(rig) == [b"%d" % number for number in (1, 3, 5, 7, 9, 0, 2, 4, 6, 8)]


def test_one_turn_takes_and_delivers_a_bounded_number(rig: SendRig) -> None:
    """Others are served in between."""
    count = ENQUEUE_TURN_MAX + 10
    for _ in range(count):
        send(rig)
    assert rig.timers.step() == 0
    assert rig.timer_store.queue_offset == ENQUEUE_TURN_MAX
    rig.pass_ms(5_000)
    seen = 0
    while seen < count:
        assert rig.timers.step() == 0
        now = len(bodies(rig))
        assert now - seen <= TURN_MESSAGES_MAX
        seen = now
    work(rig)
    assert rig.timer_store.pending == 0


def test_no_slot_begins_before_all_its_messages_are_in_the_wheel(rig: SendRig) -> None:
    """However many of others came before them, and however long it was quiet before."""
    for second in (1, 2, 3):
        for _ in range(3 * ENQUEUE_TURN_MAX):
            send(rig, 60_000)
        send(rig, 1_000)
        rig.pass_ms(1_000)
        work(rig)
        times = [record.store_time_ms for record in rig.records()]
        assert times == [START_MS + passed * 2_000 - 1_000 for passed in range(1, second + 1)]
        rig.pass_ms(1_000)
        work(rig)


def test_a_slot_that_ends_while_others_wait_for_the_wheel_misses_nothing(rig: SendRig) -> None:
    """What came for it behind many others is waited for, too."""
    for _ in range(3 * ENQUEUE_TURN_MAX):
        send(rig, 60_000)
    rig.pass_ms(1_000)
    rig.timers.step()
    for _ in range(3 * ENQUEUE_TURN_MAX):
        send(rig, 60_000)
    send(rig, 1_000)
    rig.pass_ms(1_000)
    work(rig)
    assert rig.record().store_time_ms == START_MS + 2_000


def test_a_message_that_comes_into_the_wheel_late_comes_with_the_next_slot(rig: SendRig) -> None:
    """The one that it was for has been delivered."""
    send(rig, 1_000, b"late")
    late = rig.record(TIMER_TOPIC, 0)
    rig.pass_ms(10_000)
    work(rig)
    late.queue_offset = late.log_offset = 0
    rig.store.append(late)
    work(rig)
    rig.pass_ms(1_000)
    work(rig)
    assert bodies(rig) == [b"late"] * 2


def test_a_message_that_comes_while_its_slot_is_delivered_is_not_forgotten(rig: SendRig) -> None:
    """It goes into the next one."""
    for _ in range(TURN_MESSAGES_MAX + 1):
        send(rig, 1_000)
    late = rig.records(TIMER_TOPIC, 0)[0]
    rig.pass_ms(1_000)
    while not bodies(rig):
        rig.timers.step()
    late.queue_offset = late.log_offset = 0
    rig.store.append(late)
    work(rig)
    assert len(bodies(rig)) == TURN_MESSAGES_MAX + 1
    rig.pass_ms(1_000)
    work(rig)
    assert len(bodies(rig)) == TURN_MESSAGES_MAX + 2


async def test_the_loop_delivers_and_flushes_by_itself(tmp_path: Path) -> None:
    """With the clock of the test it has to happen in the first turns, or never."""
    rig = SendRig(tmp_path / "store")
    rig.timers.start()
    send(rig)
    rig.pass_ms(5_000)
    tasks = [asyncio.create_task(task) for task in rig.timers.tasks()]
    for _ in range(10):
        await asyncio.sleep(0)
    assert bodies(rig) == [b"x"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    rig.close()


async def test_the_loop_survives_what_the_store_does_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of the disk is told, and tried again."""
    rig = SendRig(tmp_path / "store")

    def fail() -> float:
        raise StoreError("no disk")

    monkeypatch.setattr(rig.timers, "step", fail)
    task = asyncio.create_task(rig.timers.run())
    await asyncio.sleep(0)
    assert not task.done()
    assert "no disk" in caplog.text
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    rig.close()


def test_without_a_wheel_there_is_nothing_to_do(rig: SendRig) -> None:
    rig.config.timer_wheel_enable = False
    rig.timers.start()
    assert rig.timers.tasks() == []
    assert rig.timers.checkpoint is None
    assert set(rig.timers.figures().values()) == {"0", "0.0"}
    rig.timers.close()


# --- rolling --------------------------------------------------------------------------------------


def test_a_message_that_is_due_far_ahead_rolls(rig: SendRig) -> None:
    """Through its queue once more, and comes at its time."""
    rig.config.timer_roll_window_slot = 30
    send(rig, 100_000)
    for second in range(100):
        assert bodies(rig) == [], second
        work(rig)
        rig.pass_ms(1_000)
    work(rig)
    record = rig.record()
    assert record.get_property("TIMER_ROLL_TIMES") == "3"
    assert record.store_time_ms == START_MS + 100_000
    assert len(rig.records(TIMER_TOPIC, 0)) == 4
    assert rig.timers.metrics.count("T") == 0


def test_what_lies_beyond_the_wheel_rolls_too(rig: SendRig) -> None:
    """Nobody was here for as long as the wheel has slots: nothing is lost by that."""
    send(rig, 3_000)
    send(rig, 4_090_000, b"far")
    flush(rig)
    rig.pass_ms(4_095_000 * 3)
    restart(rig)
    send(rig, 10_000, b"new")
    work(rig)
    assert bodies(rig) == [b"x", b"far"]
    rig.pass_ms(10_000)
    work(rig)
    assert bodies(rig) == [b"x", b"far", b"new"]


# --- recalling ------------------------------------------------------------------------------------


def test_a_message_that_was_recalled_does_not_come(rig: SendRig) -> None:
    """Others of its slot do, and it is counted no more."""
    send(rig, 5_000, b"no", UNIQ_KEY="A")
    send(rig, 5_000, b"yes", UNIQ_KEY="B")
    recall(rig, 5_000, "A")
    work(rig)
    assert rig.timers.metrics.count("T") == 1
    rig.pass_ms(5_000)
    work(rig)
    assert bodies(rig) == [b"yes"]
    assert (rig.timer_store.pending, rig.timers.metrics.count("T")) == (0, 0)


def test_a_recall_counts_in_its_slot_only(rig: SendRig) -> None:
    """As in Java; what was not there to be recalled is counted again."""
    send(rig, 5_000, UNIQ_KEY="A")
    recall(rig, 6_000, "A")
    recall(rig, 3_000, "A")
    rig.pass_ms(10_000)
    work(rig)
    assert bodies(rig) == [b"x"]
    assert rig.timers.metrics.count("T") == 0


def test_a_recall_rolls_with_its_message(rig: SendRig) -> None:
    """Both are in one slot at the end."""
    rig.config.timer_roll_window_slot = 30
    send(rig, 100_000, UNIQ_KEY="A")
    for second in range(200):
        if second == 20:
            recall(rig, 80_000, "A")
        work(rig)
        rig.pass_ms(1_000)
    assert bodies(rig) == []


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_set_back_brings_nothing_early_and_loses_nothing(rig: SendRig) -> None:
    """What comes for slots that were delivered waits until the clock is there once more."""
    send(rig, 5_000)
    rig.pass_ms(4_000)
    work(rig)
    rig.now_ms -= 3_600_000
    send(rig, 2_000, b"second")
    for _ in range(3):
        work(rig)
        rig.pass_ms(1_000)
    assert bodies(rig) == []
    rig.pass_ms(3_600_000)
    work(rig)
    assert sorted(bodies(rig)) == [b"second", b"x"]


def test_a_clock_set_forward_brings_what_is_due_by_it(rig: SendRig) -> None:
    """The time that was promised is wall time; a day of slots takes some turns."""
    send(rig, 3_600_000)
    work(rig)
    rig.now_ms += 3_600_000
    work(rig)
    assert bodies(rig) == [b"x"]


# --- stops and kills ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_kill_at_any_moment_brings_no_second_copy(rig: SendRig, is_flushed: bool) -> None:
    """Whether the wheel was ever flushed or not: what was delivered tells itself."""
    count = 2 * TURN_MESSAGES_MAX + 40
    for number in range(count):
        send(rig, 1_000 + number % 3 * 1_000, b"%d" % number, str(number % 3))
    if is_flushed:
        flush(rig)
    for _ in range(6):
        rig.pass_ms(700)
        for _ in range(3):
            rig.timers.step()
        restart(rig)
    work(rig)
    found = [body for queue in range(3) for body in bodies(rig, queue)]
    assert sorted(found) == sorted(b"%d" % number for number in range(count))
    rig.pass_ms(60_000)
    restart(rig)
    work(rig)
    assert sum(len(bodies(rig, queue)) for queue in range(3)) == count


def test_a_kill_while_messages_roll_brings_no_second_copy(rig: SendRig) -> None:
    """The copies that wait on are found in the queue of timers."""
    rig.config.timer_roll_window_slot = 4
    count = 10
    for number in range(count):
        send(rig, 20_000, b"%d" % number)
    for second in range(30):
        work(rig)
        if second % 7 == 3:
            flush(rig)
        rig.pass_ms(1_000)
        rig.timers.step()
        restart(rig)
    work(rig)
    assert sorted(bodies(rig)) == [b"%d" % number for number in range(count)]


def test_a_clean_stop_is_exact(rig: SendRig) -> None:
    """Nothing has to be looked for."""
    for number in range(10):
        send(rig, 1_000 + number * 1_000)
    rig.pass_ms(5_000)
    work(rig)
    rig.store.close()
    rig.timers.close()
    assert rig.timer_store.saved.read_ms == START_MS + 5_000
    rig.open()
    rig.timers.start()
    assert (rig.timer_store.pending, rig.timer_store.queue_offset) == (5, 10)
    assert rig.timers.metrics.count("T") == 5
    rig.pass_ms(5_000)
    work(rig)
    assert len(bodies(rig)) == 10


def test_messages_that_get_due_while_nobody_runs_come_at_the_start(rig: SendRig) -> None:
    """Nothing of them is lost."""
    for _ in range(3):
        send(rig)
    flush(rig)
    rig.kill()
    rig.pass_ms(60_000)
    rig.timers.start()
    work(rig)
    assert len(bodies(rig)) == 3


def test_a_long_look_back_takes_several_turns(rig: SendRig) -> None:
    """Other messages of the real queue lie between the copies."""
    send(rig, 1_000, b"late")
    rig.pass_ms(1_000)
    work(rig)
    for _ in range(LOOKS_PER_TURN + 10):
        rig.send()
    restart(rig)
    work(rig)
    assert bodies(rig).count(b"late") == 1


def test_the_wheel_rests_on_what_the_disk_has(rig: SendRig) -> None:
    """A power loss must not leave a message that counts as delivered and is not there."""
    send(rig, 1_000)
    rig.pass_ms(1_000)
    work(rig)
    assert not rig.timers.flush.flush()
    assert rig.timer_store.saved.queue_offset == 0
    flush(rig)
    assert rig.timer_store.saved.queue_offset == 1


@pytest.mark.parametrize("damaged", ["timerwheel", "timerlog", "config/timercheck"])
def test_a_wheel_that_is_gone_is_made_anew(
    rig: SendRig, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """From the queue of timers: what waits comes, what was delivered does not come again."""
    for number in range(10):
        send(rig, 1_000 + number * 1_000, b"%d" % number)
    rig.pass_ms(5_000)
    flush(rig)
    path = rig.root / damaged
    for file in [path] if path.is_file() else path.iterdir():
        file.unlink()
    restart(rig)
    assert "made anew" in caplog.text
    for _ in range(6):
        work(rig)
        rig.pass_ms(1_000)
    assert sorted(bodies(rig)) == [b"%d" % number for number in range(10)]
    assert rig.timers.metrics.count("T") == 0


def test_what_was_delivered_long_ago_is_not_looked_for(rig: SendRig) -> None:
    """Its copy may be gone from its queue."""
    send(rig, 1_000, b"old")
    rig.pass_ms(4_000_000)
    work(rig)
    send(rig, 10_000, b"new")
    flush(rig)
    (rig.root / "timerwheel").unlink()
    restart(rig)
    work(rig)
    assert (rig.timer_store.queue_offset, rig.timer_store.pending) == (2, 1)


def test_another_precision_delivers_nothing_early(rig: SendRig) -> None:
    """A message names the slot of the precision that it came with."""
    rig.now_ms += 300
    send(rig, 5_000)
    flush(rig)
    rig.close()
    rig.config.timer_precision_ms = 100
    rig.open()
    rig.timers.start()
    sent_ms = rig.now_ms
    for _ in range(60):
        work(rig)
        rig.pass_ms(100)
    assert 5_000 <= rig.record().store_time_ms - sent_ms <= 6_000


# --- trouble --------------------------------------------------------------------------------------


def refuse(rig: SendRig, *refusals: PutRefusedError) -> list[Record]:
    """Let the store refuse copies; those that were tried."""
    kept, left = rig.timers._put, list(refusals)
    tried: list[Record] = []

    def put(record: Record) -> PutResult:
        tried.append(record)
        if left:
            raise left.pop(0)
        return kept(record)

    rig.timers._put = put
    return tried


def test_a_store_that_takes_nothing_is_asked_again(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as it takes, not three times as in Java; the reason is told once."""
    refuse(rig, *[PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")] * 5)
    send(rig)
    send(rig, body=b"y")
    work(rig)
    rig.pass_ms(5_000)
    assert [rig.timers.step() for _ in range(5)] == [0.1] * 5
    work(rig)
    assert bodies(rig) == [b"x", b"y"]
    assert caplog.text.count("the disk is full") == 1


def test_a_copy_that_is_too_long_goes_without_the_times_of_its_wait(rig: SendRig) -> None:
    """The message itself was short enough to be taken."""
    tried = refuse(rig, PutRefusedError(PutStatus.PROPERTIES_SIZE_EXCEEDED, "too long"))
    send(rig)
    rig.pass_ms(5_000)
    work(rig)
    assert len(tried) == 2
    assert "TIMER_DEQUEUE_MS" not in rig.record().properties


def test_a_copy_that_is_never_taken_stops_no_other(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(rig, *[PutRefusedError(PutStatus.MESSAGE_ILLEGAL, "odd")] * 2)
    send(rig)
    send(rig, body=b"y")
    rig.pass_ms(5_000)
    work(rig)
    assert bodies(rig) == [b"y"]
    assert "cannot be delivered: odd" in caplog.text


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": "T", "REAL_QID": "1"},
        {"TIMER_OUT_MS": "soon", "REAL_TOPIC": "T", "REAL_QID": "1"},
        {"TIMER_OUT_MS": "1"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "a/b", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "T", "REAL_QID": "99999999999"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "T" * 40_000, "REAL_QID": "0"},
    ],
)
def test_a_message_that_cannot_be_delivered_stops_no_other(
    rig: SendRig, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody may send to the topic of timers: it is told and passed by."""
    raw = encode_properties(properties)[:30_000]
    rig.store.append(Record(TIMER_TOPIC, b"bad", raw, 0))
    send(rig)
    rig.pass_ms(5_000)
    work(rig)
    assert bodies(rig) == [b"x"]
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


@pytest.mark.parametrize("is_enqueued", [False, True])
def test_a_record_that_is_gone_stops_no_other(rig: SendRig, is_enqueued: bool) -> None:
    """Its file was removed before its time, or is damaged."""
    send(rig)
    send(rig, body=b"y")
    if is_enqueued:
        work(rig)
    (segment,) = (rig.root / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(rig.records(TIMER_TOPIC, 0)[0].log_offset + MAGIC_AT)
        file.write(bytes(4))
    rig.pass_ms(5_000)
    work(rig)
    assert bodies(rig) == [b"y"]


def test_messages_that_retention_removed_are_passed_by(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is an error, and told."""
    for _ in range(3):
        send(rig)
    queue = rig.store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    queue.queue_offset_min = 2
    rig.pass_ms(5_000)
    work(rig)
    assert bodies(rig) == [b"x"]
    assert "messages 0 to 1 were removed" in caplog.text


def test_a_wheel_without_room_still_turns(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes nothing of it; what is in memory is delivered, the rest waits."""
    send(rig, 1_000)
    work(rig)
    monkeypatch.setattr("roketto.store.timer_store.UNWRITTEN_BYTES_MAX", 1)
    send(rig, 1_000, b"y")
    rig.pass_ms(1_000)
    assert work(rig) > 0
    assert bodies(rig) == [b"x"]
    monkeypatch.undo()
    work(rig)
    rig.pass_ms(1_000)
    work(rig)
    assert bodies(rig) == [b"x", b"y"]


# --- figures --------------------------------------------------------------------------------------


def test_the_figures_of_java_are_told(rig: SendRig) -> None:
    """How far it is behind, how much waits, how fast it is."""
    for _ in range(3):
        send(rig)
    assert rig.timers.figures()["timerOffsetBehind"] == "3"
    work(rig)
    rig.pass_ms(2_500)
    figures = rig.timers.figures()
    assert (figures["timerOffsetBehind"], figures["timerCongestNum"]) == ("0", "3")
    assert figures["timerReadBehind"] == "2"
    rates = module._Rates()
    rates.enqueued, rates.dequeued = 30, 10
    rates.note(rates._noted_s + 0.5)
    assert rates.enqueued_tps == 0
    rates.note(rates._noted_s + 2)
    assert (rates.enqueued_tps, rates.dequeued_tps) == (15.0, 5.0)
