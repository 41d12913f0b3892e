"""Messages come into the wheel by what their queue says, whether they are remembered or not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import timer_intake as module
from roketto.protocol.names import TIMER_TOPIC
from roketto.store.store import Store
from unit.broker.send_rig import PLAIN, SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    rig.timers.start()
    yield rig
    rig.close()


def send(rig: SendRig, delay_ms: int = 5_000) -> None:
    """Store a message that nobody remembers."""
    rig.send(properties=PLAIN | {"TIMER_DELAY_MS": str(delay_ms)})
    rig.timers.intake._notes = module.Notes()


def log_offsets(rig: SendRig) -> list[int]:
    return [record.log_offset for record in rig.records(TIMER_TOPIC, 0)]


def slot_ms(rig: SendRig, delay_ms: int) -> int:
    return rig.now_ms + delay_ms - 1 - (rig.now_ms + delay_ms - 1) % rig.config.timer_precision_ms


def test_what_is_remembered_is_not_read(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of each message says enough."""
    send(rig)
    send(rig)
    for log_offset in log_offsets(rig):
        rig.timers.intake.note(log_offset, slot_ms(rig, 5_000), "T")
    monkeypatch.setattr(Store, "record_at", None)
    assert rig.timers.intake.step(rig.timer_store.read_ms) == 2
    assert rig.timer_store.wheel.slot(slot_ms(rig, 5_000)).messages == 2
    assert rig.timers.metrics.count("T") == 2


def test_notes_of_other_messages_are_not_taken_for_those_of_the_next(rig: SendRig) -> None:
    """Those of earlier ones are forgotten, those of later ones kept."""
    send(rig)
    send(rig)
    first, second = log_offsets(rig)
    far_ms = slot_ms(rig, 9_000)
    rig.timers.intake.note(first - 1, far_ms, "Other")
    rig.timers.intake.note(second, far_ms, "T")
    assert rig.timers.intake.step(rig.timer_store.read_ms) == 2
    wheel = rig.timer_store.wheel
    assert wheel.slot(slot_ms(rig, 5_000)).messages == 1
    assert wheel.slot(far_ms).messages == 1
    assert rig.timers.metrics.count("Other") == 0


def test_too_many_notes_forget_the_oldest() -> None:
    """Their messages are read from the log then."""
    notes = module.Notes()
    for number in range(module.NOTES_MAX + 5):
        notes.add(number, 1_000 * number, f"T{number}")
    assert notes.count == module.NOTES_MAX
    assert notes.take(4) is None
    assert notes.count == module.NOTES_MAX
    for number in (5, module.NOTES_MAX + 4):
        found = notes.take(number)
        assert found is not None
        assert (found.slot_ms, found.topic) == (1_000 * number, f"T{number}")
        assert not found.is_recall
    assert notes.count == 0
    assert notes.take(module.NOTES_MAX + 4) is None


def test_a_failure_between_two_messages_loses_and_doubles_none(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the wheel stays there, what is not comes with the next turn."""
    for _ in range(3):
        send(rig)
    real, calls = type(rig.timer_store).add, []

    def fail_once(*args: object) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OSError("the wheel cannot be read")
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(type(rig.timer_store), "add", fail_once)
    with pytest.raises(OSError, match="cannot be read"):
        rig.timers.intake.step(rig.timer_store.read_ms)
    assert (rig.timer_store.queue_offset, rig.timers.metrics.count("T")) == (1, 1)
    assert rig.timers.intake.step(rig.timer_store.read_ms) == 2
    assert rig.timer_store.pending == rig.timers.metrics.count("T") == 3


def test_hashes_of_topics_are_bounded(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a topic is Java's, however many there are."""
    monkeypatch.setattr(module, "_HASHES_MAX", 2)
    hashes = [rig.timers.intake._hash_of(topic) for topic in ("T", "U", "V", "T")]
    assert hashes == [84, 85, 86, 84]
    assert len(rig.timers.intake._hashes) <= 2


def test_an_odd_window_is_that_of_java(rig: SendRig) -> None:
    """Seven days without a minute; and no delay is longer than a unit can say."""
    intake = rig.timers.intake
    for window in (0, 1, 604_741):
        rig.config.timer_roll_window_slot = window
        assert intake.window == 604_740
    intake._precision_ms = 3_600_000
    assert intake.window == (1 << 31) // 3_600_000
