"""The bounds of queues and logs are found in files that are preallocated, removed from or cut."""

from pathlib import Path

import numpy as np

from roketto.spark.store_files import LogFiles, MappedFiles, QueueFiles, QueueTail
from unit.spark.store_maker import TIME_MS, UNIT, StoreMaker


def open_queue(maker: StoreMaker, queue_id: int = 0) -> tuple[QueueFiles, LogFiles]:
    maps = MappedFiles()
    folder = maker.root / "consumequeue" / "T" / str(queue_id)
    return QueueFiles(folder, maps), LogFiles(maker.root / "commitlog", maps)


def filled(folder: Path, count: int = 12, begin: int = 0) -> StoreMaker:
    maker = StoreMaker(folder, begin=begin)
    for number in range(count):
        maker.put("T", 0, b"%03d" % number)
    return maker


def test_queue_ends_before_the_zeros_of_a_preallocated_file(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    queue, log = open_queue(maker)
    assert queue.bounds(log) == (0, 12)
    assert [file.size for file in queue.files] == [100, 100, 100]
    maker.write_unit("T", 0, 17, bytes(20))  # a file made in advance
    assert open_queue(maker)[0].bounds(log) == (0, 12)


def test_queue_that_ends_with_its_file_is_whole(tmp_path: Path) -> None:
    queue, log = open_queue(filled(tmp_path, 10))
    assert queue.bounds(log) == (0, 10)
    assert len(queue.units(8, 12)) == 2
    assert len(queue.units(10, 12)) == 0


def test_units_of_a_file_end_where_those_of_the_tail_begin(tmp_path: Path) -> None:
    """The rest of that file is filled with zeros until the broker writes them."""
    maker = filled(tmp_path, 12)
    raw = UNIT.pack(900, 91, 0) + UNIT.pack(991, 91, 0)
    queue, _ = open_queue(maker)
    queue.tail = QueueTail(12, raw)
    assert queue.units(10, 14)["log_offset"].tolist() == queue.units(10, 12)["log_offset"].tolist()
    assert queue.units(12, 14)["log_offset"].tolist() == [900, 991]
    assert all(queue.units(10, 14)["size"] > 0)


def test_queue_begins_behind_blanks_and_behind_what_the_log_has_lost(tmp_path: Path) -> None:
    maker = StoreMaker(tmp_path / "blanks")
    maker.skip("T", 0, 7)
    for _ in range(12):
        maker.put("T", 0, b"x" * 50)
    queue, log = open_queue(maker)
    assert queue.bounds(log) == (7, 19)
    maker.log_file(0).unlink()
    queue, log = open_queue(maker)
    begin, end = queue.bounds(log)
    assert end == 19
    assert queue.log_offset(begin) == 1_000
    assert queue.log_offset(begin - 1) < 1_000


def test_queue_of_which_the_log_has_nothing_is_empty(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    for file in (tmp_path / "commitlog").iterdir():
        file.unlink()
    (tmp_path / "commitlog" / f"{50_000:020d}").write_bytes(bytes(1_000))
    queue, log = open_queue(maker)
    assert queue.bounds(log) == (12, 12)
    assert QueueFiles(tmp_path / "consumequeue" / "T" / "9", MappedFiles()).bounds(log) == (0, 0)


def test_units_copied_after_the_log_are_left_out(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    cut = maker.log_end
    for number in range(4):
        maker.put("T", 0, b"later %d" % number)
    maker.write_log(cut, bytes(maker.log_end - cut))  # the log as it was before
    queue, log = open_queue(maker)
    assert queue.bounds(log) == (0, 12)


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    for name in ("lock", "00000000000000000100.tmp", "0" * 19, "x" * 20):
        (tmp_path / "commitlog" / name).write_bytes(b"something")
    (tmp_path / "commitlog" / "00000000000000090000").touch()
    log = open_queue(maker)[1]
    assert [file.begin for file in log.files] == [0, 1_000]
    assert log.locate(1_999) == log.files[1]
    assert log.locate(2_000) is None


def test_unit_counts_only_with_a_record_that_says_the_same(tmp_path: Path) -> None:
    maker = filled(tmp_path, 3)
    queue, log = open_queue(maker)
    file = log.files[0]
    view = log.view(file)
    assert view is not None
    units = queue.units(0, 3).copy()
    offsets = np.arange(3)
    assert queue.are_stored(view, file, units, offsets).all()
    assert not queue.are_stored(view, file, units, offsets + 1).any()
    other_queue = QueueFiles(tmp_path / "consumequeue" / "T" / "1", MappedFiles())
    assert not other_queue.are_stored(view, file, units, offsets).any()
    units["size"][0] += 1
    units["log_offset"][1] = 10**9
    units["log_offset"][2] = -1
    assert not queue.are_stored(view, file, units, offsets).any()


def test_log_tells_times_and_its_end(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    log = open_queue(maker)[1]
    assert log.store_time_ms(0) == TIME_MS
    assert log.store_time_ms(1) is None
    assert log.store_time_ms(maker.log_end) is None
    assert log.find_end(log.files[-1]) == maker.log_end
    full = log.find_end(log.files[0])
    assert full < 1_000
    assert log.ends_properly(log.files[0], full)
    assert not log.ends_properly(log.files[1], maker.log_end)


def test_file_removed_since_is_gone_and_no_error(tmp_path: Path) -> None:
    maker = filled(tmp_path)
    queue, log = open_queue(maker)
    maker.log_file(0).unlink()
    (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").unlink()
    assert log.view(log.files[0]) is None
    assert log.store_time_ms(0) is None
    assert len(queue.units(0, 5)) == 0
    assert len(queue.units(5, 10)) == 5


def test_maps_are_bounded_and_found_again(tmp_path: Path) -> None:
    maps = MappedFiles()
    paths = [tmp_path / str(number) for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(UNIT.pack(number, 1, 1))
    views = [maps.view(path) for path in paths]
    assert maps.view(paths[-1]) is views[-1]
    assert maps.view(paths[0]) is not views[0]
    assert bytes(views[0]) == bytes(maps.view(paths[0]))
