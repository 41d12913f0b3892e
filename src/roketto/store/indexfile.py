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
import sys
from array import array
from pathlib import Path
from typing import Final

from roketto.store.files import MappedFile

SLOTS: Final = 5_000_000
"""Java's maxHashSlotNum."""
ENTRIES: Final = 20_000_000
"""Java's maxIndexNum."""

_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">iqii")
_LINK: Final = struct.Struct(">iq4xi")
"""An entry without its time."""
_SLOT_BYTES: Final = _SLOT.size
_ENTRY_BYTES: Final = _ENTRY.size
_HEADER_BYTES: Final = _HEADER.size
_SECONDS_MAX: Final = 0x7FFF_FFFF


def file_bytes(slots: int, entries: int) -> int:
    """The length of a file with so many slots and entries."""
    return _HEADER_BYTES + slots * _SLOT_BYTES + entries * _ENTRY_BYTES


class IndexFile:
    """One mapped file of the index. Index makes it, asks it and knows when it is full."""

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
        "slots_used",
    )

    def __init__(self, mapped: MappedFile, slots: int, entries: int) -> None:
        """``mapped`` has the length ``file_bytes(slots, entries)``; what it holds is taken over."""
        self._mapped = mapped
        self._view = mapped.view
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
        return self._mapped.path.name

    @property
    def header(self) -> bytes:
        """The header that belongs to the entries so far."""
        return _HEADER.pack(
            self.begin_time_ms, self.end_time_ms, self.log_offset_begin, self.log_offset_end,
            self.slots_used, self.count,
        )  # fmt: skip

    @property
    def path(self) -> Path:
        return self._mapped.path

    def sync(self) -> None:
        """Return when all entries so far are on the disk; nothing to do without new ones."""
        count = self.count
        if count != self._count_synced:
            self._mapped.sync()
            self._count_synced = count

    def close(self) -> None:
        """Unmap the file."""
        self._mapped.close()

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

    def put(self, key_hashes: list[int], log_offset: int, store_time_ms: int) -> None:
        """Add an entry for each key of one message; there must be one, and room for all."""
        view = self._view
        slots = self._slots
        count = self.count
        entry_at = self._entries_at + count * _ENTRY_BYTES
        begin_time_ms = self.begin_time_ms
        seconds = 0
        if 0 < begin_time_ms < store_time_ms:
            seconds = min((store_time_ms - begin_time_ms) // 1000, _SECONDS_MAX)
        newest: dict[int, int] = {}
        for key_hash in key_hashes:
            slot_at = _HEADER_BYTES + key_hash % slots * _SLOT_BYTES
            previous = newest.get(slot_at)
            if previous is None:
                (previous,) = _SLOT.unpack_from(view, slot_at)
                if not 0 < previous < count:  # none, or left by a crash in the middle of a put
                    previous = 0
                    self.slots_used += 1
            _ENTRY.pack_into(view, entry_at, key_hash, log_offset, seconds, previous)
            newest[slot_at] = count
            if count <= 1:
                self.log_offset_begin = log_offset
                self.begin_time_ms = begin_time_ms = store_time_ms
                seconds = 0
            count += 1
            entry_at += _ENTRY_BYTES
        self.count = count
        self.log_offset_end = log_offset
        self.end_time_ms = store_time_ms
        # The header goes before the slots: killed in between, the entries are only not found, and
        # the same message is put again; the other way round a chain would lead to itself.
        _HEADER.pack_into(
            view, 0, begin_time_ms, store_time_ms, self.log_offset_begin, log_offset,
            self.slots_used, count,
        )  # fmt: skip
        for slot_at, number in newest.items():
            _SLOT.pack_into(view, slot_at, number)

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

    def restore(self, header: bytes) -> bool:
        """Put the file back to an earlier header of its own, after a crash; False if it cannot be.

        The entries that the header counts were synced with it and are never changed. The slots
        are: they are made anew from the entries, each of which knows the one before it.
        """
        fields = _HEADER.unpack(header)
        slots_used, count = fields[4:]
        if not 0 < count <= self.entries_max:
            return False
        slots = self._slots
        newest = array("i", bytes(slots * _SLOT_BYTES))  # a list is slower: it fits no cache
        assert newest.itemsize == _SLOT_BYTES
        number = used = log_end = 0
        begin = self._entries_at + _ENTRY_BYTES
        entries = self._view[begin : self._entries_at + count * _ENTRY_BYTES]
        for key_hash, log_offset, previous in _LINK.iter_unpack(entries):
            slot = key_hash % slots
            if newest[slot] != previous or log_offset < log_end:
                return False
            number += 1
            used += not previous
            newest[slot] = number
            log_end = log_offset
        if (used, log_end) != (slots_used, fields[3] if number else 0):
            return False
        if sys.byteorder == "little":
            newest.byteswap()
        self._view[_HEADER_BYTES : self._entries_at] = newest.tobytes()
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
