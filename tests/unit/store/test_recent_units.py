"""The newest units of many queues are read without their files, and bounded for all queues."""

from pathlib import Path

import pytest

from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files
from roketto.store.ledger import Ledger
from roketto.store.recent_units import PIECE_BYTES, PIECE_BYTES_MAX, RecentUnits
from roketto.store.unit import UNIT_BYTES, scan

SIZE = 100


def queue_of(number: int = 0) -> ConsumeQueue:
    return ConsumeQueue(Files(), Path("T", str(number)))


def read(queue: ConsumeQueue, position: int, size: int) -> bytes:
    return queue.kept.read(position, size) if queue.kept is not None else b""


def test_only_what_was_kept_as_a_whole_is_read() -> None:
    """Within a piece, across pieces, and nothing before or behind them."""
    recent, queue = RecentUnits(), queue_of()
    assert queue.kept is None
    for position, piece in ((100, b"abc"), (103, b"d"), (104, b"efg")):
        recent.keep(queue, position, piece)
    assert read(queue, 100, 3) == b"abc"
    assert read(queue, 101, 1) == b"b"
    assert read(queue, 102, 4) == b"cdef"
    assert read(queue, 100, 7) == b"abcdefg"
    assert read(queue, 99, 2) == read(queue, 106, 2) == read(queue, 107, 1) == b""


def test_what_does_not_follow_begins_anew() -> None:
    """A gap between two pieces must not be read over."""
    recent, queue = RecentUnits(), queue_of()
    recent.keep(queue, 0, b"abc")
    recent.keep(queue, 5, b"fgh")
    assert read(queue, 0, 3) == b""
    assert read(queue, 5, 3) == b"fgh"


def test_a_queue_with_much_to_write_at_once_keeps_nothing() -> None:
    """Nor what it has kept before: its file will be read."""
    recent, queue = RecentUnits(), queue_of()
    recent.keep(queue, 0, bytes(PIECE_BYTES_MAX))
    assert queue.kept is not None
    recent.keep(queue, PIECE_BYTES_MAX, bytes(PIECE_BYTES_MAX + 1))
    assert queue.kept is None


def test_the_oldest_go_first_when_there_is_no_room() -> None:
    """Piece by piece, whose queue it ever is; what a piece takes besides counts."""
    recent = RecentUnits(3 * (PIECE_BYTES + 10))
    first, second = queue_of(0), queue_of(1)
    for queue, position in ((first, 0), (first, 10), (second, 0)):
        recent.keep(queue, position, bytes(10))
    recent.keep(second, 10, bytes(10))
    assert (read(first, 0, 10), len(read(first, 10, 10))) == (b"", 10)
    recent.keep(second, 20, bytes(10))
    assert first.kept is None
    assert len(read(second, 0, 30)) == 30


def test_the_room_of_forgotten_queues_is_that_of_others() -> None:
    """They are passed by when it is their turn to go."""
    recent = RecentUnits(3 * (PIECE_BYTES + 10))
    gone, first, second = (queue_of(number) for number in range(3))
    for queue in (gone, first):
        recent.keep(queue, 0, bytes(10))
    recent.forget(gone)
    recent.forget(gone)
    assert gone.kept is None
    for position in (0, 10):
        recent.keep(second, position, bytes(10))
    assert all(len(read(queue, 0, 10)) == 10 for queue in (first, second))
    recent.keep(second, 20, bytes(10))
    assert first.kept is None
    assert len(read(second, 0, 30)) == 30


def test_queues_that_come_and_go_leave_nothing_behind() -> None:
    """However many there were, the list of whose turn it is does not grow with them."""
    recent, stays = RecentUnits(), queue_of()
    recent.keep(stays, 0, bytes(10))
    for number in range(5_000):
        queue = queue_of(number)
        recent.keep(queue, 0, bytes(10))
        recent.forget(queue)
    assert len(recent._order) <= 1_100
    assert len(read(stays, 0, 10)) == 10


class Crowd:
    """More queues than files may be open, and others are: each flush opens a file and closes it."""

    def __init__(self, folder: Path, *, file_units: int = 1_000) -> None:
        self.files = Files(descriptors_max=2)
        self.ledger = Ledger()
        self.others = [folder / "a", folder / "b"]
        for path in self.others:
            self.files.create_sparse(path, 1)
        self.queues = [
            ConsumeQueue(self.files, folder / str(number), file_units * UNIT_BYTES, self.ledger)
            for number in range(4)
        ]

    def fill(self, count: int) -> None:
        """So many more units for each queue."""
        for queue in self.queues:
            for offset in range(queue.queue_offset_max, queue.queue_offset_max + count):
                queue.append(offset * SIZE, SIZE, 0, offset)

    def flush(self) -> None:
        for path in self.others:
            self.files.length(path)
        for queue in self.queues:
            queue.flush()

    def close(self) -> None:
        self.files.close()


def offsets(queue: ConsumeQueue, offset: int, count: int) -> list[int]:
    return [unit[0] // SIZE for unit in scan(queue.read(offset, count), None)]


def test_queues_that_are_too_many_are_read_without_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of what is asked for has not been written yet."""
    crowd = Crowd(tmp_path)
    for count in (5, 7, 9):
        crowd.fill(count)
        crowd.flush()
    crowd.fill(4)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "read_at", lambda *_: pytest.fail("a file was read"))
        for queue in crowd.queues:
            assert offsets(queue, 0, 32) == list(range(25))
            assert offsets(queue, 6, 8) == list(range(6, 14))
            assert offsets(queue, 20, 32) == list(range(20, 25))
    crowd.close()


def test_queues_whose_files_are_open_keep_what_they_began_with(tmp_path: Path) -> None:
    """A file that was just made may be one of many; if it is not, nothing more is kept."""
    crowd = Crowd(tmp_path)
    for _ in range(3):
        for queue in crowd.queues[:2]:
            queue.append(queue.queue_offset_max * SIZE, SIZE, 0, queue.queue_offset_max)
            queue.flush()
    for queue in crowd.queues[:2]:
        assert queue.kept is not None
        assert queue.kept.end == UNIT_BYTES
        assert offsets(queue, 0, 3) == [0, 1, 2]
    crowd.close()


def test_what_was_cut_off_is_not_read_again(tmp_path: Path) -> None:
    """Recovery lets a queue end before what was kept of it; what comes then is read instead."""
    crowd = Crowd(tmp_path)
    for _ in range(3):
        crowd.fill(10)
        crowd.flush()
    queue = crowd.queues[0]
    assert queue.kept is not None
    queue.truncate(15 * SIZE)
    assert queue.kept is None
    for offset in range(15, 20):
        queue.append((offset + 1_000) * SIZE, SIZE, 0, offset)
    assert offsets(queue, 10, 32) == [*range(10, 15), *range(1_015, 1_020)]
    queue.flush()
    assert offsets(queue, 10, 32) == [*range(10, 15), *range(1_015, 1_020)]
    crowd.close()


def test_a_run_across_two_files_is_kept_as_one(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, file_units=8)
    for _ in range(5):
        crowd.fill(5)
        crowd.flush()
    for queue in crowd.queues:
        assert queue.kept is not None
        assert offsets(queue, 3, 18) == list(range(3, 21))
        assert [unit[0] // SIZE for unit in scan(queue._read(0, 500), None)] == list(range(25))
    crowd.close()
