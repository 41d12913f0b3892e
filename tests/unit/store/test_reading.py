"""A range of a queue becomes views of the log: in order, filtered, merged and bounded."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.protocol.record_layout import peek_queue_offset
from roketto.protocol.tags import tag_code
from roketto.store.commitlog import CommitLog
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files, MappedFile
from roketto.store.reading import GetResult, GetStatus, TransferLimits, get_messages, get_range
from roketto.store.record_check import BLANK_BYTES
from roketto.store.segments import Segments

SEGMENT_BYTES = 4_096


class Rig:
    """One queue of a log that other queues write to as well."""

    def __init__(self, folder: Path) -> None:
        self.files = Files()
        self.segments = Segments(self.files, folder / "commitlog", SEGMENT_BYTES, BLANK_BYTES)
        self.segments.load()
        self.segments.roll()
        self.log = CommitLog(self.segments, lambda: 1_700_000_000_000, memory_bytes=1 << 30)
        self.queue = ConsumeQueue(self.files, folder / "queue", 2_000)

    def append(self, tag: str = "t", body: bytes = b"body") -> None:
        offset = self.queue.queue_offset_max
        record = Record("T", body, encode_properties({"TAGS": tag}))
        where = self.log.append(record, offset)
        self.queue.append(where.log_offset, where.size, tag_code(tag), offset)

    def append_other(self) -> None:
        self.log.append(Record("Other", b"x"), 0)

    def get(
        self,
        offset: int,
        count: int = 32,
        codes: frozenset[int] | None = None,
        predicate: Callable[[memoryview], bool] | None = None,
        limits: TransferLimits | None = None,
    ) -> GetResult:
        return get_messages(
            self.queue, self.log, offset, count, codes=codes, predicate=predicate, limits=limits
        )


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.segments.close()
    rig.files.close()


def offsets_of(result: GetResult) -> list[int]:
    records = [record for view in result.views for record in decode_records(view, strict=True)]
    assert len(records) == result.count
    assert sum(len(view) for view in result.views) == result.size
    return [record.queue_offset for record in records]


def facts_of(result: GetResult) -> tuple[object, ...]:
    return (
        result.status, result.next_offset, result.min_offset, result.max_offset, result.views,
        result.count, result.size, result.is_behind_memory,
    )  # fmt: skip


def test_records_that_follow_each_other_are_one_view(rig: Rig) -> None:
    """Ten messages in a row, one slice of the mapped file."""
    for _ in range(10):
        rig.append()
    result = rig.get(2, 5)
    assert (result.status, result.next_offset) == (GetStatus.FOUND, 7)
    assert (result.min_offset, result.max_offset) == (0, 10)
    assert len(result.views) == 1
    assert offsets_of(result) == [2, 3, 4, 5, 6]


def test_records_of_others_and_ends_of_segments_part_the_views(rig: Rig) -> None:
    """What lies between is not sent."""
    for _ in range(40):
        rig.append()
        rig.append_other()
    result = rig.get(0, 32)
    assert offsets_of(result) == list(range(32))
    assert len(result.views) == 32


@pytest.mark.parametrize("size", [4, 1_500, 2_500])
def test_small_records_that_lie_apart_are_joined(rig: Rig, size: int) -> None:
    """One piece is sent for less than many; larger ones are not copied for it, nor is one alone."""
    for _ in range(3):
        rig.append(body=b"b" * size)
        rig.append_other()
    for count in (3, 1):
        result = rig.get(0, count)
        result.join_small()
        assert len(result.views) == (count if size > 2_048 else 1)
        assert offsets_of(result) == list(range(count))


def test_many_who_read_at_the_same_place_get_the_same(rig: Rig) -> None:
    """Out of the mapped file, and then out of a copy of it; in one segment and over its end."""
    for _ in range(60):
        rig.append()
        rig.append_other()
    for _ in range(3):
        for offset in range(40):
            assert offsets_of(rig.get(offset, 9)) == list(range(offset, offset + 9))


class WatchedFiles(Files):
    """Files that know which of them were mapped: no byte of a segment is read before."""

    def __init__(self) -> None:
        super().__init__()
        self.mapped: set[str] = set()

    def open_mapped(self, path: Path, size: int, *, writable: bool = True) -> MappedFile:
        self.mapped.add(path.name)
        return super().open_mapped(path, size, writable=writable)


B: Final = frozenset({tag_code("b")})
ALL: Final = TransferLimits(memory_count=60, disk_count=60)
READS: Final[dict[str, Callable[[Rig], GetResult]]] = {
    "near": lambda rig: rig.get(0, 60, B, limits=ALL),
    "old": lambda rig: rig.get(0, 60, B, limits=ALL),
    "range": lambda rig: get_range(rig.queue, rig.log, 0, 60, 1 << 20, B),
}


def read_watched(rig: Rig, memory_bytes: int, read: Callable[[Rig], GetResult]) -> None:
    """Read the messages of each second segment of a log; the other segments stay unread."""
    for number in range(18):
        rig.append("a" if number // 3 % 2 else "b", bytes(1_200))
    assert len(rig.segments) == 6, "three messages fill a segment"
    written = rig.segments
    files = WatchedFiles()
    rig.segments = Segments(files, written.directory, SEGMENT_BYTES, BLANK_BYTES)
    rig.segments.load(writable=False)
    rig.log = CommitLog(rig.segments, lambda: 0, memory_bytes=memory_bytes)
    written.close()
    assert not files.mapped
    result = read(rig)
    assert offsets_of(result) == [0, 1, 2, 6, 7, 8, 12, 13, 14]
    assert result.next_offset == 18
    names = [rig.segments[number].path.name for number in range(6)]
    assert files.mapped.issuperset(names[::2]), "what was read cannot be seen"
    assert files.mapped.isdisjoint(names[1::2]), "records were touched in vain"


@pytest.mark.parametrize("way", READS)
def test_tags_are_compared_before_a_record_is_touched(rig: Rig, way: str) -> None:
    """Only matching units are taken; the next offset is behind all that were looked at."""
    read_watched(rig, 0 if way == "old" else 1 << 30, READS[way])


def test_comparing_tags_in_the_records_is_noticed(rig: Rig) -> None:
    """The planted bug: the same result from the records themselves."""
    tag = encode_properties({"TAGS": "b"})

    def read(rig: Rig) -> GetResult:
        return rig.get(0, 60, predicate=lambda view: tag in bytes(view), limits=ALL)

    with pytest.raises(AssertionError, match="records were touched in vain"):
        read_watched(rig, 1 << 30, read)


def test_a_filtered_read_stops_at_the_message_that_did_not_fit(rig: Rig) -> None:
    """And goes on exactly there."""
    for number in range(20):
        rig.append("a" if number % 3 else "b")
    first = rig.get(0, 2, codes=frozenset({tag_code("b")}))
    assert offsets_of(first) == [0, 3]
    assert first.next_offset == 6
    assert offsets_of(rig.get(6, 2, codes=frozenset({tag_code("b")}))) == [6, 9]


def test_a_filtered_read_looks_at_many_messages_only_if_it_has_to(rig: Rig) -> None:
    """It ends where it has enough, or where it has seen 800."""
    for number in range(900):
        rig.append("a" if number % 100 else "b")
    few = rig.get(0, 3, codes=frozenset({tag_code("a")}))
    assert (offsets_of(few), few.next_offset) == ([1, 2, 3], 4)
    first = rig.get(0, 1, codes=frozenset({tag_code("b")}))
    assert (offsets_of(first), first.next_offset) == ([0], 1)
    all_seen = rig.get(0, codes=frozenset({tag_code("b")}))
    assert offsets_of(all_seen) == list(range(0, 800, 100))
    assert all_seen.next_offset == 800


def test_nothing_that_matches_says_so_and_moves_on(rig: Rig) -> None:
    """The consumer asks again behind what was looked at."""
    for _ in range(5):
        rig.append("a")
    result = rig.get(1, codes=frozenset({tag_code("b")}))
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)
    assert result.views == []


def test_a_predicate_sees_the_record(rig: Rig) -> None:
    """For filters that need more than the tag."""
    for _ in range(10):
        rig.append()
    result = rig.get(0, predicate=lambda view: peek_queue_offset(view) % 2 == 1)
    assert offsets_of(result) == [1, 3, 5, 7, 9]


def test_one_read_is_bounded_by_bytes_and_by_count(rig: Rig) -> None:
    """From memory more than from the disk; the first message always comes."""
    for _ in range(12):
        rig.append(body=bytes(300))
    limits = TransferLimits(memory_bytes=1_000, memory_count=5, disk_bytes=500, disk_count=3)
    assert offsets_of(rig.get(0, limits=limits)) == [0, 1]
    assert offsets_of(rig.get(0, 5, limits=TransferLimits(memory_bytes=1_000))) == [0, 1]
    roomy = TransferLimits(memory_bytes=1 << 20, memory_count=5)
    assert offsets_of(rig.get(0, limits=roomy)) == [0, 1, 2, 3, 4]
    assert offsets_of(rig.get(0, 3, limits=roomy)) == [0, 1, 2]
    rig.log._memory_bytes = 0
    from_disk = rig.get(0, limits=limits)
    assert offsets_of(from_disk) == [0]
    assert from_disk.is_behind_memory


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (1, GetStatus.OFFSET_TOO_SMALL, 2),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (9, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_offsets_outside_the_queue_are_answered_as_java_answers_them(
    rig: Rig, offset: int, status: GetStatus, next_offset: int
) -> None:
    """With where to go on."""
    for _ in range(5):
        rig.append()
    rig.queue.queue_offset_min = 2
    result = rig.get(offset)
    assert (result.status, result.next_offset) == (status, next_offset)


def test_no_queue_and_an_empty_queue_differ(rig: Rig) -> None:
    """Both have nothing; one has never existed."""
    missing = get_messages(None, rig.log, 3, 32)
    assert (missing.status, missing.next_offset) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    assert rig.get(3).status is GetStatus.NO_MESSAGE_IN_QUEUE


def test_messages_whose_segment_is_gone_are_passed_over(rig: Rig) -> None:
    """Retention took their file; the queue has not heard of it yet."""
    for _ in range(60):
        rig.append()
    rig.segments.mark_flushed(rig.segments.written)
    rig.segments.remove_first(1)
    gone = rig.get(0, 5)
    assert gone.status is GetStatus.FOUND
    assert offsets_of(gone)[0] > 0
    rig.segments.remove_first(len(rig.segments) - 1)
    limits = TransferLimits(memory_count=1)
    kept = offsets_of(rig.get(0, 1, limits=limits))[0]
    first_kept = rig.queue.unit(kept)
    assert first_kept is not None
    rig.queue.truncate(first_kept.log_offset)
    assert rig.queue.queue_offset_max == kept
    assert rig.get(0).status is GetStatus.MESSAGE_WAS_REMOVING


def test_a_range_has_all_messages_between_its_offsets(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are, and however few units are read at once."""
    monkeypatch.setattr("roketto.store.reading._UNITS_AT_ONCE", 7)
    for _ in range(100):
        rig.append()
    result = get_range(rig.queue, rig.log, 3, 90, 1 << 20)
    assert (result.status, result.next_offset) == (GetStatus.FOUND, 90)
    assert offsets_of(result) == list(range(3, 90))
    assert len(result.views) == len(rig.segments), "neighbours are one view, also of two reads"
    assert offsets_of(get_range(rig.queue, rig.log, 3, 1_000, 1 << 20))[-1] == 99


def test_a_range_with_tags_looks_at_no_message_behind_its_end(rig: Rig) -> None:
    """What is beyond belongs to somebody else."""
    for number in range(20):
        rig.append("a" if number % 3 else "b")
    result = get_range(rig.queue, rig.log, 0, 7, 1 << 20, frozenset({tag_code("b")}))
    assert offsets_of(result) == [0, 3, 6]
    assert result.next_offset == 7
    none = get_range(rig.queue, rig.log, 1, 3, 1 << 20, frozenset({tag_code("b")}))
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)


def test_a_range_stops_where_its_bytes_are_used_up(rig: Rig) -> None:
    """But the first message always comes, also from the disk."""
    for _ in range(12):
        rig.append(body=bytes(300))
    rig.log._memory_bytes = 0
    result = get_range(rig.queue, rig.log, 1, 12, 1_700)
    assert offsets_of(result) == [1, 2, 3, 4]
    assert (result.next_offset, result.is_behind_memory) == (5, True)
    assert offsets_of(get_range(rig.queue, rig.log, 5, 12, 1)) == [5]


def test_a_range_outside_the_queue_is_answered_as_any_read(rig: Rig) -> None:
    """With where to go on."""
    missing = get_range(None, rig.log, 3, 4, 1)
    assert (missing.status, missing.next_offset) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    rig.append()
    beyond = get_range(rig.queue, rig.log, 5, 9, 1)
    assert (beyond.status, beyond.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 1)


def test_whoever_looks_closer_reads_the_same(rig: Rig) -> None:
    """A predicate that all pass changes nothing but the way: seeded rows, filters and bounds."""
    choose = random.Random(7)
    for _ in range(150):
        for _ in range(choose.choice([0, 0, 1])):
            rig.append_other()
        rig.append(choose.choice("aaab"), b"x" * choose.randrange(60))
    tags = [None, frozenset({tag_code("a")}), frozenset({tag_code("b")}), frozenset({1})]
    for _ in range(500):
        offset, count = choose.randrange(155), choose.choice([1, 3, 32, 60, 64, 65, 100])
        limits = TransferLimits(
            memory_bytes=choose.choice([1, 900, 3_000, 1 << 20]),
            memory_count=choose.choice([1, 20, 32, 100]),
        )
        codes = choose.choice(tags)
        near = rig.get(offset, count, codes, limits=limits)
        closer = rig.get(offset, count, codes, lambda _: True, limits)
        assert facts_of(near) == facts_of(closer), (offset, count, limits)
