"""Whatever a stop or a crash leaves behind: nothing sound is lost, nothing broken is kept."""

import shutil
import struct
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store import catchup
from roketto.store.checkpoint import Checkpoint, Marks
from roketto.store.commitlog import CommitLog
from roketto.store.dispatch import Dispatcher, read_stored
from roketto.store.errors import CorruptStoreError
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import BLANK_BYTES
from roketto.store.recovery import Recovered, Recovery, log_goes_on
from roketto.store.segments import Segments
from unit.store.test_record_repair import poisoned

BEGIN_MS = 1_700_000_000_000
SEGMENT_BYTES = 2_048
NEVER = Checkpoint()


class Rig:
    """A small store whose process can be stopped in order or killed at any moment."""

    def __init__(self, folder: Path, *, with_index: bool = True, append_crc: bool = False) -> None:
        self.folder = folder
        self.with_index = with_index
        self.append_crc = append_crc
        self.now_ms = BEGIN_MS
        self.next_offset = 0
        self.open()
        self.segments.roll()

    def open(self) -> None:
        files = self.files = Files()
        self.segments = Segments(files, self.folder / "commitlog", SEGMENT_BYTES, BLANK_BYTES)
        self.segments.load()
        self.log = CommitLog(
            self.segments, self.tick, memory_bytes=1 << 30, append_crc=self.append_crc
        )
        self.queues = Queues(files, self.folder / "consumequeue", 2_000)
        self.queues.load(self.segments.min_offset)
        self.index: Index | None = None
        if self.with_index:
            self.index = Index(files, self.folder / "index", self.tick, UTC, 100, 400)
            self.damaged_index = self.index.load()
        self.dispatcher = Dispatcher(self.queues, self.index)

    def tick(self) -> int:
        self.now_ms += 1_000
        return self.now_ms

    def append(self, count: int = 1) -> list[int]:
        """Append and dispatch messages; where their records begin."""
        offsets = []
        for _ in range(count):
            properties = {"UNIQ_KEY": f"U{self.next_offset}", "TAGS": "t"}
            record = Record("T", b"%050d" % self.next_offset, encode_properties(properties))
            where = self.log.append(record, self.next_offset)
            self.dispatcher.dispatch(read_stored(self.log.read(where.log_offset, where.size), 0))
            offsets.append(where.log_offset)
            self.next_offset += 1
        return offsets

    def kill(self) -> None:
        """What a process holds in memory is gone; what it wrote to files and maps is not."""
        if self.index is not None:
            self.index.close()
        self.segments.close()
        self.files.close()

    def stop(self) -> None:
        self.queues.flush()
        self.kill()

    def reopen(self, checkpoint: Checkpoint = NEVER, *, is_clean: bool = False) -> Recovered:
        self.open()
        parts = Recovery(
            self.segments, self.queues, self.index, self.dispatcher,
            crc_from=0 if self.append_crc else None,
        )  # fmt: skip
        damaged = self.with_index and bool(self.damaged_index)
        recovered = parts.run(checkpoint, is_clean=is_clean, is_index_damaged=damaged)
        self.next_offset = recovered_offset(self.queues)
        return recovered

    def file(self, number: int) -> Path:
        return self.folder / "commitlog" / f"{number * SEGMENT_BYTES:020d}"

    def check(self, offsets: list[int]) -> None:
        """Exactly these records are in the log, the queue and the index, and more can follow."""
        queue = self.queues.get("T", 0)
        units = [queue.unit(n) for n in range(queue.queue_offset_max)] if queue else []
        assert [unit.log_offset for unit in units if unit] == offsets
        if self.index is not None:
            # The newest key before the crash may be filed twice: it might have lacked a second one.
            found = [self.index.query("T", f"U{n}", 9, 0, 1 << 60) for n in range(len(offsets))]
            assert [set(places) for places in found] == [{offset} for offset in offsets]
            assert self.index.query("T", f"U{len(offsets)}", 9, 0, 1 << 60) == []
        if not len(self.segments):
            self.segments.roll()
        [more] = self.append()
        assert more >= (offsets[-1] if offsets else 0)


def recovered_offset(queues: Queues) -> int:
    queue = queues.get("T", 0)
    return queue.queue_offset_max if queue else 0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.kill()


def test_a_store_without_a_log_has_no_queues_and_no_index(rig: Rig) -> None:
    """What is left of them belongs to a log that is gone."""
    rig.append(3)
    rig.stop()
    rig.file(0).unlink()
    assert rig.reopen() == Recovered(0, 0, 0, 0, 0)
    rig.check([])


def test_a_clean_stop_needs_no_reading(rig: Rig) -> None:
    """Everything was on the disk; the log is read from where the queues end."""
    offsets = rig.append(30)
    end = rig.log.max_offset
    rig.stop()
    recovered = rig.reopen(is_clean=True)
    assert (recovered.end, recovered.records, recovered.cut_bytes) == (end, 0, 0)
    assert rig.segments.flushed == end
    rig.check(offsets)


def test_queues_and_index_are_rebuilt_after_a_kill(rig: Rig) -> None:
    """The units that were in memory only come from the log again."""
    offsets = rig.append(30)
    rig.kill()
    recovered = rig.reopen()
    assert recovered.records == 30
    assert recovered.store_time_ms > BEGIN_MS
    assert recovered.read_from == 0
    assert rig.segments.flushed == recovered.end, "what can be read from now on is safe"
    rig.check(offsets)


def test_a_store_without_an_index_recovers_the_same(tmp_path: Path) -> None:
    """messageIndexEnable=false."""
    rig = Rig(tmp_path, with_index=False)
    offsets = rig.append(20)
    rig.kill()
    assert rig.reopen().records == 20
    rig.check(offsets)
    rig.stop()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    for path in sorted((tmp_path / "commitlog").iterdir()):
        path.unlink()
    assert rig.reopen().end == 0
    rig.kill()


@pytest.mark.parametrize("append_crc", [False, True])
def test_the_torn_end_is_cut_at_the_last_whole_record(tmp_path: Path, append_crc: bool) -> None:
    """Whichever byte of the last record was the last to be written.

    The checksum of the body says nothing of the properties behind it; the CRC property does.
    """
    rig = Rig(tmp_path, append_crc=append_crc)
    offsets = rig.append(5)
    last, end = offsets[-1], rig.log.max_offset
    body_end = last + 88 + 50
    rig.kill()
    whole = rig.file(0).read_bytes()
    for cut in range(last, end if append_crc else body_end):
        rig.file(0).write_bytes(whole[:cut] + bytes(SEGMENT_BYTES - cut))
        recovered = rig.reopen()
        assert recovered.end == rig.segments.written == last, cut
        assert recovered_offset(rig.queues) == 4
        rig.kill()
        assert rig.file(0).read_bytes() == whole[:last] + bytes(SEGMENT_BYTES - last)


def test_what_is_cut_off_is_counted_and_wiped(rig: Rig) -> None:
    """Garbage behind the end cannot become a record later."""
    offsets = rig.append(5)
    end = rig.log.max_offset
    rig.segments.room[end + 100 : end + 104] = b"junk"
    rig.kill()
    recovered = rig.reopen()
    assert (recovered.end, recovered.cut_bytes) == (end, 104)
    rig.check(offsets)


def test_segments_behind_the_end_are_removed(rig: Rig) -> None:
    """A hole in an early segment, as a power loss leaves it: all later ones go."""
    offsets = rig.append(40)
    assert len(rig.segments) > 3
    rig.kill()
    broken = next(offset for offset in offsets if offset >= SEGMENT_BYTES)
    content = bytearray(rig.file(1).read_bytes())
    content[broken - SEGMENT_BYTES + 4] ^= 0xFF
    rig.file(1).write_bytes(bytes(content))
    recovered = rig.reopen()
    assert recovered.end == broken == SEGMENT_BYTES
    assert recovered.cut_bytes > SEGMENT_BYTES
    assert len(rig.segments) <= 2
    rig.check([offset for offset in offsets if offset < broken])


def test_an_empty_segment_that_was_made_ahead_is_no_damage(rig: Rig) -> None:
    """The next file was prepared and never used when the process died."""
    offsets = rig.append(5)
    end = rig.log.max_offset
    rig.kill()
    rig.file(1).write_bytes(bytes(SEGMENT_BYTES))
    recovered = rig.reopen()
    assert (recovered.end, recovered.cut_bytes) == (end, 0)
    rig.check(offsets)


def test_a_log_that_ends_with_its_last_segment_goes_on_in_a_new_one(rig: Rig) -> None:
    """The segment was filled up with a blank, and the next one was never made."""
    offsets = rig.append(8)
    while len(rig.segments) < 2:
        offsets += rig.append()
    rig.kill()
    rig.file(1).unlink()
    recovered = rig.reopen()
    assert recovered.end == SEGMENT_BYTES
    rig.segments.roll()
    rig.check(offsets[:-1])


def test_damage_after_a_clean_stop_is_an_error_and_nothing_is_cut(rig: Rig) -> None:
    """Everything was safe then, so this cannot be a torn end."""
    rig.append(5)
    end = rig.log.max_offset
    rig.segments.room[end + 7] = 1
    rig.stop()
    before = rig.file(0).read_bytes()
    with pytest.raises(CorruptStoreError, match="the last stop was clean") as caught:
        rig.reopen(is_clean=True)
    assert (caught.value.path, caught.value.offset) == (rig.file(0), end)
    assert rig.file(0).read_bytes() == before


def test_damage_before_the_checkpoint_is_an_error_and_nothing_is_cut(rig: Rig) -> None:
    """Messages that were on the disk lie behind the damage."""
    offsets = rig.append(10)
    rig.kill()
    content = bytearray(rig.file(0).read_bytes())
    content[offsets[4] + 100] ^= 0x01
    rig.file(0).write_bytes(bytes(content))
    with pytest.raises(CorruptStoreError, match="knows of messages stored at") as caught:
        rig.reopen(Checkpoint(physic_timestamp=rig.now_ms - 1_000, logics_timestamp=BEGIN_MS))
    assert caught.value.offset == offsets[4]
    assert rig.file(0).read_bytes() == bytes(content)
    rig.kill()
    assert rig.reopen(Checkpoint(physic_timestamp=BEGIN_MS)).end == offsets[4]


def test_reading_starts_with_the_last_segment_before_the_checkpoint(rig: Rig) -> None:
    """A crash of a large store costs what was written since, not all of it."""
    offsets = rig.append(40)
    rig.queues.flush()
    third = rig.segments[2]
    time_ms = read_stored(rig.segments.view(third), 0).store_time_ms
    rig.kill()
    checkpoint = Checkpoint(time_ms + 3_000, time_ms + 3_000)
    assert rig.reopen(checkpoint).read_from == third.start
    rig.check(offsets)


def test_a_segment_that_does_not_begin_with_a_record_is_no_start(rig: Rig) -> None:
    """It may be the one that was being made; the one before it is looked at."""
    offsets = rig.append(1)
    assert rig.index is not None
    rig.index.flush()
    offsets += rig.append(39)
    rig.index.flush()
    rig.queues.flush()
    last = rig.segments[-1].start
    rig.kill()
    rig.file(last // SEGMENT_BYTES + 1).write_bytes(bytes(SEGMENT_BYTES))
    late = Checkpoint(rig.now_ms - 2_000, rig.now_ms)
    assert rig.reopen(late).read_from < last
    rig.kill()
    later = Checkpoint(rig.now_ms, rig.now_ms)
    rig.file(last // SEGMENT_BYTES + 1).write_bytes(bytes(SEGMENT_BYTES))
    assert rig.reopen(later).read_from <= last
    rig.check(offsets)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_queue_is_rebuilt(rig: Rig, is_clean: bool) -> None:
    """Whatever was done to its file, the log has it all."""
    offsets = rig.append(20)
    rig.stop()
    [path] = (rig.folder / "consumequeue" / "T" / "0").iterdir()
    content = bytearray(path.read_bytes())
    content[5 * 20 : 9 * 20] = b"\xff" * 80
    path.write_bytes(bytes(content))
    rig.reopen(Checkpoint(rig.now_ms - 9_000, rig.now_ms), is_clean=is_clean)
    rig.check(offsets)


def test_a_missing_index_is_rebuilt_after_a_clean_stop(rig: Rig) -> None:
    """Java would go on without the keys of everything before."""
    offsets = rig.append(20)
    rig.stop()
    for path in (rig.folder / "index").iterdir():
        path.unlink()
    assert rig.reopen(is_clean=True).records == 20
    rig.check(offsets)


def test_a_damaged_index_is_rebuilt(rig: Rig) -> None:
    """A file with a header that no put can have left goes, and is made anew."""
    offsets = rig.append(20)
    rig.stop()
    [path] = (rig.folder / "index").iterdir()
    content = bytearray(path.read_bytes())
    content[:40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    rig.reopen(is_clean=True)
    rig.check(offsets)


def test_queues_that_lead_beyond_the_log_are_cut_to_it(rig: Rig) -> None:
    """They were on the disk before the log was: their messages were never safe."""
    offsets = rig.append(10)
    rig.stop()
    content = rig.file(0).read_bytes()
    end = offsets[6]
    rig.file(0).write_bytes(content[:end] + bytes(SEGMENT_BYTES - end))
    for path in sorted((rig.folder / "commitlog").iterdir())[1:]:
        path.unlink()
    recovered = rig.reopen()
    assert recovered.end == end
    rig.check(offsets[:6])


def test_recovering_twice_gives_what_recovering_once_gives(rig: Rig) -> None:
    """A crash during recovery costs nothing but time."""
    offsets = rig.append(20)
    rig.kill()
    first = rig.reopen()
    rig.kill()
    assert rig.reopen() == first
    rig.check(offsets)


def test_progress_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long recoveries show how far they are."""
    monkeypatch.setattr(catchup, "_PROGRESS_BYTES", SEGMENT_BYTES)
    rig.append(40)
    rig.kill()
    rig.open()
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    Recovery(rig.segments, rig.queues, rig.index, rig.dispatcher, progress).run(
        NEVER, is_clean=False
    )
    assert len(told) >= 2
    assert told == sorted(told)
    assert all(done <= total == len(rig.segments) * SEGMENT_BYTES for done, total in told)


def test_progress_is_told_within_a_long_segment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of small messages takes a while."""
    monkeypatch.setattr(catchup, "_PROGRESS_BYTES", 500)
    monkeypatch.setattr(catchup, "_PROGRESS_RECORDS", 2)
    rig.append(8)
    assert len(rig.segments) == 1
    rig.kill()
    rig.open()
    told: list[int] = []
    progress = Recovery(
        rig.segments, rig.queues, rig.index, rig.dispatcher, lambda done, _: told.append(done)
    )
    progress.run(NEVER, is_clean=False)
    assert len(told) >= 2


def test_a_log_without_a_record_opens_as_it_is(rig: Rig) -> None:
    """Its first file was made, and the broker stopped before the first message."""
    rig.stop()
    recovered = rig.reopen(is_clean=True)
    assert (recovered.end, recovered.records, recovered.cut_bytes) == (0, 0, 0)
    rig.check([])


def test_a_queue_that_points_into_a_record_does_not_cost_the_log_behind_it(rig: Rig) -> None:
    """Reading starts with the segment then, and not between two bytes of a message."""
    offsets = rig.append(20)
    end = rig.log.max_offset
    rig.stop()
    [path] = (rig.folder / "consumequeue" / "T" / "0").iterdir()
    content = bytearray(path.read_bytes())
    last = 19 * 20
    content[last + 8 : last + 12] = (5).to_bytes(4)  # the size of the last unit
    path.write_bytes(bytes(content))
    recovered = rig.reopen(is_clean=True)
    assert (recovered.end, recovered.cut_bytes) == (end, 0)
    assert recovered.read_from % SEGMENT_BYTES == 0
    rig.check(offsets)


def test_a_queue_that_points_beyond_the_log_does_not_cost_its_end(rig: Rig) -> None:
    """A last unit with an impossible place, after a clean stop."""
    offsets = rig.append(20)
    end = rig.log.max_offset
    rig.stop()
    [path] = (rig.folder / "consumequeue" / "T" / "0").iterdir()
    content = bytearray(path.read_bytes())
    content[19 * 20 : 19 * 20 + 8] = (1 << 40).to_bytes(8)
    path.write_bytes(bytes(content))
    recovered = rig.reopen(is_clean=True)
    assert recovered.end == end
    assert recovered.read_from == rig.segments[-1].start
    rig.check(offsets)


def test_a_damaged_first_record_of_all_is_an_error(rig: Rig) -> None:
    """Nothing can be read, and the checkpoint knows that there was something."""
    rig.append(5)
    rig.kill()
    content = bytearray(rig.file(0).read_bytes())
    content[100] ^= 0xFF
    rig.file(0).write_bytes(bytes(content))
    with pytest.raises(CorruptStoreError, match="last readable one was stored at 0"):
        rig.reopen(Checkpoint(physic_timestamp=rig.now_ms))


def test_everything_can_be_rebuilt_from_the_log(rig: Rig) -> None:
    """Queues and index are made anew, whatever they were."""
    offsets = rig.append(30)
    parts = Recovery(rig.segments, rig.queues, rig.index, rig.dispatcher)
    rig.segments.mark_flushed(rig.segments.written)
    rebuilt = parts.rebuild()
    assert (rebuilt.records, rebuilt.read_from) == (30, 0)
    rig.check(offsets)


# --- with marks -----------------------------------------------------------------------------------


def marked(rig: Rig, *, is_clean: bool = False, flushed: int | None = None) -> Checkpoint:
    """A checkpoint of now, with everything on the disk."""
    rig.queues.flush()
    end = rig.log.max_offset
    marks = Marks(
        end if flushed is None else flushed, end, *rig.queues.count(),
        index_mark=rig.index.mark() if rig.index else None, is_clean=is_clean,
    )  # fmt: skip
    return Checkpoint(marks=marks)


def reopen_marked(rig: Rig, checkpoint: Checkpoint, *, is_clean: bool = False) -> Recovered:
    """As a store opens these parts when the marks count."""
    rig.open()
    marks = checkpoint.marks
    assert marks is not None
    if not is_clean:
        rig.queues.load(rig.segments.min_offset, is_after_crash=True, log_synced=marks.derived)
    is_whole = True
    if rig.index is not None:
        assert marks.index_mark is not None
        rig.index.close()
        is_whole = rig.index.load_marked(marks.index_mark, is_exact=is_clean)
    recovery = Recovery(rig.segments, rig.queues, rig.index, rig.dispatcher)
    recovered = recovery.run(checkpoint, is_clean=is_clean, is_index_damaged=not is_whole)
    rig.next_offset = recovered_offset(rig.queues)
    return recovered


def test_after_a_crash_reading_starts_at_the_mark(rig: Rig) -> None:
    """Not with the segment: what was synced is not read again."""
    offsets = rig.append(15)
    checkpoint = marked(rig)
    offsets += rig.append(20)
    rig.kill()
    recovered = reopen_marked(rig, checkpoint)
    assert (recovered.read_from, recovered.records) == (offsets[15], 20)
    rig.check(offsets)


def test_after_a_clean_stop_nothing_is_read(rig: Rig) -> None:
    """Nor after a crash of a store that had nothing to do."""
    offsets = rig.append(15)
    checkpoint = marked(rig, is_clean=True)
    rig.kill()
    recovered = reopen_marked(rig, checkpoint, is_clean=True)
    assert (recovered.records, recovered.end) == (0, recovered.read_from)
    rig.kill()
    assert reopen_marked(rig, checkpoint) == recovered
    rig.check(offsets)


def test_queues_ahead_of_the_synced_log_are_read_from_its_end(rig: Rig) -> None:
    """Under ASYNC_FLUSH: what the log has lost, they lose, too."""
    offsets = rig.append(15)
    checkpoint = marked(rig, flushed=offsets[8])
    rig.kill()
    content = rig.file(0).read_bytes()
    cut = offsets[10] + 50
    rig.file(0).write_bytes(content[:cut].ljust(SEGMENT_BYTES, b"\0"))
    for path in sorted((rig.folder / "commitlog").iterdir())[1:]:
        path.unlink()
    recovered = reopen_marked(rig, checkpoint)
    assert (recovered.read_from, recovered.end) == (offsets[8], offsets[10])
    rig.check(offsets[:10])


def test_a_log_that_ends_at_the_mark_with_its_segment_goes_on(rig: Rig) -> None:
    """The blank is the last thing that was synced, and the next file was never made."""
    offsets = rig.append()
    while len(rig.segments) < 2:
        offsets += rig.append()
    rig.queues.flush()
    rig.kill()
    rig.file(1).unlink()
    recovered = rig.reopen()
    assert recovered.end == SEGMENT_BYTES
    checkpoint = marked(rig)
    assert checkpoint.marks is not None
    assert checkpoint.marks.derived == SEGMENT_BYTES
    rig.kill()
    again = reopen_marked(rig, checkpoint)
    assert (again.read_from, again.records, again.end) == (SEGMENT_BYTES, 0, SEGMENT_BYTES)
    rig.segments.roll()
    rig.check(offsets[:-1])


def test_a_torn_record_right_at_the_mark_is_cut(rig: Rig) -> None:
    """The sizes of the records before lead there, so it is the end and not the middle of one."""
    offsets = rig.append(5)
    checkpoint = marked(rig)
    end = rig.log.max_offset
    rig.append()
    rig.segments.room[end + 40] ^= 0xFF
    rig.segments.room[end + 28] ^= 0xFF
    rig.kill()
    recovered = reopen_marked(rig, checkpoint)
    assert (recovered.read_from, recovered.end) == (end, end)
    assert recovered.cut_bytes > 50
    rig.check(offsets)


@pytest.mark.parametrize("shift", [-60, 7])
def test_a_mark_inside_a_record_is_not_believed(rig: Rig, shift: int) -> None:
    """It belongs to another log: the segment is read from its beginning."""
    offsets = rig.append(5)
    marks = marked(rig).marks
    assert marks is not None
    rig.kill()
    wrong = Checkpoint(marks=marks._replace(derived=offsets[3] + shift, flushed=offsets[3] + shift))
    recovered = reopen_marked(rig, wrong)
    assert (recovered.read_from, recovered.end) == (0, marks.flushed)
    rig.check(offsets)


def test_a_queue_that_the_mark_knows_and_nobody_has_is_rebuilt(rig: Rig) -> None:
    """Its directory is gone; all of the log is read."""
    offsets = rig.append(15)
    checkpoint = marked(rig)
    rig.kill()
    shutil.rmtree(rig.folder / "consumequeue")
    recovered = reopen_marked(rig, checkpoint)
    assert (recovered.read_from, recovered.records) == (0, 15)
    rig.check(offsets)


def test_an_index_that_lacks_a_file_is_rebuilt(rig: Rig) -> None:
    """From where the log begins."""
    offsets = rig.append(15)
    checkpoint = marked(rig)
    rig.kill()
    for path in (rig.folder / "index").iterdir():
        path.unlink()
    assert reopen_marked(rig, checkpoint).records == 15
    rig.check(offsets)


def test_damage_before_the_synced_end_is_told_by_its_place(rig: Rig) -> None:
    """Two messages of one millisecond are not the same to the checkpoint."""
    offsets = rig.append(3)
    checkpoint = marked(rig)
    offsets += rig.append(3)
    marks = checkpoint.marks
    assert marks is not None
    safe = Checkpoint(marks=marks._replace(flushed=rig.log.max_offset))
    rig.segments.room[offsets[4] + 100] ^= 1
    rig.kill()
    with pytest.raises(CorruptStoreError, match="on the disk up to") as caught:
        reopen_marked(rig, safe)
    assert caught.value.offset == offsets[4]
    rig.kill()
    assert reopen_marked(rig, checkpoint).end == offsets[4]
    rig.check(offsets[:4])


def test_a_log_that_is_shorter_than_it_was_is_an_error(rig: Rig) -> None:
    """A file is missing at its end, or there is none at all: nothing is cleared for that."""
    rig.append(40)
    checkpoint = marked(rig)
    rig.kill()
    for path in sorted((rig.folder / "commitlog").iterdir(), reverse=True):
        path.unlink()
        with pytest.raises(CorruptStoreError, match="this file is missing") as caught:
            reopen_marked(rig, checkpoint)
        assert caught.value.path == path
        rig.kill()
    assert list((rig.folder / "consumequeue").rglob("0*"))


def test_it_is_known_whether_a_log_goes_on(rig: Rig) -> None:
    """A record or a blank, in a log that has that place."""
    offsets = rig.append(40)
    assert all(log_goes_on(rig.segments, offset) for offset in offsets)
    for offset in (offsets[3] + 5, rig.log.max_offset, 1 << 40, -1):
        assert not log_goes_on(rig.segments, offset), offset
    empty = Segments(Files(), rig.folder / "nothing", SEGMENT_BYTES)
    assert not log_goes_on(empty, 0)


# --- records that are not as they should be -------------------------------------------------------


def put(rig: Rig, topic: str, queue_offset: int, queue_id: int = 0) -> None:
    """Append a record and dispatch it nowhere, as if another broker had written it."""
    rig.log.append(Record(topic, b"body", queue_id=queue_id), queue_offset)


def units(rig: Rig, topic: str = "T") -> list[int]:
    """The numbers that the messages of a queue say they have."""
    queue = rig.queues.get(topic, 0)
    assert queue is not None
    found = [queue.unit(n) for n in range(queue.queue_offset_min, queue.queue_offset_max)]
    return [rig.log.record_at(unit.log_offset).queue_offset for unit in found if unit]


def test_a_record_without_a_legal_queue_is_left_in_the_log(rig: Rig) -> None:
    """No directory is made for it, and what follows it is not lost."""
    for topic, queue_id in (("../../x", 0), ("a/b", 0), ("", 0), ("T", -1)):
        put(rig, topic, 0, queue_id)
    put(rig, "T", 0)
    rig.kill()
    before = {path for path in rig.folder.parent.rglob("*") if "T" not in path.parts}
    recovered = rig.reopen()
    assert (recovered.records, recovered.without_queue) == (5, 4)
    assert units(rig) == [0]
    after = {path for path in rig.folder.parent.rglob("*") if "T" not in path.parts}
    assert after - before <= {rig.folder / "consumequeue"}


def test_a_topic_that_was_deleted_and_made_anew_has_its_new_messages(rig: Rig) -> None:
    """The old ones went with the old topic, though the log still has them."""
    for queue_offset in (0, 1, 2, 0, 1):
        put(rig, "T", queue_offset)
    rig.kill()
    recovered = rig.reopen()
    assert (recovered.records, recovered.restarted, recovered.misplaced) == (5, 1, 0)
    assert units(rig) == [0, 1]


def test_numbers_out_of_order_are_taken_as_java_takes_them(rig: Rig) -> None:
    """One that was given already is a repeat; after a gap the queue goes on without one."""
    for queue_offset in (5, 6, 6, 3, 9, -2):
        put(rig, "T", queue_offset)
    rig.kill()
    recovered = rig.reopen()
    assert (recovered.records, recovered.restarted, recovered.misplaced) == (6, 0, 4)
    assert units(rig) == [5, 6, 9]
    queue = rig.queues.get("T", 0)
    assert queue is not None
    assert (queue.queue_offset_min, queue.queue_offset_max) == (5, 8)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_poison_record_is_mended_and_costs_nothing(rig: Rig, is_clean: bool) -> None:
    """Flags that say IPv6 over IPv4, as Java stores them; all later messages are there."""
    put(rig, "T", 0)
    at = rig.log.max_offset
    data = poisoned(1)
    data = data[:12] + struct.pack(">iiqq", 0, 0, 1, at) + data[36:]
    rig.segments.room[at : at + len(data)] = data
    rig.segments.written += len(data)
    put(rig, "T", 2)
    rig.kill()
    recovered = rig.reopen(is_clean=is_clean)
    assert (recovered.records, recovered.repaired, recovered.cut_bytes) == (3, 1, 0)
    assert units(rig) == [0, 1, 2]
    assert rig.log.record_at(at).body == b"body"
