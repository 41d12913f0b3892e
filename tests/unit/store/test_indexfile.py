"""Proves that one file of the index has Java's bytes, and survives torn puts and damaged chains."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roketto.store import indexfile
from roketto.store.files import Files, MappedFile
from roketto.store.indexfile import IndexFile, file_bytes
from roketto.store.run_properties import Longs
from sim.files import CrashFiles

SLOTS, ENTRIES = 4, 6
T0 = 1_700_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> IndexFile:
    return new_file(tmp_path / "20231114221320000")


def new_file(path: Path) -> IndexFile:
    return IndexFile(Files().create_mapped(path, file_bytes(SLOTS, ENTRIES)), SLOTS, ENTRIES)


def put(file: IndexFile, key_hashes: list[int], log_offset: int, store_time_ms: int) -> None:
    """File one message under several keys."""
    count = len(key_hashes)
    file.put(longs(key_hashes), longs([log_offset] * count), longs([store_time_ms] * count))


def longs(numbers: list[int]) -> Longs:
    return np.array(numbers, np.int64)


def put_one_by_one(file: IndexFile, key_hash: int, log_offset: int, store_time_ms: int) -> None:
    """What Java does with one key."""
    view, count = file._view, file.count
    seconds = 0
    if 0 < file.begin_time_ms < store_time_ms:
        seconds = min((store_time_ms - file.begin_time_ms) // 1000, 2**31 - 1)
    slot_at = 40 + key_hash % file._slots * 4
    (previous,) = struct.unpack_from(">i", view, slot_at)
    if not 0 < previous < count:
        previous = 0
        file.slots_used += 1
    entry_at = file._entries_at + count * 20
    struct.pack_into(">iqii", view, entry_at, key_hash, log_offset, seconds, previous)
    struct.pack_into(">i", view, slot_at, count)
    if count <= 1:
        file.log_offset_begin = log_offset
        file.begin_time_ms = store_time_ms
    file.count = count + 1
    file.log_offset_end = log_offset
    file.end_time_ms = store_time_ms
    view[:40] = file.header


def reopened(file: IndexFile) -> IndexFile:
    return reopened_as(file, ENTRIES)


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
        put(file, [key_hash], n * 100, T0 + n * 1500)
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
    put(file, [1, 1 + SLOTS, 2], 100, T0)
    put(file, [1], 200, T0 + 5000)
    for key_hash in (1, 1 + SLOTS, 2):
        put(other, [key_hash], 100, T0)
    put(other, [1], 200, T0 + 5000)
    assert bytes(file._view) == bytes(other._view)
    assert found(file, 1) == [200, 100]
    assert found(file, 1 + SLOTS) == [100]
    other.close()


def test_a_file_is_full_one_entry_before_its_number(file: IndexFile) -> None:
    for n in range(ENTRIES - 1):
        assert not file.is_full
        put(file, [n], n, T0)
    assert file.is_full


def test_queries_keep_to_their_time_and_number(file: IndexFile) -> None:
    for n in range(4):
        put(file, [1], n, T0 + n * 1000)
    assert found(file, 1, T0 + 1000, T0 + 2000) == [2, 1]
    offsets = [7]
    file.find(offsets, 1, 2, 0, 2 * T0)
    assert offsets == [7, 3]


def test_times_before_the_first_count_as_the_first(file: IndexFile) -> None:
    put(file, [1], 0, T0)
    put(file, [1], 1, T0 - 5000)
    assert found(file, 1, T0, T0) == [1, 0]


def test_times_too_far_from_the_first_are_cut_to_what_fits(file: IndexFile) -> None:
    put(file, [1], 0, 1)
    put(file, [1], 1, 1 + 2**31 * 1000)
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
    put(file, [1], 0, T0)
    file.sync()
    file.sync()
    assert synced == [file.path]
    reopened(file).sync()  # who knows what the process before has synced
    put(file, [1], 100, T0)
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
    put(file, [1], 700, T0 + 4000)
    second = new_file(tmp_path / "2")
    second.follow(file)
    assert header(reopened(second)) == (T0 + 4000, T0 + 4000, 700, 700, 0, 1)
    put(second, [1], 800, T0 + 9999)
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
    put(file, [1], 0, T0)
    file._view[44:48] = (2).to_bytes(4)  # the slot knows an entry that the header does not
    again = reopened(file)
    assert found(again, 1) == []
    put(again, [1], 100, T0)
    assert found(again, 1) == [100]


def test_a_chain_that_does_not_descend_ends(file: IndexFile) -> None:
    put(file, [1], 0, T0)
    put(file, [1], 100, T0)
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
        put(file, [key_hash], n * 100, T0 + n * 1000)
        if n < 3:
            put(shorter, [key_hash], n * 100, T0 + n * 1000)
    file.truncate(300)
    assert bytes(file._view) == bytes(shorter._view)
    assert header(file) == header(shorter)


def test_truncation_to_the_first_entry_keeps_its_time(file: IndexFile, tmp_path: Path) -> None:
    put(file, [1], 700, T0 + 4000)
    second = new_file(tmp_path / "2")
    second.follow(file)
    put(second, [1], 800, T0 + 9999)
    before = bytes(second._view)
    put(second, [2], 900, T0 + 20_000)
    second.truncate(900)
    assert bytes(second._view) == before


def walked(
    file: IndexFile, key_hash: int, looks: int, begin_ms: int = 0, end_ms: int = 2 * T0
) -> list[list[int]]:
    """What each piece of a walk finds."""
    pieces: list[list[int]] = []
    number: int | None = None
    while number != 0:
        pieces.append([])
        number = file.walk(pieces[-1], key_hash, begin_ms, end_ms, number, looks)
    return pieces


def test_a_walk_in_pieces_finds_what_one_look_finds(file: IndexFile) -> None:
    """Whatever the size of the pieces; entries of other keys of the slot count as looked at."""
    for n, key_hash in enumerate((1, 5, 1, 5, 1)):
        put(file, [key_hash], n * 100, T0 + n * 1500)
    assert walked(file, 1, 1) == [[400], [], [200], [], [0]]
    assert walked(file, 1, 2) == [[400], [200], [0]]
    assert walked(file, 1, 9) == [[400, 200, 0]]
    assert walked(file, 1, 9, T0 + 3000, T0 + 5999) == [[200]]
    assert walked(file, 2, 9) == [[]]


def test_the_first_entry_of_a_later_file_is_found_at_its_time(
    file: IndexFile, tmp_path: Path
) -> None:
    """It counts its seconds from the end of the file before: Java looks for it in the future."""
    put(file, [1], 100, T0)
    second = new_file(tmp_path / "20231114221320001")
    second.follow(file)
    put(second, [1], 200, T0 + 9_000)
    assert walked(second, 1, 9, T0 + 9_000, T0 + 9_000) == [[200]]
    assert found(second, 1, T0 + 9_000, T0 + 9_000) == []
    second.close()


@pytest.mark.parametrize("damage", ["itself", "behind", "negative", "beyond"])
def test_a_walk_ends_where_a_chain_is_damaged(file: IndexFile, damage: str) -> None:
    for n in range(3):
        put(file, [1], n * 100, T0)
    entry_at = file._entries_at + 3 * 20
    if damage == "negative":
        struct.pack_into(">i", file._view, entry_at + 12, -1)
    elif damage == "beyond":
        struct.pack_into(">i", file._view, 40 + 1 % SLOTS * 4, 4)
    else:
        struct.pack_into(">i", file._view, entry_at + 16, {"itself": 3, "behind": 5}[damage])
    assert walked(file, 1, 9) == [[] if damage in ("negative", "beyond") else [200]]


def test_truncation_of_everything_leaves_an_empty_file(file: IndexFile) -> None:
    put(file, [1], 700, T0)
    file.truncate(0)
    assert found(file, 1) == []
    assert (file.count, file.slots_used) == (1, 0)


@pytest.mark.parametrize(
    ("at", "value"),
    [(36, ENTRIES + 1), (32, -1), (32, 5), (16, 10**6), (16, -1)],
)
def test_headers_no_put_can_leave_are_noticed(file: IndexFile, at: int, value: int) -> None:
    put(file, [1], 700, T0)
    put(file, [2], 800, T0)
    assert file.is_plausible
    size = 8 if at == 16 else 4
    file._view[at : at + size] = value.to_bytes(size, signed=True)
    assert not reopened(file).is_plausible


def test_more_slots_in_use_than_there_are_is_noticed(file: IndexFile) -> None:
    for n in range(5):
        put(file, [n], n, T0)
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
            put(file, [key_hash], n * 100, T0 + n * 1500)
    file._view[40:56] = b"\xff" * 16
    assert file.restore(headers[kept])
    assert file.header == reopened(file).header == headers[kept]
    assert bytes(file._view[40:56]) == slots[kept]


def test_a_damaged_file_cannot_be_put_back(file: IndexFile) -> None:
    """Each entry leads to the one before it, and they are in the order of the log."""
    for n, key_hash in enumerate((1, 5, 1, 2)):
        put(file, [key_hash], n * 100, T0 + n * 1500)
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


TIMES = st.sampled_from([-5, 0, 1, T0 - 1, T0, T0 + 999, T0 + 1000, T0 + 5500, T0 + 2**42])
ENTRY = st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 9), TIMES)


@given(st.lists(st.lists(ENTRY, min_size=1, max_size=12), max_size=4), TIMES)
def test_entries_made_together_are_those_that_java_makes_one_by_one(
    puts: list[list[tuple[int, int]]], preset_ms: int
) -> None:
    """Whatever slots they share and whenever they were stored, in a new file or behind others."""
    files = CrashFiles()
    together, apart = (
        IndexFile(files.create_mapped(Path(name), file_bytes(SLOTS, 64)), SLOTS, 64)
        for name in ("/a", "/b")
    )
    for file in (together, apart):
        file.begin_time_ms = preset_ms
    log_offset = 0
    for entries in puts:
        log_offsets = [log_offset + number // 2 for number in range(len(entries))]
        log_offset = log_offsets[-1]
        hashes, times = [entry[0] for entry in entries], [entry[1] for entry in entries]
        together.put(longs(hashes), longs(log_offsets), longs(times))
        for entry in zip(hashes, log_offsets, times, strict=True):
            put_one_by_one(apart, *entry)
        assert bytes(together._view) == bytes(apart._view)
        assert header(together) == header(apart) == header(reopened_as(together, 64))


def reopened_as(file: IndexFile, entries: int) -> IndexFile:
    assert file._mapped is not None
    return IndexFile(file._mapped, SLOTS, entries)


def test_a_file_is_mapped_again_when_it_is_needed(file: IndexFile) -> None:
    """Without its map it knows its header, and with a new one all that it had."""
    put(file, [7], 100, T0)
    before = file.header
    file.close()
    file.close()
    assert (file.header, file.name, file.count) == (before, "20231114221320000", 2)
    file.map(Files(), writable=False)
    assert file._view.readonly
    assert found(file, 7) == [100]
    file.map(Files(), writable=True)
    put(file, [7], 200, T0)
    file.map(Files(), writable=False)
    assert not file._view.readonly, "a map for writing was given up for one for reading"
    assert found(file, 7) == [200, 100]
    file.close()


def test_a_file_is_spare_while_it_has_no_unsynced_entry(file: IndexFile) -> None:
    """Or if nobody can write to it."""
    assert not file.is_spare
    file.sync()
    assert file.is_spare
    put(file, [7], 100, T0)
    assert not file.is_spare
    file.sync()
    assert file.is_spare
    file.close()
    file.map(Files(), writable=False)
    put_again = IndexFile(Files().open_mapped(file.path, file_bytes(SLOTS, ENTRIES),
                                              writable=False), SLOTS, ENTRIES)  # fmt: skip
    assert put_again.is_spare
    put_again.close()
    file.close()


def test_a_file_that_was_removed_needs_no_sync(file: IndexFile) -> None:
    """The worker may be about to sync what the owner has just removed."""
    put(file, [7], 100, T0)
    file.close()
    file.sync()
    assert file.count == 2


def test_a_file_is_put_back_in_several_steps(
    file: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with millions of entries is not looked at as a whole; damage is found in every step."""
    monkeypatch.setattr(indexfile, "_RESTORED_AT_ONCE", 2)
    for n, key_hash in enumerate((1, 5, 1, 2, 9)):
        put(file, [key_hash], n * 100, T0 + n * 1500)
    content = bytes(file._view)
    file._view[40:56] = b"\xff" * 16
    assert file.restore(content[:40])
    assert bytes(file._view) == content
    entries = 40 + SLOTS * 4
    for number in range(1, 6):
        file._view[entries + 20 * number + 19] ^= 1
        assert not file.restore(content[:40]), number
        file._view[:] = content
        file._view[entries + 20 * number + 4] = 0xFF  # an offset below zero
        assert not file.restore(content[:40]), number
        file._view[:] = content
