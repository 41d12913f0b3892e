"""Proves that one file of the index has Java's bytes, and survives torn puts and damaged chains."""

import sys
from pathlib import Path

import pytest

from roketto.store.files import Files, MappedFile
from roketto.store.indexfile import IndexFile, file_bytes

SLOTS, ENTRIES = 4, 6
T0 = 1_700_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> IndexFile:
    return new_file(tmp_path / "20231114221320000")


def new_file(path: Path) -> IndexFile:
    return IndexFile(Files().create_mapped(path, file_bytes(SLOTS, ENTRIES)), SLOTS, ENTRIES)


def reopened(file: IndexFile) -> IndexFile:
    return IndexFile(file._mapped, SLOTS, ENTRIES)


def found(file: IndexFile, key_hash: int, begin_ms: int = 0, end_ms: int = 2 * T0) -> list[int]:
    offsets: list[int] = []
    file.find(offsets, key_hash, 10, begin_ms, end_ms)
    return offsets


def header(file: IndexFile) -> tuple[int, ...]:
    return (
        file.begin_time_ms,
        file.end_time_ms,
        file.log_offset_begin,
        file.log_offset_end,
        file.slots_used,
        file.count,
    )


def test_default_sizes_give_the_length_of_javas_files() -> None:
    assert file_bytes(5_000_000, 20_000_000) == 420_000_040


def test_puts_are_found_newest_first_and_after_reopening(file: IndexFile) -> None:
    for n, key_hash in enumerate((1, 5, 1, 2)):
        file.put([key_hash], n * 100, T0 + n * 1500)
    for each in (file, reopened(file)):
        assert found(each, 1) == [200, 0]
        assert found(each, 5) == [100]
        assert found(each, 2) == [300]
        assert found(each, 3) == []
        assert header(each) == (T0, T0 + 4500, 0, 300, 2, 5)
    assert file.name == "20231114221320000"


def test_keys_of_one_message_make_the_entries_that_single_puts_would(
    file: IndexFile, tmp_path: Path
) -> None:
    """Also where two of them share a slot, and in a file whose first message they are."""
    other = IndexFile(
        Files().create_mapped(tmp_path / "o", file_bytes(SLOTS, ENTRIES)), SLOTS, ENTRIES
    )
    file.put([1, 1 + SLOTS, 2], 100, T0)
    file.put([1], 200, T0 + 5000)
    for key_hash in (1, 1 + SLOTS, 2):
        other.put([key_hash], 100, T0)
    other.put([1], 200, T0 + 5000)
    assert bytes(file._view) == bytes(other._view)
    assert found(file, 1) == [200, 100]
    assert found(file, 1 + SLOTS) == [100]
    other.close()


def test_a_file_is_full_one_entry_before_its_number(file: IndexFile) -> None:
    for n in range(ENTRIES - 1):
        assert not file.is_full
        file.put([n], n, T0)
    assert file.is_full


def test_queries_keep_to_their_time_and_number(file: IndexFile) -> None:
    for n in range(4):
        file.put([1], n, T0 + n * 1000)
    assert found(file, 1, T0 + 1000, T0 + 2000) == [2, 1]
    offsets = [7]
    file.find(offsets, 1, 2, 0, 2 * T0)
    assert offsets == [7, 3]


def test_times_before_the_first_count_as_the_first(file: IndexFile) -> None:
    file.put([1], 0, T0)
    file.put([1], 1, T0 - 5000)
    assert found(file, 1, T0, T0) == [1, 0]


def test_times_too_far_from_the_first_are_cut_to_what_fits(file: IndexFile) -> None:
    file.put([1], 0, 1)
    file.put([1], 1, 1 + 2**31 * 1000)
    assert found(file, 1, 1 + (2**31 - 1) * 1000, 1 + (2**31 - 1) * 1000) == [1]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(0, 9, False), (0, 10, True), (15, 16, True), (20, 30, True), (21, 30, False), (0, 30, True)],
)
def test_time_ranges_overlap_as_in_java(
    file: IndexFile, begin: int, end: int, expected: bool
) -> None:
    file.begin_time_ms, file.end_time_ms = 10, 20
    assert file.overlaps(begin, end) is expected


def test_a_sync_goes_to_the_disk_only_for_new_entries(
    file: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(MappedFile, "sync", lambda mapped: synced.append(mapped.path))
    file.put([1], 0, T0)
    file.sync()
    file.sync()
    assert synced == [file.path]
    reopened(file).sync()  # who knows what the process before has synced
    file.put([1], 100, T0)
    file.sync()
    file.truncate(100)
    file.sync()
    assert len(synced) == 4


def test_a_closed_file_gives_its_memory_back(file: IndexFile) -> None:
    view = file._view
    file.close()
    with pytest.raises(ValueError, match="released"):
        len(view)


def test_a_following_file_takes_over_the_end_of_the_one_before(
    file: IndexFile, tmp_path: Path
) -> None:
    file.put([1], 700, T0 + 4000)
    second = new_file(tmp_path / "2")
    second.follow(file)
    assert header(reopened(second)) == (T0 + 4000, T0 + 4000, 700, 700, 0, 1)
    second.put([1], 800, T0 + 9999)
    assert header(second) == (T0 + 9999, T0 + 9999, 800, 800, 1, 2)
    # Its entry says five seconds after the preset time; read from the new one it lies later.
    assert found(second, 1, T0 + 9999 + 5000, T0 + 9999 + 5000) == [800]


def test_a_file_after_one_without_offset_and_time_starts_from_nothing(
    file: IndexFile, tmp_path: Path
) -> None:
    second = new_file(tmp_path / "2")
    second.follow(file)
    assert header(second) == (0, 0, 0, 0, 0, 1)


def test_a_put_torn_before_its_header_leaves_no_loop(file: IndexFile) -> None:
    file.put([1], 0, T0)
    file._view[44:48] = (2).to_bytes(4)  # the slot knows an entry that the header does not
    again = reopened(file)
    assert found(again, 1) == []
    again.put([1], 100, T0)
    assert found(again, 1) == [100]


def test_a_chain_that_does_not_descend_ends(file: IndexFile) -> None:
    file.put([1], 0, T0)
    file.put([1], 100, T0)
    entry_at = 40 + 4 * SLOTS + 20 * 1
    file._view[entry_at + 16 : entry_at + 20] = (2).to_bytes(4)
    assert found(file, 1) == [100, 0]
    file._view[entry_at + 12 : entry_at + 16] = b"\xff" * 4  # seconds below zero
    assert found(file, 1) == [100]


def test_truncation_undoes_puts_exactly_but_for_parts_of_a_second(
    file: IndexFile, tmp_path: Path
) -> None:
    shorter = new_file(tmp_path / "2")
    for n, key_hash in enumerate((1, 5, 3, 1, 2)):
        file.put([key_hash], n * 100, T0 + n * 1000)
        if n < 3:
            shorter.put([key_hash], n * 100, T0 + n * 1000)
    file.truncate(300)
    assert bytes(file._view) == bytes(shorter._view)
    assert header(file) == header(shorter)


def test_truncation_to_the_first_entry_keeps_its_time(file: IndexFile, tmp_path: Path) -> None:
    file.put([1], 700, T0 + 4000)
    second = new_file(tmp_path / "2")
    second.follow(file)
    second.put([1], 800, T0 + 9999)
    before = bytes(second._view)
    second.put([2], 900, T0 + 20_000)
    second.truncate(900)
    assert bytes(second._view) == before


def test_truncation_of_everything_leaves_an_empty_file(file: IndexFile) -> None:
    file.put([1], 700, T0)
    file.truncate(0)
    assert found(file, 1) == []
    assert (file.count, file.slots_used) == (1, 0)


@pytest.mark.parametrize(
    ("at", "value"),
    [(36, ENTRIES + 1), (32, -1), (32, 5), (16, 10**6), (16, -1)],
)
def test_headers_no_put_can_leave_are_noticed(file: IndexFile, at: int, value: int) -> None:
    file.put([1], 700, T0)
    file.put([2], 800, T0)
    assert file.is_plausible
    size = 8 if at == 16 else 4
    file._view[at : at + size] = value.to_bytes(size, signed=True)
    assert not reopened(file).is_plausible


def test_more_slots_in_use_than_there_are_is_noticed(file: IndexFile) -> None:
    for n in range(5):
        file.put([n], n, T0)
    file.slots_used = SLOTS
    assert file.is_plausible
    file.count, file.slots_used = ENTRIES, SLOTS + 1
    assert not file.is_plausible


@pytest.mark.parametrize("kept", range(5))
def test_a_file_can_be_put_back_to_any_header_it_had(file: IndexFile, kept: int) -> None:
    """The slots, which puts change, are made anew from the entries, which they do not."""
    headers, slots = [], []
    for n, key_hash in enumerate((1, 5, 1, 2, 9)):
        headers.append(file.header)
        slots.append(bytes(file._view[40:56]))
        if n < 4:
            file.put([key_hash], n * 100, T0 + n * 1500)
    file._view[40:56] = b"\xff" * 16
    assert file.restore(headers[kept])
    assert file.header == reopened(file).header == headers[kept]
    assert bytes(file._view[40:56]) == slots[kept]


def test_a_damaged_file_cannot_be_put_back(file: IndexFile) -> None:
    """Each entry leads to the one before it, and they are in the order of the log."""
    for n, key_hash in enumerate((1, 5, 1, 2)):
        file.put([key_hash], n * 100, T0 + n * 1500)
    good = file.header
    content = bytes(file._view)
    entries = 40 + SLOTS * 4
    for at, value in ((entries + 20 * 2 + 19, 3), (entries + 20 * 3 + 11, 0), (entries + 23, 7)):
        file._view[at] = value
        assert not file.restore(good), at
        file._view[:] = content
    file._view[entries + 20 * 4 + 4 : entries + 20 * 4 + 12] = (250).to_bytes(8)
    assert not file.restore(good), "the last entry is not the one that the header names"
    file._view[:] = content
    for count in (0, ENTRIES + 1):
        assert not file.restore(good[:36] + count.to_bytes(4))
    assert not file.restore(good[:32] + (1).to_bytes(4) + good[36:])
    assert bytes(file._view) == content
    assert file.restore(good)


def test_slots_are_put_back_on_machines_of_either_byte_order(
    file: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is big-endian, whatever the machine is."""
    file.put([1], 0, T0)
    header_before = file.header
    monkeypatch.setattr(sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    assert file.restore(header_before)
    assert bytes(file._view[44:48]) == (1).to_bytes(
        4, "little" if sys.byteorder == "big" else "big"
    )
