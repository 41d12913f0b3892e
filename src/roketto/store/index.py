"""The index of messages by key: Java's hash index, a run of files from oldest to newest.

A message is filed under ``topic#key`` for its unique key and each of its keys. The index knows
hashes only: a query may find messages with other keys, and whoever asks compares the text.

Entries are made a thousand messages at a time, which takes a sixth of the time that one after the
other would take. Until then messages wait in memory. Nobody can tell: whoever asks the index for
anything has them filed first, and what a crash takes from memory is read from the log again.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

import numpy as np

from roketto.compiled import is_compiled
from roketto.protocol.properties import Spans, encode_properties
from roketto.protocol.property_names import KEYS, UNIQ_KEY
from roketto.store.checkpoint import NO_FILES, IndexMark
from roketto.store.errors import DiskFullError, FileSizeError
from roketto.store.files import Files
from roketto.store.index_ahead import IndexAhead
from roketto.store.indexfile import ENTRIES, SLOTS, IndexFile, file_bytes
from roketto.store.keyhashes import KeyHashes
from roketto.store.run_properties import Longs, RunProperties
from roketto.store.waiting_keys import HashedKeys, WaitingKeys
from roketto.store.worker import Worker

QUERY_MAX: Final = 64
"""Java's maxMsgsNumBatch: what one query finds at most."""

WAITING_MAX: Final = 1_024
"""Messages that wait to be filed; with more at once, each costs hardly less."""

MAPS_MAX: Final = 4
"""Files mapped at a time, those with unsynced entries apart: the newest, and some for queries.

Java maps all of them. They have 420 MB each, and hardly anybody asks for keys of long ago."""

_NAME_DIGITS: Final = 17


class Index:
    """The index of one store.

    ``now_ms`` and ``zone`` name new files, by local time. ``flush`` files what waits, ``sync`` also
    brings it to the disk. The first file is made when the first keys are filed, the others ahead.
    Where there is no room for a new file, DiskFullError says so, and what
    was to be filed goes on waiting: messages that were taken are never lost.
    """

    __slots__ = (
        "_ahead",
        "_entries",
        "_files",
        "_hashes",
        "_index_files",
        "_left",
        "_mapped",
        "_maps_max",
        "_now_ms",
        "_renames",
        "_renames_synced",
        "_slots",
        "_waiting",
        "_waiting_max",
        "_zone",
        "directory",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        now_ms: Callable[[], int],
        zone: tzinfo,
        slots: int = SLOTS,
        entries: int = ENTRIES,
        waiting_max: int = WAITING_MAX,
        maps_max: int = MAPS_MAX,
        hashes_at_once: bool = is_compiled(),
    ) -> None:
        """``hashes_at_once`` is for compiled code; what is filed is the same."""
        assert slots > 0, slots
        assert entries > 1, entries
        self._files = files
        self.directory = directory
        self._now_ms = now_ms
        self._zone = zone
        self._slots = slots
        self._entries = entries
        self._waiting_max = waiting_max
        self._maps_max = maps_max
        self._index_files: list[IndexFile] = []
        self._mapped: list[IndexFile] = []  # the one that was used last is the last
        self._ahead = IndexAhead(files, directory, file_bytes(slots, entries))
        # How many files have got their name without a sync of the directory, and how many of
        # these names are on the disk by now.
        self._renames = 0
        self._renames_synced = 0
        self._hashes = KeyHashes()
        self._waiting = HashedKeys(self._hashes) if hashes_at_once else WaitingKeys()
        # Of each entry that is still to be made: key hash, log offset, store time.
        self._left: tuple[Longs, Longs, Longs] | None = None

    # --- state --------------------------------------------------------------------------------

    @property
    def log_offset_max(self) -> int:
        """The newest message that is indexed, -1 without one; what lies behind it is not."""
        self.flush()
        return max(
            (file.log_offset_end for file in self._index_files if file.count > 1), default=-1
        )

    @property
    def end_time_ms(self) -> int:
        """When the newest message that is indexed was stored, 0 without one."""
        self.flush()
        return self._index_files[-1].end_time_ms if self._index_files else 0

    @property
    def file_names(self) -> list[str]:
        """The names of the files, oldest first."""
        self.flush()
        return [file.name for file in self._index_files]

    # --- opening ------------------------------------------------------------------------------

    def load(self, end_time_max_ms: int | None = None, *, writable: bool = True) -> list[Path]:
        """Open the files; the paths of those that are not trusted, which are removed if writable.

        A file of another length, with a header no put can have left, or out of order, goes with all
        newer ones: they can be rebuilt from the log behind ``log_offset_max``, but only in order.
        After a crash of the machine ``end_time_max_ms`` is the checkpoint's time of the index: a
        file with newer messages may lack pages. None trusts them all.
        """
        names = self._names()
        for name in names:
            file = self._open(name, writable=writable and name == names[-1])
            if file is None:
                break
            if not self._is_trusted(file, end_time_max_ms):
                self._forget(file)
                break
            if writable:
                file.sync()  # nobody knows whether who wrote it did, and it may be unmapped soon
            self._index_files.append(file)
        dropped = [self.directory / name for name in names[len(self._index_files) :]]
        if writable:
            self._ahead.remove_left_over()
            for path in dropped:
                self._files.remove(path)
        return dropped

    def load_marked(self, mark: IndexMark, *, is_exact: bool) -> bool:
        """Open the files as they were at ``mark``; False if not all that were there then are.

        After a clean stop nothing may have changed since (``is_exact``). After a crash, whatever
        was put later is taken back: pages of it may be missing, and the log has it. Files that are
        damaged, and those behind them, are removed; all of them if nobody knows which is missing.
        """
        self._ahead.remove_left_over()
        names = self._names()
        known = [name for name in names if name <= mark.name]
        for name in known if len(known) == mark.files else ():
            file = self._open(name, writable=name == mark.name)
            if file is None:
                break
            if name < mark.name:
                is_good = file.is_full and self._is_trusted(file, None)
            elif is_exact:
                is_good = file.header == mark.header
            else:
                is_good = file.restore(mark.header)
            if not is_good:
                self._forget(file)
                break
            self._index_files.append(file)
        for name in names[len(self._index_files) :]:
            self._files.remove(self.directory / name)
        return len(self._index_files) == mark.files

    def mark(self) -> IndexMark:
        """How far the index is; good for ``load_marked`` once what is there now was synced."""
        self.flush()
        if not self._index_files:
            return NO_FILES
        last = self._index_files[-1]
        return IndexMark(last.name, last.header, len(self._index_files))

    def _names(self) -> list[str]:
        return [name for name in self._files.names(self.directory) if _is_file_name(name)]

    def _open(self, name: str, *, writable: bool) -> IndexFile | None:
        try:
            size = file_bytes(self._slots, self._entries)
            mapped = self._files.open_mapped(self.directory / name, size, writable=writable)
        except FileSizeError:
            return None
        file = IndexFile(mapped, self._slots, self._entries)
        self._use(file, writable=writable)
        return file

    def _is_trusted(self, file: IndexFile, end_time_max_ms: int | None) -> bool:
        if not file.is_plausible or file.log_offset_end < self.log_offset_max:
            return False
        return end_time_max_ms is None or file.end_time_ms <= end_time_max_ms

    def close(self) -> None:
        """Unmap the files. What finds no room in them any more is lost to them, not to the log."""
        self._flush_if_possible()
        self._forget_waiting()
        self._ahead.close()
        while self._index_files:
            self._forget(self._index_files.pop())

    # --- maps ---------------------------------------------------------------------------------

    def _use(self, file: IndexFile, *, writable: bool = False) -> None:
        """Have a file mapped, as the one that was used last, and let go of those used before."""
        file.map(self._files, writable=writable)
        mapped = self._mapped
        if file in mapped:
            mapped.remove(file)
        mapped.append(file)
        if len(mapped) > self._maps_max:
            self._unmap_oldest(len(mapped) - self._maps_max)

    def _unmap_oldest(self, count: int) -> None:
        """Unmap up to ``count`` files that are spare, but not the newest or the one just used.

        Never one with unsynced entries: the system tells of a failed write only those who had the
        file open when it happened.
        """
        newest = self._index_files[-1:]
        spare = [file for file in self._mapped[:-1] if file.is_spare and file not in newest]
        for file in spare[:count]:
            self._forget(file)

    def _forget(self, file: IndexFile) -> None:
        file.close()
        if file in self._mapped:
            self._mapped.remove(file)

    # --- writing ------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        unique_key: str | None,
        keys: str | None,
        log_offset: int,
        store_time_ms: int,
    ) -> None:
        """File one message under its unique key and each of its keys, separated by blanks.

        A message before the newest one that is indexed has been filed already; the newest itself
        is filed again, since a crash may have come between two of its keys.
        """
        values = {UNIQ_KEY: unique_key or "", KEYS: keys or ""}
        self.add(topic, encode_properties(values), log_offset, store_time_ms)

    def add(self, topic: str, properties: bytes, log_offset: int, store_time_ms: int) -> None:
        """The same for the keys in a property string; an error leaves the message out."""
        self.make_room()
        self._waiting.add(topic, properties, log_offset, store_time_ms)

    def make_room(self) -> None:
        """File what waits if it is much."""
        if self._waiting.count >= self._waiting_max:
            self.flush()

    def add_found(
        self, topic: str, properties: bytes, spans: Spans, log_offset: int, store_time_ms: int
    ) -> None:
        """The same where find_spans has found the keys, and ``make_room`` was called before."""
        self._waiting.add_found(topic, properties, spans, log_offset, store_time_ms)

    def add_run(
        self,
        topic: str,
        properties: RunProperties,
        log_offset: int,
        sizes: list[int],
        store_time_ms: int,
    ) -> None:
        """The same for messages of one topic that follow each other in the log."""
        self.make_room()
        self._waiting.add_run(topic, properties, log_offset, sizes, store_time_ms)

    def flush(self) -> None:
        """File what waits; after an error the rest of it goes on waiting."""
        while self._left is not None or self._waiting.count:
            if self._left is None:
                self._left = self._take_waiting()
            while self._left is not None:
                self._left = self._file(*self._left)

    def _flush_if_possible(self) -> None:
        """File what waits; if there is no room, whoever adds messages or marks hears of it."""
        with suppress(OSError, DiskFullError):
            self.flush()

    def _take_waiting(self) -> tuple[Longs, Longs, Longs] | None:
        """The entries of messages that wait, without those that have been filed already."""
        texts, hashes, log_offsets, times = self._waiting.look(self._hashes)
        self._waiting.remove(texts)
        return self._new_ones(hashes, log_offsets, times)

    def _new_ones(
        self, hashes: Longs, log_offsets: Longs, times: Longs
    ) -> tuple[Longs, Longs, Longs] | None:
        """These entries without those of messages that have been filed already."""
        if not hashes.size:
            return None
        files = self._index_files
        least = files[-1].log_offset_end if files else 0
        if log_offsets[0] >= least and (log_offsets[1:] >= log_offsets[:-1]).all():
            return hashes, log_offsets, times
        is_new = log_offsets >= np.maximum.accumulate(log_offsets).clip(least)
        return (hashes[is_new], log_offsets[is_new], times[is_new]) if is_new.any() else None

    def _file(
        self, hashes: Longs, log_offsets: Longs, times: Longs
    ) -> tuple[Longs, Longs, Longs] | None:
        """Make the entries for which one file has room; what is left, None if nothing is."""
        file = self._index_files[-1] if self._index_files else self._create()
        room = file.entries_max - file.count
        if room <= 0:
            file = self._create()
            room = file.entries_max - file.count
        self._use(file, writable=True)
        file.put(hashes[:room], log_offsets[:room], times[:room])
        if room >= hashes.size:
            return None
        return hashes[room:], log_offsets[room:], times[room:]

    def _forget_waiting(self) -> None:
        self._left = None
        self._waiting.clear()

    def prepare_ahead(self, worker: Worker) -> None:
        """Let the worker make the next file once half of the last one is used."""
        if self._index_files:
            last = self._index_files[-1]
            if last.count >= last.entries_max // 2:
                self._ahead.prepare(worker, last.name)

    def _create(self) -> IndexFile:
        path = self.directory / self._next_name()
        last = self._index_files[-1] if self._index_files else None
        mapped = self._ahead.take(path, last.name) if last is not None else None
        if mapped is not None:
            self._renames += 1
        else:
            self._files.make_directory(self.directory)
            mapped = self._files.create_mapped(path, file_bytes(self._slots, self._entries))
        file = IndexFile(mapped, self._slots, self._entries)
        if last is not None:
            file.follow(last)
        self._index_files.append(file)
        return file

    def _next_name(self) -> str:
        """The local time, or one more than the newest name where clock or season went back."""
        now_ms = self._now_ms()
        local = datetime.fromtimestamp(now_ms // 1000, self._zone)
        name = f"{local:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        if self._index_files:
            name = max(name, f"{int(self._index_files[-1].name) + 1}")
        return name

    def sync(self) -> int:
        """Return when everything put so far is on the disk; see ``take_sync``."""
        self.flush()
        return self.take_sync()()

    def take_sync(self) -> Callable[[], int]:
        """What makes everything durable that was filed by ``mark`` or ``flush``, in any thread.

        Its result is the checkpoint's time of the index: when the last message of the newest full
        file was stored, 0 without one. Full files do not change any more.
        """
        files = tuple(self._index_files)
        renames = self._renames
        full_until_ms = max((file.end_time_ms for file in files if file.is_full), default=0)

        def sync() -> int:
            for file in files:
                file.sync()
            if renames != self._renames_synced:
                self._files.sync_directory(self.directory)
                self._renames_synced = renames
            return full_until_ms

        return sync

    def truncate(self, log_offset: int) -> None:
        """Take back what leads to ``log_offset`` or behind it; only recovery calls this."""
        self.flush()
        while self._index_files and self._index_files[-1].log_offset_begin >= log_offset:
            self._remove(self._index_files.pop())
        if self._index_files and self._index_files[-1].log_offset_end >= log_offset:
            self._use(self._index_files[-1], writable=True)
            self._index_files[-1].truncate(log_offset)

    def delete_below(
        self, log_min_offset: int, unlink: Callable[[Path], None] | None = None
    ) -> int:
        """Delete files, but never the last, with no message left in the log; how many.

        They are forgotten at once; ``unlink``, if given, takes over removing them.
        """
        self._flush_if_possible()
        deleted = 0
        while len(self._index_files) > 1 and self._index_files[0].log_offset_end < log_min_offset:
            file = self._index_files.pop(0)
            self._forget(file)
            (unlink or self._files.remove)(file.path)
            deleted += 1
        return deleted

    def clear(self) -> None:
        """Remove all files, to be rebuilt from the log."""
        self._forget_waiting()
        while self._index_files:
            self._remove(self._index_files.pop())

    def _remove(self, file: IndexFile) -> None:
        self._forget(file)
        self._files.remove(file.path)

    # --- reading ------------------------------------------------------------------------------

    def query(self, topic: str, key: str, found_max: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log offsets of messages with this key stored in ``begin_ms..end_ms``, newest first.

        Times are exact to the second. Messages with another key may be among them.
        """
        self._flush_if_possible()
        found_max = min(found_max, QUERY_MAX)
        key_hash = self.key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self._index_files):
            if file.overlaps(begin_ms, end_ms):
                self._use(file)
                file.find(found, key_hash, found_max, begin_ms, end_ms)
            if file.begin_time_ms < begin_ms or len(found) >= found_max:
                break
        return found

    def search(self, topic: str, key: str, begin_ms: int, end_ms: int) -> "KeySearch":
        """A query without a bound, in pieces; the files are those of now."""
        self._flush_if_possible()
        files: list[IndexFile] = []
        for file in reversed(self._index_files):
            if file.overlaps(begin_ms, end_ms):
                files.append(file)
            if file.begin_time_ms < begin_ms:
                break
        return KeySearch(self, files, self.key_hash(topic, key), begin_ms, end_ms)

    def use_for(self, file: IndexFile) -> bool:
        """Have a file mapped for somebody who reads it; False if it was removed."""
        if file not in self._index_files:
            return False
        self._use(file)
        return True

    @property
    def last_update(self) -> tuple[int, int]:
        """When the newest message in the files was stored, and its log offset."""
        if not self._index_files:
            return 0, 0
        last = self._index_files[-1]
        return last.end_time_ms, last.log_offset_end

    def key_hash(self, topic: str, key: str) -> int:
        """Java's hash of ``topic#key`` without its sign."""
        return self._hashes.one(topic, key)


class KeySearch:
    """A search that goes on where it stopped: a key may have millions of messages.

    search = index.search("T", "key", begin_ms, end_ms)
    while not search.is_done:
        offsets = search.step(1_000)      # newest first; other keys, and one twice, among them
    """

    __slots__ = ("_begin_ms", "_end_ms", "_files", "_index", "_key_hash", "_number")

    def __init__(
        self, index: Index, files: list[IndexFile], key_hash: int, begin_ms: int, end_ms: int
    ) -> None:
        self._index = index
        self._files = files[::-1]  # the newest is the last
        self._key_hash = key_hash
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._number: int | None = None

    @property
    def is_done(self) -> bool:
        return not self._files

    def step(self, looks_max: int) -> list[int]:
        """Log offsets that a look at so many entries of one file has found, newest first."""
        found: list[int] = []
        file = self._files[-1]
        number = 0
        if self._index.use_for(file):
            number = file.walk(
                found, self._key_hash, self._begin_ms, self._end_ms, self._number, looks_max
            )
        self._number = number
        if not number:
            self._files.pop()
            self._number = None
        return found


def _is_file_name(name: str) -> bool:
    return len(name) == _NAME_DIGITS and name.isdecimal()
