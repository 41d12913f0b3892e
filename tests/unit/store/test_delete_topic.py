"""A deleted topic: its queues are gone, also after a restart, and a new one begins at 0."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.store.reading import GetStatus
from unit.store.test_store import SYNC, Rig, bodies, message, tick_through


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "store")
    rig.store.open(1)
    yield rig
    rig.store.close()


def test_a_deleted_topic_has_no_messages(rig: Rig) -> None:
    """Others keep theirs, and the log keeps all of them."""
    put = rig.store.append(message(0))
    rig.store.append(message(1, "U"))
    rig.store.delete_topic("T")
    assert rig.store.queue("T", 0) is None
    assert rig.store.get("T", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert bodies(rig.store, "U") == [b"message 1"]
    assert rig.store.record_at(put.log_offset).body == b"message 0"
    assert rig.store.log.max_offset > put.end


def test_a_topic_made_again_begins_at_its_first_offset(rig: Rig) -> None:
    """What the old one had is not seen through the new one."""
    for number in range(3):
        rig.store.append(message(number))
    rig.store.delete_topic("T")
    assert rig.store.append(message(7)).queue_offset == 0
    assert bodies(rig.store) == [b"message 7"]


def test_a_deleted_topic_stays_deleted_after_a_stop(rig: Rig) -> None:
    """Its directory is gone, and nothing is missed at the next start."""
    rig.store.append(message(0))
    tick_through(rig.store)
    rig.store.delete_topic("T")
    rig.store.close()
    rig.store = rig.make()
    rig.store.open(1)
    assert rig.store.queue("T", 0) is None
    assert list(rig.store.topics()) == []


def test_a_deleted_topic_stays_deleted_after_a_crash(tmp_path: Path) -> None:
    """The tick after the deletion says so in the checkpoint, long before its usual time."""
    rig = Rig(tmp_path, SYNC)
    rig.store.open(1)
    rig.store.append(message(0))
    rig.wait()
    tick_through(rig.store)
    rig.store.delete_topic("T")
    tick_through(rig.store)
    rig.crash()
    rig.store.open(1)
    assert rig.store.queue("T", 0) is None
    rig.store.close()


def test_messages_that_wait_for_the_disk_are_forgotten_too(tmp_path: Path) -> None:
    """With SYNC_FLUSH they would otherwise come to a queue that counts from 0 again."""
    rig = Rig(tmp_path, SYNC)
    rig.store.open(1)
    rig.store.append(message(0))
    rig.store.append(message(1, "U"))
    rig.store.delete_topic("T")
    assert rig.store.append(message(7)).queue_offset == 0
    rig.store.close()
    rig.store = rig.make()
    rig.store.open(1)
    assert bodies(rig.store, "U") == [b"message 1"]
    assert bodies(rig.store) == [b"message 7"]
    rig.store.close()


def test_deleting_an_unknown_topic_changes_nothing(rig: Rig) -> None:
    """It may have had no messages."""
    rig.store.append(message(0))
    rig.store.delete_topic("U")
    assert bodies(rig.store) == [b"message 0"]


def test_a_queue_for_which_messages_wait_is_not_forgotten(tmp_path: Path) -> None:
    """They have their places behind those that it had."""
    rig = Rig(tmp_path, SYNC)
    rig.store.open(1)
    rig.store.append(message(0))
    assert not rig.store.delete_expired_queue("T", 0)
    rig.store.close()
