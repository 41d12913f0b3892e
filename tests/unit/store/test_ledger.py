"""What was read of a queue in advance is given out once asked for, and bounded for all queues."""

from pathlib import Path

from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files
from roketto.store.ledger import AHEAD_BYTES_MAX, AHEAD_TOTAL_MAX, Ledger


def queue_of(number: int = 0) -> ConsumeQueue:
    return ConsumeQueue(Files(), Path("T", str(number)))


def test_only_what_was_read_as_a_whole_is_recalled() -> None:
    """Nothing before, behind or across the ends."""
    ledger, queue = Ledger(), queue_of()
    assert ledger.recall(queue, 100, 1) == b""
    ledger.keep(queue, 100, b"abcdef")
    assert ledger.recall(queue, 100, 5) == b"abcde"
    assert ledger.recall(queue, 102, 3) == b"cde"
    assert ledger.recall(queue, 99, 2) == ledger.recall(queue, 104, 3) == b""
    assert ledger.recall(queue_of(1), 102, 3) == b""


def test_what_was_read_to_its_end_is_not_kept() -> None:
    """Its reader goes on behind it."""
    ledger, queue = Ledger(), queue_of()
    ledger.keep(queue, 100, b"abcdef")
    assert ledger.recall(queue, 104, 2) == b"ef"
    assert ledger.recall(queue, 100, 2) == b""


def test_what_was_forgotten_is_not_recalled() -> None:
    """And to forget what was never kept is harmless."""
    ledger, queue = Ledger(), queue_of()
    ledger.forget(queue)
    ledger.keep(queue, 0, b"abc")
    ledger.forget(queue)
    assert ledger.recall(queue, 0, 3) == b""


def test_no_more_is_kept_than_there_is_room_for() -> None:
    """What was kept first goes; of a queue that is kept again only the new bytes count."""
    ledger = Ledger()
    half = bytes(AHEAD_TOTAL_MAX // 2)
    queues = [queue_of(number) for number in range(3)]
    for queue in (*queues[:2], queues[0]):
        ledger.keep(queue, 0, half)
    assert [bool(ledger.recall(queue, 0, 3)) for queue in queues] == [True, True, False]
    ledger.keep(queues[2], 0, half)
    assert [bool(ledger.recall(queue, 0, 3)) for queue in queues] == [True, False, True]


def read_in_turns(ledger: Ledger, queues: list[ConsumeQueue], turns: int, size: int) -> float:
    """Let each queue be read, as one does that has ``turns`` reads; how many needed no file."""
    recalled = 0
    for turn in range(turns):
        for queue in queues:
            if ledger.recall(queue, turn * size, size):
                recalled += 1
            elif (share := ledger.share() // size * size) > size:
                ledger.keep(queue, turn * size, bytes(share))
    return recalled / turns / len(queues)


def test_few_queues_are_read_far_ahead_and_many_share() -> None:
    """However many they are, what is read in advance is mostly used."""
    few = [queue_of(number) for number in range(100)]
    assert read_in_turns(Ledger(), few, 64, 640) == 60 / 64
    many = [queue_of(number) for number in range(10_000)]
    assert read_in_turns(Ledger(), many, 32, 640) > 0.5


def test_readers_that_left_do_not_take_the_share_of_those_who_stay() -> None:
    """What they left is forgotten in time."""
    ledger = Ledger()
    for number in range(4_000):
        ledger.keep(queue_of(number), 0, bytes(ledger.share()))
    assert ledger.share() < AHEAD_BYTES_MAX
    for _ in range(5 * 4_000):
        ledger.share()
    assert ledger.share() == AHEAD_BYTES_MAX
