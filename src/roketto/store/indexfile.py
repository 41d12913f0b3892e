"""One file of the hash index: chains of entries with one key hash, newest first, as Java has them.

The file, big-endian: a header, the slots, the entries::

    0       8   when the first message indexed here was stored
    8       8   when the last one was
    16      8   log offset of the first
    24      8   log offset of the last
    32      4   slots in use
    36      4   number of the next entry; they are counted from 1
    40      4n  slots: number of the newest entry whose hash modulo n leads here, 0 without one
    40+4n   20m entries; the first of them is not used

An entry::

    0   4   key hash, not negative
    4   8   log offset
    12  4   seconds between the header's begin time and the message's store time
    16  4   number of the next older entry of the same slot, 0 at the end

The begin time of a new file is preset with the end time of the file before it, and replaced only
after its first entry was made; that entry counts its seconds from the preset time.
"""

import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roketto.store.files import Files, MappedFile
from roketto.store.run_properties import Longs

SLOTS: Final = 5_000_000
"""Java's maxHashSlotNum."""
ENTRIES: Final = 20_000_000
"""Java's maxIndexNum."""

_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">iqii")
_ENTRY_FIELDS: Final = np.dtype(
    [("key_hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
_SLOT_FIELD: Final = np.dtype(">i4")
_NUMBER_BITS: Final = 24
"""Enough for the numbers of all entries that are looked at together."""
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_RESTORED_AT_ONCE: Final = 1 << 18
_SLOT_BYTES: Final = _SLOT.size
_ENTRY_BYTES: Final = _ENTRY.size
_HEADER_BYTES: Final = _HEADER.size
_SECONDS_MAX: Final = 0x7FFF_FFFF
_NOT_MAPPED: Final = memoryview(b"")


def file_bytes(slots: int, entries: int) -> int:
    """The length of a file with so many slots and entries."""
    return _HEADER_BYTES + slots * _SLOT_BYTES + entries * _ENTRY_BYTES


class IndexFile:
    """One file of the index. Index makes it, asks it and knows when it is full.

    What the header says is always known. For the entries the file has to be mapped, which it is
    when it is made; afterwards Index says when.
    """

    __slots__ = (
        "_count_synced",
        "_entries_at",
        "_mapped",
        "_slots",
        "_view",
        "begin_time_ms",
        "count",
        "end_time_ms",
        "entries_max",
        "log_offset_begin",
        "log_offset_end",
        "path",
        "slots_used",
    )

    def __init__(self, mapped: MappedFile, slots: int, entries: int) -> None:
        """``mapped`` has the length ``file_bytes(slots, entries)``; what it holds is taken over."""
        self.path: Path = mapped.path
        self._mapped: MappedFile | None = mapped
        self._view: memoryview = mapped.view
        self._slots = slots
        self._entries_at = _HEADER_BYTES + slots * _SLOT_BYTES
        self.entries_max = entries
        self._count_synced = 0  # nobody knows what a process before this one has synced
        self._read_header()

    def _read_header(self) -> None:
        header: tuple[int, ...] = _HEADER.unpack_from(self._view, 0)
        self.begin_time_ms, self.end_time_ms = header[:2]
        self.log_offset_begin, self.log_offset_end = header[2:4]
        self.slots_used = header[4]
        self.count = header[5] if header[5] > 0 else 1

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def header(self) -> bytes:
        """The header that belongs to the entries so far."""
        return _HEADER.pack(
            self.begin_time_ms, self.end_time_ms, self.log_offset_begin, self.log_offset_end,
            self.slots_used, self.count,
        )  # fmt: skip

    def map(self, files: Files, *, writable: bool) -> None:
        """Map the file if it is not; a map for writing serves readers, too."""
        if self._mapped is not None and not (writable and self._view.readonly):
            return
        self.close()
        size = file_bytes(self._slots, self.entries_max)
        self._mapped = files.open_mapped(self.path, size, writable=writable)
        self._view = self._mapped.view

    def sync(self) -> None:
        """Return when all entries so far are on the disk; nothing to do without new ones."""
        count = self.count
        if count != self._count_synced:
            mapped = self._mapped
            if mapped is not None:  # else it was removed in the meantime
                mapped.sync()
            self._count_synced = count

    @property
    def is_spare(self) -> bool:
        """Whether nothing needs its map: no entry was made since it was synced."""
        return self._view.readonly or self.count == self._count_synced

    def close(self) -> None:
        """Unmap the file. Only if it is spare, or to be removed."""
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
            self._view = _NOT_MAPPED

    @property
    def is_full(self) -> bool:
        return self.count >= self.entries_max

    @property
    def is_plausible(self) -> bool:
        """Whether the header can be one that puts have left."""
        return (
            self.count <= self.entries_max
            and 0 <= self.slots_used < self.count
            and self.slots_used <= self._slots
            and 0 <= self.log_offset_begin <= self.log_offset_end
        )

    def follow(self, previous: "IndexFile") -> None:
        """Preset the header of a new file from the file before it, as far as that has values."""
        if previous.log_offset_end > 0:
            self.log_offset_begin = self.log_offset_end = previous.log_offset_end
        if previous.end_time_ms > 0:
            self.begin_time_ms = self.end_time_ms = previous.end_time_ms
        # Java counts a new file's first entry as number 1 but writes that down with the entry.
        _HEADER.pack_into(
            self._view,
            0,
            self.begin_time_ms,
            self.end_time_ms,
            self.log_offset_begin,
            self.log_offset_end,
            0,
            0,
        )

    def put(self, key_hashes: Longs, log_offsets: Longs, store_times_ms: Longs) -> None:
        """Add an entry for each key, in this order; there must be one, and room for all."""
        view = self._view
        count = self.count
        new = len(key_hashes)
        first_time_ms, end_time_ms = int(store_times_ms[0]), int(store_times_ms[-1])
        log_offset_end = int(log_offsets[-1])
        begin_time_ms = self.begin_time_ms if count > 1 else first_time_ms
        slots = np.frombuffer(view, _SLOT_FIELD, self._slots, _HEADER_BYTES)
        places = key_hashes % self._slots
        previous, fresh = _link(places, count, slots)
        entries_at = self._entries_at + count * _ENTRY_BYTES
        entries = np.frombuffer(view, _ENTRY_FIELDS, new, entries_at)
        entries["key_hash"] = key_hashes
        entries["log_offset"] = log_offsets
        seconds = (store_times_ms - begin_time_ms) // 1000
        entries["seconds"] = seconds.clip(0, _SECONDS_MAX) if begin_time_ms > 0 else 0
        entries["previous"] = previous
        if count <= 1:
            entries["seconds"][0] = self._seconds_of_first(first_time_ms)
            self.log_offset_begin = int(log_offsets[0])
            self.begin_time_ms = begin_time_ms
        self.slots_used += fresh
        self.log_offset_end = log_offset_end
        self.end_time_ms = end_time_ms
        # The header goes before the slots: killed in between, the entries are only not found, and
        # the same messages are put again; the other way round a chain would lead to itself.
        _HEADER.pack_into(
            view, 0, begin_time_ms, end_time_ms, self.log_offset_begin, log_offset_end,
            self.slots_used, count + new,
        )  # fmt: skip
        slots[places] = np.arange(count, count + new)  # the last of several in one slot stays
        self.count = count + new  # at last: another thread that syncs has seen all of it then

    def _seconds_of_first(self, store_time_ms: int) -> int:
        """The first entry counts from the time that was preset."""
        preset_ms = self.begin_time_ms
        if not 0 < preset_ms < store_time_ms:
            return 0
        return min((store_time_ms - preset_ms) // 1000, _SECONDS_MAX)

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the file may have messages stored in ``begin_ms..end_ms``; Java's rule."""
        first, last = self.begin_time_ms, self.end_time_ms
        return (
            (begin_ms < first and end_ms > last)
            or first <= begin_ms <= last
            or first <= end_ms <= last
        )

    def find(
        self, found: list[int], key_hash: int, found_max: int, begin_ms: int, end_ms: int
    ) -> None:
        """Add the log offsets with this hash stored in ``begin_ms..end_ms``, newest first.

        No more than ``found_max`` altogether. Another key may have the same hash.
        """
        slot_at = _HEADER_BYTES + key_hash % self._slots * _SLOT_BYTES
        (number,) = _SLOT.unpack_from(self._view, slot_at)
        above = self.count
        # A chain leads to ever lower numbers; anything else is damage and might not end.
        while 0 < number < above and len(found) < found_max:
            entry_at = self._entries_at + number * _ENTRY_BYTES
            entry_hash, log_offset, seconds, previous = _ENTRY.unpack_from(self._view, entry_at)
            if seconds < 0:
                return
            time_ms = self.begin_time_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms <= time_ms <= end_ms:
                found.append(log_offset)
            if time_ms < begin_ms:
                return
            above, number = number, previous

    def walk(
        self,
        found: list[int],
        key_hash: int,
        begin_ms: int,
        end_ms: int,
        number: int | None,
        looks_max: int,
    ) -> int:
        """The same in pieces: look at so many entries from ``number`` on; which one is next.

        None begins with the newest, 0 is the end. The time of the first entry is that of the
        header: its seconds count from another one, and ``find``, as Java, takes it for later.
        """
        if number is None:
            slot_at = _HEADER_BYTES + key_hash % self._slots * _SLOT_BYTES
            (number,) = _SLOT.unpack_from(self._view, slot_at)
        assert number is not None
        if number >= self.count:
            return 0
        for _ in range(looks_max):
            if number <= 0:
                break
            entry_at = self._entries_at + number * _ENTRY_BYTES
            entry_hash, log_offset, seconds, previous = _ENTRY.unpack_from(self._view, entry_at)
            time_ms = self.begin_time_ms + (seconds * 1000 if number > 1 else 0)
            if seconds < 0 or time_ms < begin_ms or previous >= number:
                previous = 0
            if entry_hash == key_hash and seconds >= 0 and begin_ms <= time_ms <= end_ms:
                found.append(log_offset)
            number = previous
        return max(number, 0)

    def restore(self, header: bytes) -> bool:
        """Put the file back to an earlier header of its own, after a crash; False if it cannot be.

        The entries that the header counts were synced with it and are never changed. The slots
        are: they are made anew from the entries, each of which knows the one before it.
        """
        fields = _HEADER.unpack(header)
        slots_used, count = fields[4:]
        if not 0 < count <= self.entries_max:
            return False
        slots = np.zeros(self._slots, np.int32)
        used = log_end = 0
        for first in range(1, count, _RESTORED_AT_ONCE):
            new = min(_RESTORED_AT_ONCE, count - first)
            entries = np.frombuffer(
                self._view, _ENTRY_FIELDS, new, self._entries_at + first * _ENTRY_BYTES
            )
            log_offsets = entries["log_offset"].astype(np.int64)
            key_hashes = entries["key_hash"].astype(np.int64)
            places = key_hashes % self._slots
            previous, fresh = _link(places, first, slots)
            is_in_order = log_offsets[0] >= log_end and (log_offsets[1:] >= log_offsets[:-1]).all()
            if not is_in_order or (entries["previous"] != previous).any():
                return False
            slots[places] = np.arange(first, first + new)
            used += fresh
            log_end = int(log_offsets[-1])
        if (used, log_end) != (slots_used, fields[3] if count > 1 else 0):
            return False
        np.frombuffer(self._view, _SLOT_FIELD, self._slots, _HEADER_BYTES)[:] = slots
        self._view[:_HEADER_BYTES] = header
        self._read_header()
        self._count_synced = 0
        return True

    def truncate(self, log_offset: int) -> None:
        """Take back the newest entries that lead to ``log_offset`` or behind it.

        The end time becomes exact again with the next put; the entries have it in seconds only.
        """
        view = self._view
        count = self.count
        self.log_offset_end = self.log_offset_begin
        self.end_time_ms = self.begin_time_ms
        while count > 1:
            entry_at = self._entries_at + (count - 1) * _ENTRY_BYTES
            key_hash, entry_log_offset, seconds, previous = _ENTRY.unpack_from(view, entry_at)
            if entry_log_offset < log_offset:
                if count > 2:  # the first counts its seconds from another time
                    self.log_offset_end = entry_log_offset
                    self.end_time_ms = self.begin_time_ms + seconds * 1000
                break
            count -= 1
            self.slots_used -= not previous
            _SLOT.pack_into(view, _HEADER_BYTES + key_hash % self._slots * _SLOT_BYTES, previous)
            view[entry_at : entry_at + _ENTRY_BYTES] = bytes(_ENTRY_BYTES)
        self.count = count
        self._count_synced = 0
        _HEADER.pack_into(
            view,
            0,
            self.begin_time_ms,
            self.end_time_ms,
            self.log_offset_begin,
            self.log_offset_end,
            self.slots_used,
            count,
        )


def _link(
    slots: Longs, first: int, newest: npt.NDArray[np.signedinteger[Any]]
) -> tuple[Longs, int]:
    """Chain new entries, of which these are the slots and ``first`` is the number of the first.

    ``newest`` has the number of the newest entry so far of every slot. Returns the next older entry
    of each, and how many have none. What a slot has from a crash in the middle of a put, a number
    not given yet, is none.
    """
    previous = newest[slots].astype(np.int64)
    previous[(previous < 0) | (previous >= first)] = 0
    # The order of slots, and within a slot that of the entries, by one sort of plain numbers.
    order = (slots << _NUMBER_BITS) | np.arange(slots.size)
    order.sort()
    in_order = order >> _NUMBER_BITS
    # Few have a slot in common with a new one before them: there are millions of slots.
    same = np.flatnonzero(in_order[1:] == in_order[:-1])
    if same.size:
        previous[order[same + 1] & _NUMBER_MASK] = (order[same] & _NUMBER_MASK) + first
    return previous, slots.size - int(np.count_nonzero(previous))
