"""The messages of a slot come in the order they were sent, a bounded number of looks a turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import due_slot as module
from roketto.broker.due_slot import DueSlot
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.timer_log import DELETE, PLAIN, ROLL
from unit.broker.send_rig import START_MS, SendRig

SLOT_MS = START_MS + 5_000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    rig.timers.start()
    yield rig
    rig.close()


def add(rig: SendRig, magic: int = PLAIN, **properties: str) -> int:
    """Put a message into the slot; where it is in the log."""
    where = rig.store.append(Record("rmq_sys_wheel_timer", b"x", encode_properties(properties)))
    rig.timer_store.add(SLOT_MS, magic, START_MS, where.log_offset, where.size, 7)
    return where.log_offset


def read(due: DueSlot) -> list[int]:
    assert due.load()
    found = []
    while due.unit is not None:
        found.append(due.unit.log_offset)
        due.next()
    return found


def test_messages_come_in_the_order_they_were_sent(rig: SendRig) -> None:
    sent = [add(rig) for _ in range(5)]
    assert read(DueSlot(rig.timer_store, rig.store, SLOT_MS)) == sent
    assert read(DueSlot(rig.timer_store, rig.store, SLOT_MS + 1000)) == []


def test_recalls_are_taken_from_among_them(rig: SendRig) -> None:
    """One that rolls is a message like others, and one that says nothing recalls nothing."""
    recall = {"TIMER_DEL_UNIQKEY": "A", "REAL_TOPIC": "T"}
    first = add(rig)
    add(rig, PLAIN | DELETE, **recall)
    rolling = add(rig, PLAIN | DELETE | ROLL, TIMER_DEL_UNIQKEY="B")
    add(rig, PLAIN | DELETE)
    due = DueSlot(rig.timer_store, rig.store, SLOT_MS)
    assert read(due) == [first, rolling]
    assert due.recalled == {"A": "T"}


def test_a_long_chain_takes_several_turns(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNITS_PER_TURN", 2)
    sent = [add(rig) for _ in range(5)]
    due = DueSlot(rig.timer_store, rig.store, SLOT_MS)
    assert [due.load() for _ in range(3)] == [False, False, True]
    assert read(due) == sent


def test_a_recall_that_is_gone_recalls_nothing(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    sent = add(rig)
    rig.timer_store.add(SLOT_MS, PLAIN | DELETE, START_MS, 1 << 40, 100, 7)
    due = DueSlot(rig.timer_store, rig.store, SLOT_MS)
    assert read(due) == [sent]
    assert due.recalled == {}
    assert "recalls another is lost" in caplog.text


def test_a_chain_ends_where_its_log_was_removed_or_damaged(
    rig: SendRig, caplog: pytest.LogCaptureFixture
) -> None:
    """What was removed has gone with its messages; damage is told."""
    sent = [add(rig) for _ in range(4)]
    log = rig.timer_store.log
    log.first = 52 * 2
    assert read(DueSlot(rig.timer_store, rig.store, SLOT_MS)) == sent[2:]
    assert caplog.text == ""
    log.first = 0
    log._tail[52:56] = bytes(4)
    assert read(DueSlot(rig.timer_store, rig.store, SLOT_MS)) == sent[2:]
    assert "damaged at 52" in caplog.text
