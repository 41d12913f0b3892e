"""What was read of a queue in advance is given out once asked for, and bounded for all queues."""

from pathlib import Path

from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files
from roketto.store.ledger import QUEUES_AHEAD_MAX, Ledger


def queue_of(number: int = 0) -> ConsumeQueue:
    return ConsumeQueue(Files(), Path("T", str(number)))


def test_only_what_was_read_as_a_whole_is_recalled() -> None:
    """Nothing before, behind or across the ends."""
    ledger, queue = Ledger(), queue_of()
    assert ledger.recall(queue, 100, 1) == b""
    ledger.keep(queue, 100, b"abcdef")
    assert ledger.recall(queue, 100, 6) == b"abcdef"
    assert ledger.recall(queue, 102, 3) == b"cde"
    assert ledger.recall(queue, 99, 2) == ledger.recall(queue, 104, 3) == b""
    assert ledger.recall(queue_of(1), 102, 3) == b""


def test_what_was_forgotten_is_not_recalled() -> None:
    """And to forget what was never kept is harmless."""
    ledger, queue = Ledger(), queue_of()
    ledger.forget(queue)
    ledger.keep(queue, 0, b"abc")
    ledger.forget(queue)
    assert ledger.recall(queue, 0, 3) == b""


def test_no_more_queues_are_kept_than_a_table_may_have() -> None:
    """The one that was kept first goes; one that is kept again takes no other's place."""
    ledger = Ledger()
    queues = [queue_of(number) for number in range(QUEUES_AHEAD_MAX + 1)]
    for queue in queues[:-1]:
        ledger.keep(queue, 0, b"abc")
    ledger.keep(queues[5], 0, b"def")
    assert ledger.recall(queues[0], 0, 3) == b"abc"
    ledger.keep(queues[-1], 0, b"ghi")
    assert ledger.recall(queues[0], 0, 3) == b""
    assert ledger.recall(queues[5], 0, 3) == b"def"
    assert ledger.recall(queues[-1], 0, 3) == b"ghi"
