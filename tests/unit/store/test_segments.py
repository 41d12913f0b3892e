"""Proves that a run of segments loads, grows, reads, syncs, truncates and shrinks as it should."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roketto.store import segments as segments_module
from roketto.store.errors import (
    CorruptStoreError,
    DiskFullError,
    FileSizeError,
    StoreError,
    StoreReadOnlyError,
)
from roketto.store.files import Files, MappedFile
from roketto.store.segment import Segment, segment_name
from roketto.store.segments import OutsideLogError, Segments
from roketto.store.worker import Worker
from sim.worker import InlineWorker

SIZE = 4_096


class FullDisk(Files):
    """A disk that has room for no new file once it is ``full``."""

    full = False

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        if self.full:
            raise DiskFullError(f"no room for {path}")
        return super().create_mapped(path, size)


@pytest.fixture
def open_run(tmp_path: Path) -> Iterator[Callable[..., Segments]]:
    opened: list[Segments] = []

    def open_it(
        *, files: Files | None = None, writable: bool = True, margin: int = 8, maps: int = 64
    ) -> Segments:
        segments = Segments(files or Files(), tmp_path / "log", SIZE, margin, maps)
        opened.append(segments)
        segments.load(writable=writable)
        return segments

    yield open_it
    for segments in opened:
        segments.close()


def fill(segments: Segments, count: int) -> None:
    """Append ``count`` full segments, each of its own byte value."""
    for number in range(count):
        segments.append_bytes(bytes((number + 1,)) * SIZE)


def put_files(tmp_path: Path, *starts: int, size: int = SIZE) -> Path:
    directory = tmp_path / "log"
    directory.mkdir()
    for start in starts:
        (directory / segment_name(start)).write_bytes(bytes(size))
    return directory


def names(segments: Segments) -> list[str]:
    return sorted(path.name for path in segments.directory.iterdir())


# --- loading --------------------------------------------------------------------------------------


def test_an_empty_directory_is_made_and_starts_at_zero(open_run: Callable[..., Segments]) -> None:
    """A new store has no files until something is appended."""
    segments = open_run()
    assert names(segments) == []
    assert (len(segments), segments.min_offset, segments.written, segments.flushed) == (0, 0, 0, 0)
    assert len(segments.room) == 0


def test_reading_a_missing_directory_does_not_make_it(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Looking at a store changes nothing."""
    assert len(open_run(writable=False)) == 0
    assert not (tmp_path / "log").exists()


def test_files_are_sorted_and_directories_ignored(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Both marks stand at the end until recovery has looked."""
    (put_files(tmp_path, 3 * SIZE, 2 * SIZE) / "compacting").mkdir()
    segments = open_run()
    assert [segments[index].start for index in range(len(segments))] == [2 * SIZE, 3 * SIZE]
    assert (segments.min_offset, segments.written, segments.flushed) == (
        2 * SIZE,
        4 * SIZE,
        4 * SIZE,
    )


@pytest.mark.parametrize("writable", [True, False])
def test_an_empty_last_file_is_left_out(
    open_run: Callable[..., Segments], tmp_path: Path, writable: bool
) -> None:
    """It is what a crash leaves of a creation; only a writer removes it."""
    directory = put_files(tmp_path, 0)
    (directory / segment_name(SIZE)).touch()
    segments = open_run(writable=writable)
    assert len(segments) == 1
    assert (directory / segment_name(SIZE)).exists() is not writable


def test_an_empty_file_elsewhere_is_an_error(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Only the last one can be an unfinished creation."""
    directory = put_files(tmp_path, SIZE)
    (directory / segment_name(0)).touch()
    with pytest.raises(FileSizeError, match="has 0 bytes"):
        open_run()


def test_a_wrong_length_is_an_error_that_names_file_sizes_and_remedy(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """The usual cause is another configured size."""
    directory = put_files(tmp_path, 0, size=1_000)
    with pytest.raises(FileSizeError) as caught:
        open_run()
    for part in (str(directory / segment_name(0)), "1000", str(SIZE), "configure the size"):
        assert part in str(caught.value)


def test_a_name_that_is_no_multiple_of_the_size_is_an_error(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Offsets could not be found in it."""
    put_files(tmp_path, 100)
    with pytest.raises(FileSizeError, match="multiple"):
        open_run()


def test_a_gap_is_an_error_that_names_both_files(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Somebody has lost a file; what to do about it is not ours to guess."""
    directory = put_files(tmp_path, 0, 2 * SIZE)
    with pytest.raises(CorruptStoreError) as caught:
        open_run()
    for start in (0, SIZE, 2 * SIZE):
        assert segment_name(start) in str(caught.value)
    assert caught.value.path == directory / segment_name(0)


def test_a_foreign_file_is_an_error(open_run: Callable[..., Segments], tmp_path: Path) -> None:
    """It is not silently taken for a segment."""
    (put_files(tmp_path) / "notes.txt").touch()
    with pytest.raises(StoreError, match=r"notes\.txt"):
        open_run()


# --- writing --------------------------------------------------------------------------------------


def test_the_first_roll_makes_room_without_the_margin(open_run: Callable[..., Segments]) -> None:
    """The margin is the owner's to end the segment with."""
    segments = open_run(margin=8)
    segments.roll()
    assert (len(segments.room), segments.room_start, segments.written) == (SIZE - 8, 0, 0)
    assert names(segments) == [segment_name(0)]


def test_a_roll_ends_the_segment_and_begins_the_next(open_run: Callable[..., Segments]) -> None:
    """The ending stands where the content ended."""
    segments = open_run()
    segments.roll()
    segments.append_bytes(b"x" * 100)
    segments.roll(b"THE END.")
    assert (segments.written, segments.room_start) == (SIZE, SIZE)
    assert bytes(segments.read(100, 9)) == b"THE END.\0"


def test_bytes_are_appended_over_the_ends_of_segments(open_run: Callable[..., Segments]) -> None:
    """A master's bytes are taken as they come, margins included."""
    segments = open_run()
    data = bytes(range(256)) * 40
    segments.append_bytes(data[:100])
    segments.append_bytes(memoryview(data)[100:])
    assert segments.written == len(data)
    assert len(segments) == 3
    got = b"".join(
        bytes(segments.read(at, min(SIZE, len(data) - at))) for at in range(0, len(data), SIZE)
    )
    assert got == data


def test_a_full_disk_leaves_everything_as_it_was(open_run: Callable[..., Segments]) -> None:
    """No ending is written when there is no next segment."""
    files = FullDisk()
    segments = open_run(files=files)
    segments.append_bytes(b"x" * 100)
    files.full = True
    with pytest.raises(DiskFullError):
        segments.roll(b"THE END.")
    assert (segments.written, len(segments)) == (100, 1)
    assert bytes(segments.view(segments[0])[100:108]) == bytes(8)
    files.full = False
    segments.roll(b"THE END.")
    assert segments.written == SIZE


def prepared(open_run: Callable[..., Segments], files: Files | None = None) -> Segments:
    """A run whose only segment is half full, and whose next one is made."""
    segments = open_run(files=files)
    segments.append_bytes(b"x" * (SIZE // 2))
    segments.prepare_ahead(InlineWorker())
    return segments


def test_the_next_segment_is_made_when_half_of_the_last_is_used(
    open_run: Callable[..., Segments],
) -> None:
    """Once; it is used when there is no more room, and nobody makes a second one then."""
    files = FullDisk()
    segments = open_run(files=files)
    worker = InlineWorker()
    segments.prepare_ahead(worker)
    segments.append_bytes(b"x" * (SIZE // 2 - 1))
    segments.prepare_ahead(worker)
    assert len(names(segments)) == 1
    segments.append_bytes(b"x")
    segments.prepare_ahead(worker)
    assert names(segments) == [segment_name(0), segment_name(SIZE)]
    assert len(segments) == 1
    files.full = True
    for _ in range(3):
        segments.prepare_ahead(worker)
    segments.roll()
    assert (len(segments), segments.written) == (2, SIZE)


def test_a_thread_makes_the_next_segment(open_run: Callable[..., Segments]) -> None:
    """The run takes it at the next occasion, or when it is needed."""
    segments = open_run()
    worker = Worker()
    worker.start()
    for number in range(4):
        segments.append_bytes(b"x" * (SIZE // 2))
        segments.prepare_ahead(worker)
        assert worker.wait_idle(10)
        if number % 2:
            segments.prepare_ahead(worker)
        segments.append_bytes(b"y" * (SIZE // 2))
    assert worker.stop()
    assert len(segments) == 4


def test_a_segment_that_nobody_has_begun_to_make_is_made_at_once(
    open_run: Callable[..., Segments],
) -> None:
    """The worker has other things to do, and an append does not wait for those."""
    segments = open_run()
    worker = Worker()  # never started
    segments.append_bytes(b"x" * SIZE)
    segments.prepare_ahead(worker)
    segments.prepare_ahead(worker)
    segments.append_bytes(b"y")
    assert len(segments) == 2
    assert segments._preparing is None


def test_a_segment_that_is_being_made_is_waited_for_but_not_for_ever(
    open_run: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's five seconds, once: after that an append is refused until it is there."""
    waits: list[float] = []

    def no_wait(jobs: list[Future[Segment]], timeout: float) -> object:
        waits.append(timeout)
        return wait(jobs, 0)

    monkeypatch.setattr("roketto.store.segments.wait", no_wait)
    segments = open_run()
    segments.append_bytes(b"x" * SIZE)
    making: Future[Segment] = Future()
    making.set_running_or_notify_cancel()
    segments._preparing = making
    for _ in range(2):
        with pytest.raises(StoreError, match="is not there after 5 s: look at the disk"):
            segments.roll()
    assert waits == [5.0, 0.0]
    assert len(segments) == 1
    making.set_result(segments._create(SIZE))
    segments.append_bytes(b"y")
    assert len(segments) == 2


@pytest.mark.parametrize("error", [DiskFullError("no room"), OSError(5, "broken")])
def test_a_segment_that_could_not_be_made_ahead_is_tried_again_when_it_is_needed(
    open_run: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Not before, lest a full disk be filled again and again."""
    tries = []

    def fail(*arguments: object) -> None:
        tries.append(arguments)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Files, "create_mapped", fail)
        segments = open_run()
        with pytest.raises(type(error)):
            segments.append_bytes(b"x")
    segments.append_bytes(b"x" * SIZE)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "create_mapped", fail)
        for _ in range(5):
            segments.prepare_ahead(InlineWorker())
        assert len(tries) == 2
        with pytest.raises(type(error)):
            segments.roll()
    segments.append_bytes(b"y" * SIZE)
    segments.prepare_ahead(InlineWorker())
    assert len(names(segments)) == 3


def test_an_unused_prepared_segment_is_removed_at_the_end(
    open_run: Callable[..., Segments],
) -> None:
    """As Java does; else it would be one more file to look through at the start."""
    segments = prepared(open_run)
    assert len(names(segments)) == 2
    segments.close()
    assert names(segments) == [segment_name(0)]


def test_a_segment_made_while_the_run_was_closed_is_removed_if_it_is_there(
    open_run: Callable[..., Segments],
) -> None:
    """One that is still being made is left; the next start removes it."""
    segments = prepared(open_run)
    assert segments._preparing is not None  # nobody has looked since
    segments.close()
    assert names(segments) == [segment_name(0)]
    again = open_run()
    again._preparing = Future()
    again.close()
    assert again._preparing is None


def test_a_run_for_readers_prepares_nothing(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Nor does one that has no segment yet."""
    open_run().prepare_ahead(InlineWorker())
    (tmp_path / "log" / segment_name(0)).write_bytes(bytes(SIZE))
    segments = open_run(writable=False)
    segments.prepare_ahead(InlineWorker())
    assert names(segments) == [segment_name(0)]


def test_nothing_is_written_to_what_is_open_for_reading(
    open_run: Callable[..., Segments], tmp_path: Path
) -> None:
    """Neither in a run that was opened so, nor in a closed one."""
    put_files(tmp_path, 0)
    segments = open_run(writable=False)
    segments.set_positions(100, 100)
    assert len(segments.room) == 0
    closed = open_run()
    closed.close()
    for run in (segments, closed):
        for change in (
            run.roll,
            lambda run=run: run.append_bytes(b"x"),
            lambda run=run: run.truncate(0),
            lambda run=run: run.remove_first(0),
        ):
            with pytest.raises(StoreReadOnlyError, match="reading only"):
                change()


# --- positions ------------------------------------------------------------------------------------


def test_a_run_goes_on_where_recovery_says(open_run: Callable[..., Segments]) -> None:
    """A read-only map of that segment, from the scan, is replaced by one to write to."""
    segments = open_run()
    segments.append_bytes(b"a" * (SIZE + 100))
    segments.close()
    again = open_run()
    assert again.view(again[1]).readonly
    again.set_positions(SIZE + 100, SIZE)
    assert (again.written, again.flushed, again.room_start) == (SIZE + 100, SIZE, SIZE)
    again.room[100:103] = b"bcd"
    again.written += 3
    assert bytes(again.read(SIZE + 99, 4)) == b"abcd"


def test_a_run_can_go_on_behind_its_last_segment(open_run: Callable[..., Segments]) -> None:
    """The last one was ended, and the crash came before the next."""
    segments = open_run()
    fill(segments, 1)
    segments.close()
    again = open_run()
    again.set_positions(SIZE, SIZE)
    assert len(again.room) == 0
    again.append_bytes(b"x")
    assert (len(again), again.written) == (2, SIZE + 1)


def test_what_is_not_flushed_can_be_synced_after_recovery(
    open_run: Callable[..., Segments],
) -> None:
    """Sync runs in another thread and maps nothing itself."""
    segments = open_run()
    fill(segments, 3)
    segments.close()
    again = open_run()
    again.set_positions(3 * SIZE, SIZE)
    assert again[0].mapped is None
    again.sync(SIZE, 3 * SIZE)
    again.mark_flushed(3 * SIZE)
    assert again.flushed == 3 * SIZE


def test_an_empty_run_can_be_positioned_and_started_anywhere(
    open_run: Callable[..., Segments],
) -> None:
    """A slave begins where its master's log begins."""
    segments = open_run()
    segments.set_positions(0, 0)
    segments.start_at(5 * SIZE)
    assert (segments.min_offset, segments.written, segments.flushed) == (
        5 * SIZE,
        5 * SIZE,
        5 * SIZE,
    )
    segments.append_bytes(b"x")
    assert names(segments) == [segment_name(5 * SIZE)]


def test_only_an_empty_run_starts_elsewhere_and_only_at_a_multiple(
    open_run: Callable[..., Segments],
) -> None:
    """Anything else would leave a gap."""
    segments = open_run()
    for offset in (100, -SIZE):
        with pytest.raises(StoreError, match=f"cannot begin at {offset}"):
            segments.start_at(offset)
    segments.roll()
    with pytest.raises(StoreError, match="it has 1 files"):
        segments.start_at(SIZE)


def test_the_flushed_mark_never_goes_back_nor_ahead(open_run: Callable[..., Segments]) -> None:
    """Beyond what was written it would be a bug."""
    segments = open_run()
    segments.append_bytes(b"x" * 10)
    segments.mark_flushed(7)
    segments.mark_flushed(3)
    assert segments.flushed == 7
    with pytest.raises(AssertionError):
        segments.mark_flushed(11)


def test_sync_touches_exactly_the_segments_of_the_range(
    open_run: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fdatasync per segment that has unsynced bytes, which is told where they are."""
    segments = open_run()
    fill(segments, 4)
    synced: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        MappedFile, "sync", lambda mapped, *span: synced.append((mapped.path.name, *span))
    )
    segments.sync(SIZE + 3, 2 * SIZE + 1)
    assert synced == [(segment_name(SIZE), 3, SIZE), (segment_name(2 * SIZE), 0, 1)]


# --- truncating and removing ----------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, SIZE - 1, SIZE, SIZE + 7, 2 * SIZE, 3 * SIZE])
def test_truncation_drops_files_and_wipes_the_rest(
    open_run: Callable[..., Segments], offset: int
) -> None:
    """Nothing behind the cut can be found again, and appending goes on there."""
    segments = open_run()
    fill(segments, 3)
    segments.mark_flushed(SIZE + 5)
    segments.truncate(offset)
    assert (segments.written, segments.flushed) == (offset, min(offset, SIZE + 5))
    kept = b"".join((segments.directory / name).read_bytes() for name in names(segments))
    expected = b"".join(bytes((number + 1,)) * SIZE for number in range(3))[:offset]
    assert kept == expected.ljust(len(kept), b"\0")
    assert len(kept) == min(3, offset // SIZE + 1) * SIZE
    segments.append_bytes(b"new")
    assert bytes(segments.read(offset, 1)) == b"n"


def test_truncating_nothing_is_harmless(open_run: Callable[..., Segments]) -> None:
    """An empty store recovers, too."""
    segments = open_run()
    segments.truncate(0)
    assert segments.written == 0


def test_the_oldest_segments_are_removed(open_run: Callable[..., Segments]) -> None:
    """What lay in them is outside now; a view that a reader holds stays good."""
    segments = open_run()
    fill(segments, 4)
    segments.mark_flushed(4 * SIZE)
    held = segments.read(0, 3)
    segments.remove_first(2)
    assert names(segments) == [segment_name(2 * SIZE), segment_name(3 * SIZE)]
    assert segments.min_offset == 2 * SIZE
    assert bytes(held) == b"\1\1\1"
    with pytest.raises(OutsideLogError):
        segments.read(0, 3)
    assert bytes(segments.read(2 * SIZE, 1)) == b"\3"


def test_removing_the_files_can_be_left_to_somebody_else(open_run: Callable[..., Segments]) -> None:
    """The run forgets them at once; the paths come oldest first."""
    segments = open_run()
    fill(segments, 3)
    segments.mark_flushed(3 * SIZE)
    left: list[Path] = []
    segments.remove_first(2, left.append)
    assert [path.name for path in left] == [segment_name(0), segment_name(SIZE)]
    assert len(names(segments)) == 3
    assert segments.min_offset == 2 * SIZE


def test_neither_the_last_nor_an_unflushed_segment_is_removed(
    open_run: Callable[..., Segments],
) -> None:
    """The first is in use, and a sync may be in the second."""
    segments = open_run()
    fill(segments, 2)
    with pytest.raises(AssertionError, match="not flushed"):
        segments.remove_first(1)
    segments.mark_flushed(2 * SIZE)
    with pytest.raises(AssertionError):
        segments.remove_first(2)


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "size"),
    [(-1, 1), (SIZE - 1, 1), (SIZE, -1), (3 * SIZE, 1), (2 * SIZE - 1, 2), (3 * SIZE - 1, 2)],
)
def test_bytes_outside_or_over_an_end_are_not_read(
    open_run: Callable[..., Segments], offset: int, size: int
) -> None:
    """The error says what is there."""
    segments = open_run()
    fill(segments, 3)
    segments.mark_flushed(3 * SIZE)
    segments.remove_first(1)
    with pytest.raises(OutsideLogError, match=f"it holds {SIZE} to {3 * SIZE}"):
        segments.read(offset, size)


def test_the_segment_of_an_offset_is_found(open_run: Callable[..., Segments]) -> None:
    """At both ends of each."""
    segments = open_run()
    fill(segments, 3)
    for index in range(3):
        assert segments.find(index * SIZE) is segments[index]
        assert segments.find(index * SIZE + SIZE - 1) is segments[index]
    with pytest.raises(OutsideLogError):
        segments.find(3 * SIZE)


def test_maps_are_bounded_and_the_least_recently_used_goes(
    open_run: Callable[..., Segments],
) -> None:
    """A reader that comes back finds it mapped again; views of it were good all along."""
    segments = open_run(maps=3)
    fill(segments, 4)
    segments.mark_flushed(4 * SIZE)
    held = segments.view(segments[0])
    segments.read(SIZE, 1)
    segments.read(0, 1)
    segments.read(2 * SIZE, 1)
    assert [segments[index].mapped is not None for index in range(4)] == [True, False, True, True]
    segments.read(SIZE, 1)
    assert segments[0].mapped is None
    assert bytes(held[:1]) == b"\1"


def test_unflushed_segments_stay_mapped_beyond_the_bound(
    open_run: Callable[..., Segments],
) -> None:
    """The flushing thread may be in them, and a failed write is told only to who has them open."""
    segments = open_run(maps=1)
    fill(segments, 3)
    assert all(segments[index].mapped for index in range(3))
    segments.mark_flushed(SIZE)
    segments.read(0, 1)
    assert all(segments[index].mapped for index in range(3))
    segments.mark_flushed(3 * SIZE)
    segments.read(SIZE, 1)
    assert [segments[index].mapped is not None for index in range(3)] == [False, True, True]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "flush", "truncate", "remove", "reopen"]), st.floats(0, 1)
        ),
        max_size=20,
    )
)
def test_any_sequence_keeps_the_bytes_of_a_plain_buffer(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float]]
) -> None:
    """The run is a row of bytes whose beginning and end may be cut."""
    directory = tmp_path_factory.mktemp("run")
    segments = Segments(Files(), directory, SIZE, maps_max=2)
    segments.load()
    model = bytearray()
    for number, (step, share) in enumerate(steps):
        if step == "append":
            data = bytes((number + 1,)) * int(share * 3 * SIZE)
            segments.append_bytes(data)
            model += data
        elif step == "flush":
            segments.sync(segments.flushed, segments.written)
            segments.mark_flushed(segments.written)
        elif step == "truncate":
            segments.truncate(
                segments.min_offset + int(share * (segments.written - segments.min_offset))
            )
            del model[segments.written :]
        elif step == "remove":
            whole = min(len(segments) - 1, (segments.flushed - segments.min_offset) // SIZE)
            segments.remove_first(max(0, int(share * whole)))
        else:
            written, start = segments.written, segments.min_offset
            segments.close()
            segments.load()
            if not len(segments):
                segments.start_at(start)
            segments.set_positions(written, written)
        for at in range(segments.min_offset, segments.written, SIZE):
            size = min(SIZE, segments.written - at)
            assert segments.read(at, size) == model[at : at + size]
    assert segments.written == len(model)
    segments.close()


# --- for recovery ---------------------------------------------------------------------------------


def test_bytes_can_be_written_over_anywhere(open_run: Callable[..., Segments]) -> None:
    """In a segment that was mapped for reading only, too."""
    segments = open_run()
    fill(segments, 3)
    segments.close()
    again = open_run()
    assert bytes(again.view(again[1])[:3]) == b"\x02\x02\x02"
    again.patch(SIZE + 1, b"XY")
    assert bytes(again.view(again[1])[:4]) == b"\x02XY\x02"
    again.close()
    with pytest.raises(StoreReadOnlyError):
        again.patch(0, b"X")


def test_a_part_of_the_run_is_written_again_segment_by_segment(
    open_run: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        MappedFile,
        "write_again",
        lambda self, start, end: written.append((int(self.path.name) // SIZE, start, end)),
    )
    segments = open_run()
    fill(segments, 3)
    segments.write_again(SIZE - 10, 2 * SIZE + 5)
    assert written == [(0, SIZE - 10, SIZE), (1, 0, SIZE), (2, 0, 5)]


def test_the_content_ends_with_its_last_byte_that_is_not_zero(
    open_run: Callable[..., Segments], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the system knows where there is nothing, or all of it has to be read."""
    segments = open_run()
    segments.roll()
    segment = segments[0]
    assert segments.content_end(segment, 10) == 10
    segments.room[100:103] = b"abc"
    assert segments.content_end(segment, 0) == 103
    assert segments.content_end(segment, 101) == 103
    assert segments.content_end(segment, 103) == 103
    monkeypatch.setattr(segments_module, "_WIPE_BYTES", 64)
    monkeypatch.setattr(segments_module, "_ZEROS", bytes(64))
    monkeypatch.setattr(MappedFile, "data_spans", lambda _, start: [(start, SIZE)])
    assert segments.content_end(segment, 0) == 103
    assert segments.content_end(segment, 200) == 200


# --- looking ahead --------------------------------------------------------------------------------


STEP = 256
AHEAD = 1_024


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What the system was asked to have in memory: file, begin and end."""
    asked: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        MappedFile, "expect", lambda self, *span: asked.append((self.path.name[-4:], *span))
    )
    return asked


def test_pages_are_asked_for_before_they_are_written_to(
    open_run: Callable[..., Segments], expected: list[tuple[str, int, int]]
) -> None:
    """Each once, so far ahead, up to the end of the segment and in the next one."""
    segments = open_run()
    segments.look_ahead(InlineWorker(), STEP, AHEAD)
    assert not expected, "there is nothing to write to yet"
    segments.roll()
    assert len(segments.room) == STEP
    assert expected == [("0000", 0, STEP + AHEAD)]
    expected.clear()
    seen = [len(segments.room)]
    while segments.widen(100):
        segments.written += 100
        seen.append(len(segments.room))
    assert sorted(set(seen)) == [*range(STEP, SIZE, STEP), SIZE - 8]
    assert expected == [
        ("0000", start + AHEAD, start + AHEAD + STEP) for start in range(STEP, SIZE - AHEAD, STEP)
    ]
    assert segments.widen(SIZE - 8 - segments.written)
    assert not segments.widen(SIZE - 8 - segments.written + 1)
    expected.clear()
    segments.roll(b"ending")
    assert expected == [("4096", 0, STEP + AHEAD)]


def test_looking_ahead_begins_where_the_run_is(
    open_run: Callable[..., Segments], expected: list[tuple[str, int, int]]
) -> None:
    """That of a run in use, whose room then ends with a step; nothing is asked for twice."""
    segments = open_run()
    segments.append_bytes(bytes(1_000))
    assert len(segments.room) == SIZE - 8
    assert segments.widen(2_000)
    assert not expected
    segments.look_ahead(InlineWorker(), STEP, AHEAD)
    assert len(segments.room) == 1_024
    assert expected == [("0000", 1_000, 1_024 + AHEAD)]
    assert segments.widen(3_000), "more than a step at once"
    assert len(segments.room) == SIZE - 8
    assert segments.widen(3_050)
    assert expected[1:] == [("0000", 1_024 + AHEAD, SIZE)]


def test_a_run_that_is_opened_again_asks_nobody_who_has_ended(
    open_run: Callable[..., Segments], expected: list[tuple[str, int, int]]
) -> None:
    """Until it is told whom to ask; then from where it is."""
    segments = open_run()
    worker = Worker()
    worker.start()
    segments.look_ahead(worker, STEP, AHEAD)
    segments.roll()
    assert worker.stop()
    segments.close()
    expected.clear()
    segments.load()
    segments.set_positions(2_000, 0)
    assert len(segments.room) == SIZE - 8
    assert not expected
    segments.look_ahead(InlineWorker(), STEP, AHEAD)
    assert expected == [("0000", 2_000, 2_048 + AHEAD)]
