"""The torn last write (F6): whichever byte was the last to be written, all whole records are there.

The log is cut at every byte of its last three records, and of the blank at the end of a segment,
for five shapes of records. None of them was synced, so none was called safe.
"""

import pytest

from fault.small_store import SETTINGS, SHAPES, SmallStore, copy, cut
from roketto.store.dispatch import Stored, read_stored
from roketto.store.errors import CorruptStoreError
from roketto.store.logscan import LogScan
from roketto.store.record_check import check_record
from sim.files import CrashFiles

TORN = 3
"""How many records at the end are cut."""


def life(shape: str) -> tuple[SmallStore, CrashFiles]:
    """A store with some synced messages and three unsynced ones of a shape, killed."""
    rig = SmallStore().open()
    for number in range(4):
        rig.append("plain", number % 2)
    rig.sync()
    while len(rig.known) < 4 + TORN:
        rig.append(shape)
    image = rig.image()
    rig.close()
    return rig, image


def check_cut(rig: SmallStore, image: CrashFiles, log_offset: int) -> None:
    files = copy(image)
    cut(files, log_offset)
    whole = [message for message in rig.known if message.end <= log_offset]
    after = rig.reopen(files)
    try:
        after.check(whole)
    except BaseException as error:
        error.add_note(f"cut at {log_offset}")
        raise
    finally:
        after.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_at_every_byte_leaves_all_whole_records(shape: str) -> None:
    """Log, queues and index agree, nothing is raised, and the next message follows."""
    rig, image = life(shape)
    cuts = range(rig.known[-TORN].log_offset, rig.known[-1].end + 1)
    assert len(cuts) > TORN * 90, "three records are longer than that"
    for log_offset in cuts:
        check_cut(rig, image, log_offset)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_at_every_byte_of_the_blank_leaves_its_segment_whole(shape: str) -> None:
    """The end of a segment was being marked, and the first record of the next one written."""
    rig = SmallStore().open()
    rig.append()
    rig.sync()
    while rig.end < SETTINGS.segment_bytes:
        rig.append(shape)
    image = rig.image()
    rig.close()
    blank = max(it.end for it in rig.known if it.end < SETTINGS.segment_bytes)
    first = min(it.log_offset for it in rig.known if it.log_offset >= SETTINGS.segment_bytes)
    assert first == SETTINGS.segment_bytes
    for log_offset in [*range(blank, blank + 10), first, first + 1, first + 50]:
        check_cut(rig, image, log_offset)


def test_a_cut_before_the_synced_end_is_an_error_that_names_the_place() -> None:
    """What was called safe cannot be a torn write; nothing is cut off then."""
    rig = SmallStore().open()
    for _ in range(4):
        rig.append()
    rig.flush()
    image = rig.image()
    rig.close()
    for log_offset in range(rig.known[3].log_offset + 1, rig.known[3].end, 7):
        files = copy(image)
        cut(files, log_offset)
        with pytest.raises(CorruptStoreError, match="on the disk up to") as caught:
            rig.reopen(files)
        assert caught.value.offset == rig.known[3].log_offset


def test_taking_what_is_there_for_a_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a recovery that believes in sizes alone keeps half of a record."""
    rig, image = life("plain")

    def read_believing(
        scan: LogScan, segment: memoryview, at: int, log_offset: int, has_crc: bool
    ) -> Stored | None:
        size = check_record(segment, at, log_offset, check_body_crc=False)
        return read_stored(segment, at) if size else None

    monkeypatch.setattr(LogScan, "read", read_believing)
    with pytest.raises(AssertionError, match="queue 0 of T"):
        check_cut(rig, image, rig.known[-1].end - 1)
