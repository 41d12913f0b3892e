"""The torn last write (F6): whichever byte was the last to be written, all whole records are there.

The log is cut at every byte of its last three records, and of the blank at the end of a segment,
for five shapes of records. None of them was synced, so none was called safe.

Without the CRC property, as Java writes its records, only the body has a checksum: one record that
is torn behind its body may stay.
"""

from dataclasses import replace

import pytest

from fault.small_store import SETTINGS, SHAPES, Known, SmallStore, copy, cut, segment_path
from roketto.protocol.errors import RecordError
from roketto.protocol.record import decode_record
from roketto.protocol.record_layout import MAGIC_V1, peek_queue_offset
from roketto.store.dispatch import Stored, read_stored
from roketto.store.errors import CorruptStoreError
from roketto.store.logscan import LogScan
from roketto.store.record_check import BLANK, check_record
from roketto.store.settings import StoreSettings
from sim.files import CrashFiles

WITHOUT_CRC = replace(SETTINGS, append_crc=False)
TORN = 3
"""How many records at the end are cut."""


def life(shape: str, settings: StoreSettings = SETTINGS) -> tuple[SmallStore, CrashFiles]:
    """A store with some synced messages and three unsynced ones of a shape, killed."""
    rig = SmallStore(settings=settings).open()
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


def body_end(image: CrashFiles, message: Known) -> int:
    """Where the body of a message ends in the log."""
    at = message.log_offset % SETTINGS.segment_bytes
    data = image.read_at(segment_path(message.log_offset), at, message.size)
    record = decode_record(memoryview(data))
    lengths_bytes = 1 + 2
    tail_bytes = lengths_bytes + len(record.topic.encode()) + len(record.properties_raw)
    return message.end - tail_bytes


def check_cut_without_crc(rig: SmallStore, image: CrashFiles, log_offset: int) -> bool:
    """Whether the record stayed that the cut has torn."""
    files = copy(image)
    cut(files, log_offset)
    whole = [message for message in rig.known if message.end <= log_offset]
    torn = rig.known[len(whole)] if len(whole) < len(rig.known) else None
    after = rig.reopen(files)
    try:
        if torn is None or after.end < torn.end:
            after.check(whole)
            return False
        assert log_offset > body_end(image, torn), "a record without its whole body was kept"
        after.check(whole, torn)
    except BaseException as error:
        error.add_note(f"cut at {log_offset}")
        raise
    finally:
        after.close()
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_without_the_crc_property_one_record_may_stay_that_has_its_body(shape: str) -> None:
    """At every byte of the last record: all whole ones are there, and more can follow."""
    rig, image = life(shape, WITHOUT_CRC)
    cuts = range(rig.known[-1].log_offset, rig.known[-1].end + 1)
    stayed = sum(check_cut_without_crc(rig, image, log_offset) for log_offset in cuts)
    assert stayed < len(cuts) // 2, "a record was kept whose body was not there"
    assert stayed > 0, "there is nothing that the CRC property would be needed for"


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


def test_without_the_crc_property_believing_in_sizes_is_noticed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted bug: whatever begins like a record is one."""
    rig, image = life("plain", WITHOUT_CRC)

    def read_believing(
        scan: LogScan, segment: memoryview, at: int, log_offset: int, has_crc: bool
    ) -> Stored | None:
        size, magic = BLANK.unpack_from(segment, at)
        if magic != MAGIC_V1:
            raise RecordError("there is none")
        offset = peek_queue_offset(segment, at)
        return Stored("T", 0, offset, log_offset, size, 0, 1, b"")

    monkeypatch.setattr(LogScan, "read", read_believing)
    with pytest.raises(AssertionError, match="without its whole body"):
        check_cut_without_crc(rig, image, body_end(image, rig.known[-1]) - 1)
