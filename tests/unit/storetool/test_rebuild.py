"""Queues and index come back from the log as they were, and a damaged log is left alone."""

import shutil
import struct
from datetime import UTC
from pathlib import Path

import pytest

from roketto.clock import wall_ms
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.store.delay_levels import DelayLevels
from roketto.store.files import Files
from roketto.store.store import Store, StoreSettings
from roketto.storetool.directory import Options, StoreDirectory
from roketto.storetool.findings import Findings
from roketto.storetool.rebuild import CannotRebuildError, LogDamagedError, Part, Rebuild, Rebuilt
from unit.storetool import stores
from unit.storetool.stores import (
    COUNT,
    SEGMENT_BYTES,
    SETTINGS,
    Clock,
    check,
    fingerprint,
    index_path,
    make_store,
    patch,
    segment_path,
)


def rebuild(root: Path, part: Part = Part.BOTH, delays: str = "1s 5s") -> Rebuilt:
    store = StoreDirectory(root, Files(), wall_ms(), Options(), has_lock=True)
    try:
        work = Rebuild(store, part, DelayLevels(delays), wall_ms)
        work.verify(Findings())
        return work.run()
    finally:
        store.close()


def queue_files(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


def test_lost_queues_and_index_come_back_byte_for_byte(tmp_path: Path) -> None:
    """Slots and entries of the index, too; only its name is new."""
    make_store(tmp_path)
    queues, index = queue_files(tmp_path), index_path(tmp_path).read_bytes()
    done = rebuild(tmp_path)
    assert (done.messages, done.queues, done.entries) == (COUNT, 3, 3 * COUNT)
    assert queue_files(tmp_path) == queues
    assert index_path(tmp_path).read_bytes() == index
    assert not (tmp_path / "abort").exists()
    assert not check(tmp_path)[1].kept
    shutil.rmtree(tmp_path / "consumequeue")
    store = StoreDirectory(
        tmp_path, Files(), wall_ms(), Options(queue_file_bytes=400), has_lock=True
    )
    work = Rebuild(store, Part.QUEUES, DelayLevels(), wall_ms)
    work.verify(Findings())
    work.run()
    store.close()
    assert queue_files(tmp_path) == queues


def test_the_log_is_not_touched(tmp_path: Path) -> None:
    """Whatever happens to the rest."""
    make_store(tmp_path)
    before = fingerprint(tmp_path / "commitlog")
    rebuild(tmp_path)
    assert fingerprint(tmp_path / "commitlog") == before


def test_damaged_queues_and_index_are_right_afterwards(tmp_path: Path) -> None:
    """Whatever was done to them."""
    make_store(tmp_path)
    queues = queue_files(tmp_path)
    for path in (tmp_path / "consumequeue").rglob("*"):
        if path.is_file():
            patch(path, 60, b"\x7f" * 100)
    patch(index_path(tmp_path), 1_000, b"\x7f" * 1_000)
    assert check(tmp_path)[1].damages
    rebuild(tmp_path)
    assert queue_files(tmp_path) == queues
    assert not check(tmp_path)[1].kept


def test_the_rebuilt_store_opens_and_goes_on(tmp_path: Path) -> None:
    """With the next offsets, after a clean stop and after a crash."""
    make_store(tmp_path)
    for is_crashed in (False, True):
        if is_crashed:
            (tmp_path / "abort").write_bytes(b"1")
        rebuild(tmp_path)
        assert (tmp_path / "abort").exists() == is_crashed
        store = Store(tmp_path, SETTINGS, clock_ms=Clock(), zone=UTC)
        store.open(1)
        expected = COUNT // 3 + is_crashed
        assert store.append(stores.message(9_000 + is_crashed)).queue_offset == expected
        assert store.query("T", "key0", 9, 0, 1 << 60) == [0]
        store.close()
        assert not check(tmp_path)[1].kept


@pytest.mark.parametrize("part", [Part.QUEUES, Part.INDEX])
def test_one_of_the_two_is_left_as_it_is(tmp_path: Path, part: Part) -> None:
    """Names, times and contents."""
    make_store(tmp_path)
    other = tmp_path / ("index" if part is Part.QUEUES else "consumequeue")
    before = fingerprint(other)
    done = rebuild(tmp_path, part)
    assert fingerprint(other) == before
    assert bool(done.queues) == (part is Part.QUEUES)
    assert bool(done.entries) == (part is Part.INDEX)


def test_a_damaged_log_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    """In a body, in a whole record, behind the end."""
    sent = make_store(tmp_path)
    last = sent[-1]
    for log_offset, inside in ((sent[9].log_offset, 100), (sent[9].log_offset, 0),
                               (last.log_offset + last.size, 20)):  # fmt: skip
        root = tmp_path.with_name(f"{tmp_path.name}-{log_offset}-{inside}")
        shutil.copytree(tmp_path, root)
        path, at = segment_path(root, log_offset)
        patch(path, at + inside, b"\x55\x55\x55\x55\x55")
        before = fingerprint(root)
        store = StoreDirectory(root, Files(), wall_ms(), Options(), has_lock=True)
        findings = Findings()
        with pytest.raises(LogDamagedError, match="nothing was changed"):
            Rebuild(store, Part.BOTH, DelayLevels(), wall_ms).verify(findings)
        store.close()
        assert findings.kept[0].offset in (at, log_offset)
        assert fingerprint(root) == before


def test_queues_without_a_message_in_the_log_keep_their_offsets(tmp_path: Path) -> None:
    """All their messages were deleted by age; the next one must not get offset 0 again."""
    settings = StoreSettings(
        segment_bytes=SEGMENT_BYTES, queue_file_bytes=400, index_slots=101, index_entries=1_000
    )
    store = Store(tmp_path, settings, clock_ms=Clock(), zone=UTC)
    store.open(1)
    for number in range(5):
        store.append(stores.message(number, "Old"))
    stores.fill(store)
    store.close()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    done = rebuild(tmp_path)
    assert done.queues_kept == 1
    store = Store(tmp_path, settings, clock_ms=Clock(), zone=UTC)
    store.open(1)
    assert store.append(stores.message(7, "Old")).queue_offset == 5
    assert store.append(stores.message(8, "T", 0)).queue_offset == COUNT // 3
    store.close()
    assert check(tmp_path)[1].is_clean


def test_a_topic_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    """topics.json does not know it, and its directory is gone."""
    make_store(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "Other")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{}}}')
    done = rebuild(tmp_path)
    assert (done.left_out, done.queues) == (COUNT // 3, 2)
    assert not (tmp_path / "consumequeue" / "Other").exists()


def test_a_queue_that_began_anew_has_its_new_messages_only(tmp_path: Path) -> None:
    """Its topic was deleted and made again."""
    make_store(tmp_path)
    store = Store(tmp_path, SETTINGS, clock_ms=Clock(), zone=UTC)
    store.open(1)
    store.delete_topic("Other")
    for number in range(3):
        store.append(stores.message(2_000 + number, "Other"))
    store.close()
    queues = queue_files(tmp_path)
    rebuild(tmp_path)
    assert queue_files(tmp_path) == queues


def test_delayed_messages_are_due_when_they_were(tmp_path: Path) -> None:
    """Their units have a time where others have the hash of a tag."""
    delays = DelayLevels("1s 7s")
    store = Store(tmp_path, SETTINGS, clock_ms=Clock(), zone=UTC, delay_of_level=delays.delay_ms)
    store.open(1)
    record = stores.message(1, SCHEDULE_TOPIC, 1)
    record.properties_raw = encode_properties({"DELAY": "2", "KEYS": "k"})
    where = store.append(record)
    store.close()
    queues = queue_files(tmp_path)
    (due,) = struct.unpack_from(">q", next(iter(queues.values())), 12)
    assert due == where.store_time_ms + 7_000
    rebuild(tmp_path, delays="1s 7s")
    assert queue_files(tmp_path) == queues
    assert not check(tmp_path)[1].kept


def test_a_torn_end_is_left_to_the_next_start(tmp_path: Path) -> None:
    """It is no damage after a crash."""
    sent = make_store(tmp_path)
    last = sent[-1]
    path, at = segment_path(tmp_path, last.log_offset + last.size)
    patch(path, at, b"torn")
    (tmp_path / "abort").write_bytes(b"1")
    done = rebuild(tmp_path)
    assert done.torn_bytes == 4
    store = Store(tmp_path, SETTINGS, clock_ms=Clock(), zone=UTC)
    assert store.open(1).cut_bytes == 4
    store.close()
    assert not check(tmp_path)[1].kept


def test_queues_that_only_java_makes_are_refused(tmp_path: Path) -> None:
    """They would be lost."""
    make_store(tmp_path)
    (tmp_path / "consumequeue" / "%LMQ%x" / "0").mkdir(parents=True)
    with pytest.raises(CannotRebuildError, match="%LMQ%x"):
        rebuild(tmp_path)
    rebuild(tmp_path, Part.INDEX)
    (tmp_path / "consumequeue" / "%LMQ%x" / "0").rmdir()
    (tmp_path / "consumequeue" / "%LMQ%x").rmdir()
    (tmp_path / "batchconsumequeue" / "B").mkdir(parents=True)
    with pytest.raises(CannotRebuildError, match="batchconsumequeue"):
        rebuild(tmp_path)


def test_an_index_of_unknown_layout_is_refused(tmp_path: Path) -> None:
    """Files of another size would be useless to the broker."""
    make_store(tmp_path)
    patch(index_path(tmp_path), 0, b"\xff" * 40)
    with pytest.raises(CannotRebuildError, match="--index-slots"):
        rebuild(tmp_path)
