"""Delayed messages come when they are due, not before, and once, whatever happens to the broker."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from roketto.broker.copies import LOOKS_PER_TURN
from roketto.broker.delay_levels import DelayLevels
from roketto.broker.delays import Delays
from roketto.broker.turn import TURN_MESSAGES_MAX
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.errors import StoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import PutResult
from unit.broker.send_rig import PLAIN, SendRig

MAGIC_AT = 4
"""Where a record has the number without which it is none."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    rig.delays.start()
    yield rig
    rig.close()


def send(rig: SendRig, level: int = 1, body: bytes = b"x", queue: str = "1") -> None:
    rig.send(body=body, properties=PLAIN | {"DELAY": str(level)}, e=queue)


def deliver(rig: SendRig) -> float:
    """Take turns until there is nothing to do; how long it would sleep then."""
    for _ in range(10_000):
        wait_s = rig.delays.step()
        if wait_s > 0:
            return wait_s
    raise AssertionError("there is always more to do")


def restart(rig: SendRig) -> None:
    rig.kill()
    rig.delays.start()


def bodies(rig: SendRig, queue_id: int = 1) -> list[bytes]:
    return [bytes(record.body) for record in rig.records("T", queue_id)]


# --- on time --------------------------------------------------------------------------------------


def test_how_far_each_level_is_can_be_told(rig: SendRig) -> None:
    """Of levels that were used: the next to deliver, and the end; what was delivered is counted."""
    assert rig.delays.progress() == {}
    send(rig, 1)
    send(rig, 3)
    send(rig, 3)
    assert rig.delays.progress() == {1: (0, 1), 3: (0, 2)}
    rig.pass_ms(1_000)
    deliver(rig)
    assert rig.delays.progress() == {1: (1, 1), 3: (0, 2)}
    taken = rig.context.stats.topics[SCHEDULE_TOPIC].groups["SCHEDULE_CONSUMER"]
    assert {queue: meter.count for queue, meter in taken.queues.items()} == {0: 1}


def test_a_message_comes_at_its_time_and_not_before(rig: SendRig) -> None:
    """To the millisecond, and it sleeps no longer than until then."""
    send(rig, 1)
    assert deliver(rig) == 1.0
    rig.pass_ms(400)
    assert deliver(rig) == 0.6
    rig.pass_ms(599)
    assert deliver(rig) == 0.001
    assert bodies(rig) == []
    rig.pass_ms(1)
    deliver(rig)
    assert bodies(rig) == [b"x"]


def test_a_delivered_message_has_all_that_it_had(rig: SendRig) -> None:
    """Java's consumers see the properties of the wait, too."""
    send(rig, 2)
    waiting = rig.record(SCHEDULE_TOPIC, 1)
    rig.pass_ms(5_000)
    deliver(rig)
    record = rig.record()
    assert record.properties == waiting.properties
    assert (record.flag, record.born_time_ms, record.born_host, record.store_host) == (
        waiting.flag, waiting.born_time_ms, waiting.born_host, waiting.store_host,
    )  # fmt: skip
    assert record.store_time_ms == waiting.store_time_ms + 5_000


def test_levels_do_not_wait_for_each_other(rig: SendRig) -> None:
    """An hour at the head of one queue delays nothing in another."""
    send(rig, 4, b"hour")
    send(rig, 1, b"second")
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"second"]
    rig.pass_ms(3_599_000)
    deliver(rig)
    assert bodies(rig) == [b"second", b"hour"]


def test_it_sleeps_a_second_at_most(rig: SendRig) -> None:
    """A message with the shortest delay may come at any moment, and the clock may be set."""
    send(rig, 4)
    assert deliver(rig) == 1.0


def test_one_turn_delivers_a_bounded_number(rig: SendRig) -> None:
    """Others are served in between; the levels take turns at being first."""
    for level in (1, 2):
        for _ in range(TURN_MESSAGES_MAX + 1):
            send(rig, level, b"%d" % level)
    rig.pass_ms(5_000)
    assert rig.delays.step() == 0
    assert bodies(rig) == [b"1"] * TURN_MESSAGES_MAX
    assert rig.delays.step() == 0
    assert bodies(rig)[TURN_MESSAGES_MAX:] == [b"2"] * TURN_MESSAGES_MAX
    deliver(rig)
    assert len(bodies(rig)) == 2 * TURN_MESSAGES_MAX + 2


def test_one_turn_copies_a_bounded_number_of_bytes(rig: SendRig) -> None:
    """Large messages come a few at a time."""
    for _ in range(12):
        send(rig, 1, bytes(100_000))
    rig.pass_ms(1_000)
    assert rig.delays.step() == 0
    assert len(bodies(rig)) == 11
    deliver(rig)
    assert len(bodies(rig)) == 12


async def test_the_loop_delivers_by_itself(tmp_path: Path) -> None:
    """With the clock of the test it has to happen in the first turn, or never."""
    rig = SendRig(tmp_path / "store")
    send(rig)
    rig.pass_ms(1_000)
    task = asyncio.create_task(rig.delays.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert bodies(rig) == [b"x"]
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    rig.close()


async def test_the_loop_survives_what_the_store_does_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of the disk is told, and tried again."""
    rig = SendRig(tmp_path / "store")

    def fail() -> float:
        raise StoreError("no disk")

    monkeypatch.setattr(rig.delays, "step", fail)
    task = asyncio.create_task(rig.delays.run())
    await asyncio.sleep(0)
    assert not task.done()
    assert "no disk" in caplog.text
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    rig.close()


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_set_back_brings_nothing_early_and_keeps_nothing_forever(rig: SendRig) -> None:
    """It waits its delay once more, by the clock that nobody sets."""
    send(rig, 2)
    rig.now_ms -= 86_400_000
    assert deliver(rig) == 1.0
    rig.pass_ms(4_999)
    deliver(rig)
    assert bodies(rig) == []
    rig.pass_ms(1)
    deliver(rig)
    assert bodies(rig) == [b"x"]


def test_a_clock_set_forward_brings_what_is_due_by_it(rig: SendRig) -> None:
    """The time that was promised is wall time."""
    send(rig, 4)
    rig.now_ms += 3_600_000
    deliver(rig)
    assert bodies(rig) == [b"x"]


# --- stops and kills ------------------------------------------------------------------------------


def test_a_kill_at_any_moment_brings_no_second_copy(rig: SendRig) -> None:
    """Progress was never saved: what was delivered tells itself."""
    for number in range(100):
        send(rig, 1, b"%d" % number, str(number % 3))
    rig.pass_ms(1_000)
    rig.delays.step()
    rig.pass_ms(50)
    restart(rig)
    rig.delays.step()
    rig.pass_ms(50)
    restart(rig)
    deliver(rig)
    found = [body for queue in range(3) for body in bodies(rig, queue)]
    assert sorted(found) == sorted(b"%d" % number for number in range(100))


def test_the_first_record_of_a_log_comes_once_too(rig: SendRig) -> None:
    """It lies at log offset 0, which must not mean that there is no original."""
    send(rig)
    rig.pass_ms(1_000)
    deliver(rig)
    restart(rig)
    deliver(rig)
    assert bodies(rig) == [b"x"]


def test_equal_messages_are_told_apart(rig: SendRig) -> None:
    """A producer that tries again sends the same bytes with the same key: two messages."""
    for _ in range(TURN_MESSAGES_MAX + 10):
        send(rig, 1, b"same")
    rig.pass_ms(1_000)
    rig.delays.step()
    restart(rig)
    deliver(rig)
    assert len(bodies(rig)) == TURN_MESSAGES_MAX + 10


def test_messages_that_get_due_while_nobody_runs_come_at_the_start(rig: SendRig) -> None:
    """Nothing of them is lost."""
    for _ in range(3):
        send(rig, 2)
    rig.kill()
    rig.pass_ms(60_000)
    rig.delays.start()
    deliver(rig)
    assert len(bodies(rig)) == 3


def test_a_long_look_back_takes_several_turns(rig: SendRig) -> None:
    """Other messages of the real queue lie between the copies."""
    send(rig, 1, b"late")
    rig.pass_ms(1_000)
    deliver(rig)
    for _ in range(LOOKS_PER_TURN + 10):
        rig.send()
    restart(rig)
    assert rig.delays.step() == 0
    deliver(rig)
    assert bodies(rig).count(b"late") == 1


def test_progress_counts_when_its_copies_are_on_the_disk(rig: SendRig) -> None:
    """A power loss must not leave a message that counts as delivered and is not there."""
    send(rig, 1)
    rig.pass_ms(1_000)
    deliver(rig)
    assert rig.delay_table.get(1) is None
    rig.close()
    rig.delays.settle()
    assert rig.delay_table.get(1) == 1
    assert rig.delays.save()
    rig.open()
    assert rig.delay_table.get(1) == 1


def test_older_progress_counts_while_newer_copies_are_not_safe(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a steady stream the table still goes on."""
    flushed = 0
    monkeypatch.setattr(type(rig.store), "flushed", property(lambda _: flushed), raising=True)
    for _ in range(2):
        send(rig, 1)
    rig.pass_ms(1_000)
    send(rig, 1)
    deliver(rig)
    assert rig.delay_table.get(1) is None
    first = rig.records()[-1]
    rig.pass_ms(1_000)
    deliver(rig)
    flushed = first.log_offset + first.size
    deliver(rig)
    assert rig.delay_table.get(1) == 2
    flushed = 1 << 40
    deliver(rig)
    assert rig.delay_table.get(1) == 3


@pytest.mark.parametrize("saved", [500, -1])
def test_progress_of_another_store_loses_nothing(rig: SendRig, saved: int) -> None:
    """A table that is ahead of the queue, or before it, counts as none."""
    rig.delay_table.put(1, saved)
    rig.delay_table.put(2, saved)
    send(rig, 1)
    rig.delays.start()
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"x"]
    assert rig.delay_table.get(2) == 0


def test_levels_that_are_configured_no_more_are_still_delivered(rig: SendRig) -> None:
    """After the delay of the last level, counted anew if that is shorter."""
    send(rig, 4)
    rig.levels = DelayLevels("1s")
    restart(rig)
    assert deliver(rig) == 1.0
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"x"]


# --- trouble --------------------------------------------------------------------------------------


def test_a_store_that_takes_nothing_is_asked_again(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    """The message waits, the reason is told once."""
    refusals = [PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")] * 3
    kept = rig.delays._put

    def put(record: Record) -> PutResult:
        if refusals:
            raise refusals.pop()
        return kept(record)

    rig.delays._put = put
    send(rig)
    send(rig, body=b"y")
    rig.pass_ms(1_000)
    for _ in range(3):
        assert rig.delays.step() == 0.1
    deliver(rig)
    assert bodies(rig) == [b"x", b"y"]
    assert caplog.text.count("the disk is full") == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "1"},
        {"DELAY": "1", "REAL_TOPIC": "a/b", "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    ],
)
def test_a_message_that_cannot_be_delivered_stops_no_other(
    rig: SendRig, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told and passed by."""
    rig.store.append(Record(SCHEDULE_TOPIC, b"bad", encode_properties(properties), 0))
    send(rig)
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"x"]
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


def test_a_record_that_is_gone_stops_no_other(rig: SendRig) -> None:
    """Its file was removed before its time, or is damaged."""
    send(rig)
    send(rig, body=b"y")
    (segment,) = (rig.root / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(rig.records(SCHEDULE_TOPIC, 0)[0].log_offset + MAGIC_AT)
        file.write(bytes(4))
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"y"]


def test_units_that_retention_removed_are_passed_by(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is an error, and told."""
    for _ in range(3):
        send(rig)
    queue = rig.store.queue(SCHEDULE_TOPIC, 0)
    assert queue is not None
    queue.queue_offset_min = 2
    rig.pass_ms(1_000)
    deliver(rig)
    assert bodies(rig) == [b"x"]
    assert "messages 0 to 1 were removed" in caplog.text


def test_a_broker_without_delayed_messages_has_nothing_to_do(tmp_path: Path) -> None:
    """Nor anything to save."""
    rig = SendRig(tmp_path / "store")
    assert isinstance(rig.delays, Delays)
    rig.delays.start()
    assert rig.delays.step() == 1.0
    assert not rig.delays.save()
    rig.close()
