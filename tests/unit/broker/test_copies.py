"""What was delivered before a start is found by what its copies say, and by nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import copies as module
from roketto.broker.copies import LOOKS_PER_TURN, Copies
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from unit.broker.send_rig import START_MS, SendRig

MAGIC_AT = 4


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    yield rig
    rig.close()


def put_copy(rig: SendRig, end: int, sys_flag: int = 0) -> None:
    record = Record("T", b"x", queue_id=1, prepared_log_offset=end, sys_flag=sys_flag)
    rig.store.append(record)


def find(copies: Copies, end: int, queue_id: int = 1) -> bool:
    for _ in range(100):
        found = copies.has("T", queue_id, end)
        if found is not None:
            return found
    raise AssertionError("it never ends")


def test_a_copy_is_found_and_others_are_not(rig: SendRig) -> None:
    """A message of a transaction names something else there."""
    put_copy(rig, 500)
    put_copy(rig, 600, TRANSACTION_COMMIT)
    rig.send()
    copies = Copies(rig.store, START_MS)
    assert find(copies, 500)
    assert not find(copies, 600)
    assert not find(copies, 0)
    assert not find(copies, 500, queue_id=2)


def test_copies_of_before_are_not_looked_for(rig: SendRig) -> None:
    """By the time of storing; what comes while it looks is none either."""
    put_copy(rig, 500)
    rig.pass_ms(1_000)
    put_copy(rig, 600)
    copies = Copies(rig.store, START_MS + 1)
    assert find(copies, 600)
    put_copy(rig, 700)
    assert not find(copies, 500)
    assert not find(copies, 700)
    copies.forget()
    assert find(copies, 700)


def test_a_long_queue_takes_several_turns(rig: SendRig) -> None:
    for number in range(LOOKS_PER_TURN + 1):
        put_copy(rig, 1_000 + number)
    copies = Copies(rig.store, 0)
    assert copies.has("T", 1, 1_000) is None
    assert copies.has("T", 1, 1_000) is True


def test_the_look_back_is_bounded(rig: SendRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_BACK_MAX", 2)
    for number in range(5):
        put_copy(rig, 1_000 + number)
    copies = Copies(rig.store, 0)
    assert [find(copies, 1_000 + number) for number in range(5)] == [False] * 3 + [True] * 2


def test_a_record_that_cannot_be_read_is_no_copy(rig: SendRig) -> None:
    put_copy(rig, 500)
    put_copy(rig, 600)
    (segment,) = (rig.root / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(MAGIC_AT)
        file.write(bytes(4))
    copies = Copies(rig.store, 0)
    assert not find(copies, 500)
    assert find(copies, 600)
