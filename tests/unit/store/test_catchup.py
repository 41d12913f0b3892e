"""From the log alone, queues and index get what dispatching at once would have given them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.protocol.sysflags import TRANSACTION_PREPARED
from roketto.protocol.tags import tag_code
from roketto.store import catchup
from roketto.store.catchup import CatchUp, Scan
from roketto.store.files import MappedFile
from unit.store.test_dispatch import SEGMENT_BYTES, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def follow(rig: Rig, start: int, end: int) -> Scan:
    scan = Scan(start)
    CatchUp(rig.segments, rig.queues, rig.dispatcher).run(scan, end)
    return scan


def test_catching_up_finds_what_dispatching_at_once_would_have(rig: Rig) -> None:
    """Over several segments and their blanks."""
    stored = [rig.append(n, TAGS=f"t{n}", UNIQ_KEY=f"U{n}") for n in range(40)]
    assert len(rig.segments) > 2
    scan = follow(rig, 0, rig.log.max_offset)
    assert (scan.at, scan.records, scan.trouble) == (rig.log.max_offset, 40, None)
    assert rig.units() == [(s.log_offset, s.size, tag_code(f"t{n}")) for n, s in enumerate(stored)]
    assert all(rig.find(f"U{n}") == [s.log_offset] for n, s in enumerate(stored))
    assert [arrival.queue_offset for arrival in rig.arrivals] == list(range(40))


def test_catching_up_starts_and_stops_where_it_is_told(rig: Rig) -> None:
    """From the first record that is missing to the last that is safe; then on from there."""
    stored = [rig.append(n) for n in range(6)]
    rig.dispatcher.dispatch(stored[0])
    scan = follow(rig, stored[1].log_offset, stored[3].log_offset)
    assert (scan.at, scan.records) == (stored[3].log_offset, 2)
    assert len(rig.units()) == 3
    CatchUp(rig.segments, rig.queues, rig.dispatcher).run(scan, rig.log.max_offset)
    assert (scan.at, scan.records) == (rig.log.max_offset, 5)
    assert len(rig.units()) == 6


def test_what_was_dispatched_already_is_not_announced_again(rig: Rig) -> None:
    """Whoever is not sure begins further back."""
    for n in range(3):
        rig.dispatcher.dispatch(rig.append(n, UNIQ_KEY=f"U{n}"))
    scan = follow(rig, 0, rig.log.max_offset)
    assert (scan.records, scan.misplaced) == (3, 0)
    assert len(rig.units()) == len(rig.arrivals) == 3


def test_catching_up_stops_at_damage_and_says_what_it_is(rig: Rig) -> None:
    """What lies before it is dispatched, what lies behind it is not; mended, it goes on."""
    stored = [rig.append(n) for n in range(3)]
    rig.segments.room[stored[1].log_offset + 4] ^= 0xFF
    scan = follow(rig, 0, rig.log.max_offset)
    assert scan.at == stored[1].log_offset
    assert scan.trouble is not None
    assert "magic" in scan.trouble
    assert len(rig.units()) == 1
    rig.segments.room[stored[1].log_offset + 4] ^= 0xFF
    CatchUp(rig.segments, rig.queues, rig.dispatcher).run(scan, rig.log.max_offset)
    assert scan.at == rig.log.max_offset
    assert len(rig.units()) == 3


def test_records_without_a_place_of_their_own_are_counted(rig: Rig) -> None:
    """A number that was given is left out, a gap is closed, a queue from 0 again begins anew."""
    rig.append(0, sys_flag=TRANSACTION_PREPARED)
    for queue_offset in (0, 1, 2, 1, 7):
        rig.append(queue_offset)
    scan = follow(rig, 0, rig.log.max_offset)
    assert (scan.records, scan.misplaced, scan.restarted) == (6, 2, 0)
    assert len(rig.units()) == 4
    behind = rig.log.max_offset
    rig.append(0)
    rig.append(0, topic="no/queue")
    scan = follow(rig, behind, rig.log.max_offset)
    assert (scan.misplaced, scan.restarted, scan.without_queue) == (0, 1, 1)
    assert len(rig.units()) == 1


def test_progress_is_told_after_so_many_bytes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the way from where it began to where it is to end; what is short tells nothing."""
    first = rig.append(0)
    for n in range(1, 120):
        rig.append(n)
    told: list[tuple[int, int]] = []
    parts = CatchUp(
        rig.segments, rig.queues, rig.dispatcher, lambda done, total: told.append((done, total))
    )
    start, end = first.size, rig.log.max_offset
    parts.run(Scan(start), end)
    assert told == []
    monkeypatch.setattr(catchup, "_PROGRESS_BYTES", SEGMENT_BYTES)
    parts.run(Scan(start), end)
    assert 2 <= len(told) <= (end - start) // SEGMENT_BYTES
    assert told == sorted(told)
    assert all(0 < done <= total == end - start for done, total in told)


def test_the_log_is_read_ahead_a_part_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of each segment once, before it is needed; no further than the segment goes."""
    for n in range(40):
        rig.append(n)
    ahead = 512
    monkeypatch.setattr(catchup, "_AHEAD_BYTES", ahead)
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        MappedFile, "expect", lambda mapped, start, end: told.append((mapped.path.name, start, end))
    )
    follow(rig, 0, rig.log.max_offset)
    for segment in [rig.segments[number] for number in range(len(rig.segments) - 1)]:
        parts = [part[1:] for part in told if part[0] == segment.path.name]
        starts = list(range(0, SEGMENT_BYTES, ahead))
        assert parts == [(start, min(start + ahead, SEGMENT_BYTES)) for start in starts]
