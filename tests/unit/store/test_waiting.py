"""Messages that wait keep their order and their places, and nobody else gets these."""

from roketto.store.dispatch import Stored, StoredBatch
from roketto.store.run_properties import RunProperties
from roketto.store.waiting import Waiting

ONE = Stored("T", 0, 7, 100, 50, 0, 1, b"")
HALF = Stored("T", 1, 0, 150, 50, 0, 1, b"")
BATCH = StoredBatch("U", 2, 3, 200, [50, 50], 1, RunProperties([b"", b""]))


def filled() -> Waiting:
    waiting = Waiting()
    waiting.add(150, ONE, 8)
    waiting.add(200, HALF, None)
    waiting.add(300, BATCH, 5)
    return waiting


def test_messages_wait_until_the_log_is_safe_behind_them() -> None:
    waiting = filled()
    assert waiting.log_offset() == 100
    assert waiting.first(149) is None
    assert waiting.first(150) == ONE
    waiting.remove_first()
    assert (waiting.first(150), waiting.first(200), waiting.log_offset()) == (None, HALF, 150)


def test_places_are_kept_until_nothing_waits() -> None:
    waiting = filled()
    assert waiting.places == {("T", 0): 8, ("U", 2): 5}
    for _ in range(2):
        waiting.remove_first()
        assert waiting.places
    waiting.remove_first()
    assert (waiting.places, waiting.log_offset(), waiting.first(1 << 60)) == ({}, None, None)


def test_a_message_that_is_only_in_the_log_keeps_its_place() -> None:
    waiting = Waiting()
    waiting.keep_place(ONE, 8)
    waiting.keep_place(HALF, None)
    assert waiting.places == {("T", 0): 8}
    assert not waiting.messages


def test_a_topic_is_forgotten_with_its_places() -> None:
    waiting = filled()
    waiting.forget_topic("T")
    assert [stored for _, stored in waiting.messages] == [BATCH]
    assert waiting.places == {("U", 2): 5}
