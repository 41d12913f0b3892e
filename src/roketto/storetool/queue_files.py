"""The queues of a store as they lie on the disk, read and never written."""

import struct
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import path_component
from roketto.store.consumequeue import FILE_BYTES
from roketto.store.files import Files, MappedFile
from roketto.store.segment import NAME_DIGITS
from roketto.store.unit import UNIT_BYTES, Unit

MAPS_MAX: Final = 256
"""Queue files mapped at a time; they are 6 MB each, of which a scan touches a page or two."""

NO_UNIT: Final = Unit(0, 0, 0)
"""What is read where nothing has been written."""

_UNIT: Final = struct.Struct(">qiq")
_FILLER: Final = Unit(0, 0x7FFF_FFFF, 0)
_ROCKSDB_FILE: Final = "CURRENT"
_CHUNK_BYTES: Final = 3_200 * UNIT_BYTES
_ZEROS: Final = bytes(_CHUNK_BYTES)


class NumberedUnit(NamedTuple):
    """A unit and its place in the queue."""

    queue_offset: int
    unit: Unit


class QueueFiles:
    """The files of one queue; ``QueueTable`` makes it."""

    __slots__ = ("_table", "directory", "odd", "queue_id", "starts", "topic")

    def __init__(self, table: "QueueTable", topic: str, queue_id: int) -> None:
        self._table = table
        self.topic = topic
        self.queue_id = queue_id
        self.directory = table.directory / topic / str(queue_id)
        self.starts: list[int] = []
        """Where the files begin that can be read, in bytes of the queue."""
        self.odd: list[tuple[Path, str]] = []
        """Files that do not belong here or are not as long as the others."""
        for name in table.files.names(self.directory):
            self._sort(name)

    def _sort(self, name: str) -> None:
        path = self.directory / name
        size = self._table.files.size(path)
        file_bytes = self._table.file_bytes
        if len(name) != NAME_DIGITS or not name.isdecimal():
            self.odd.append((path, "this name is no offset of 20 digits; move it away"))
        elif size and (size != file_bytes or int(name) % file_bytes):
            self.odd.append((path, f"the file has {size} bytes, the others {file_bytes}"))
        elif size:  # an empty one is what a crash leaves that came while it was made
            self.starts.append(int(name))

    def place(self, queue_offset: int) -> tuple[Path, int]:
        """The file that a unit belongs into, and its byte there."""
        position = queue_offset * UNIT_BYTES
        inside = position % self._table.file_bytes
        return self.directory / f"{position - inside:0{NAME_DIGITS}d}", inside

    def unit(self, queue_offset: int) -> Unit:
        """The unit there, NO_UNIT where there is none."""
        position = queue_offset * UNIT_BYTES
        inside = position % self._table.file_bytes
        view = self._table.view(self, position - inside)
        return NO_UNIT if view is None else Unit._make(_UNIT.unpack_from(view, inside))

    def units(self, first: int = 0, end: int | None = None) -> Iterator[NumberedUnit]:
        """The units from ``first`` up to ``end`` that somebody has written, fillers left out."""
        for start in self.starts:
            view = self._table.view(self, start)
            number = start // UNIT_BYTES
            if view is None or (end is not None and number >= end):
                continue
            at = max(0, first - number) * UNIT_BYTES
            stop = len(view) if end is None else min(len(view), (end - number) * UNIT_BYTES)
            for chunk_at in range(at, stop, _CHUNK_BYTES):
                chunk = bytes(view[chunk_at : min(chunk_at + _CHUNK_BYTES, stop)])
                if chunk != _ZEROS[: len(chunk)]:
                    yield from _written(chunk, number + chunk_at // UNIT_BYTES)

    def ends(self) -> tuple[int, int]:
        """The first unit and the one behind the last, found without reading those between."""
        if not self.starts:
            return 0, 0
        first, last = self.starts[0], self.starts[-1]
        begin = self._find_in_file(first, lambda unit: unit != _FILLER)
        return begin, max(begin, self._find_in_file(last, lambda unit: unit.size <= 0))

    def find(self, first: int, end: int, holds: Callable[[Unit], bool]) -> int:
        """The first unit from ``first`` on for which ``holds`` is true, as for all behind it."""
        offsets = range(first, end)
        return first + bisect_left(offsets, True, key=lambda offset: holds(self.unit(offset)))

    def _find_in_file(self, start: int, holds: Callable[[Unit], bool]) -> int:
        return self.find(start // UNIT_BYTES, (start + self._table.file_bytes) // UNIT_BYTES, holds)


class QueueTable:
    """All queues below one directory, with a bound on what is mapped of them."""

    def __init__(self, files: Files, directory: Path, file_bytes: int | None = None) -> None:
        """``file_bytes`` is what the files are expected to have; by default what most have."""
        self.files = files
        self.directory = directory
        self._maps: OrderedDict[tuple[str, int, int], MappedFile] = OrderedDict()
        self._queues: dict[tuple[str, int], QueueFiles | None] = {}
        self.is_rocksdb = _ROCKSDB_FILE in files.names(directory)
        """Whether the queues are in a database instead, of which nothing is known here."""
        self.topics: list[str] = []
        sizes: Counter[int] = Counter()
        for topic in files.directories(directory):
            if self.is_rocksdb or not _is_topic(topic):
                continue
            self.topics.append(topic)
            for name in files.directories(directory / topic):
                if name.isdecimal() and str(int(name)) == name:
                    self._queues[topic, int(name)] = None
                    sizes.update(self._sizes(directory / topic / name))
        del sizes[0]
        found = max(sizes, key=lambda size: (sizes[size], size), default=None)
        self.found_file_bytes = found if found and found % UNIT_BYTES == 0 else None
        """What most files have, None without any."""
        self.file_bytes: int = file_bytes or self.found_file_bytes or FILE_BYTES

    def _sizes(self, directory: Path) -> list[int]:
        return [self.files.size(directory / name) or 0 for name in self.files.names(directory)]

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[QueueFiles]:
        for topic, queue_id in sorted(self._queues):
            queue = self.get(topic, queue_id)
            if queue is not None:
                yield queue

    def get(self, topic: str, queue_id: int) -> QueueFiles | None:
        """The queue, None if it has no directory."""
        key = (topic, queue_id)
        if key not in self._queues:
            return None
        queue = self._queues[key]
        if queue is None:
            queue = self._queues[key] = QueueFiles(self, topic, queue_id)
        return queue

    def of_topic(self, topic: str) -> list[QueueFiles]:
        """The queues of a topic, in order."""
        return [queue for queue in self if queue.topic == topic]

    def view(self, queue: QueueFiles, start: int) -> memoryview | None:
        """The content of a file, None if there is none."""
        key = (queue.topic, queue.queue_id, start)
        mapped = self._maps.get(key)
        if mapped is None:
            if start not in queue.starts:
                return None
            path = queue.directory / f"{start:0{NAME_DIGITS}d}"
            try:
                mapped = self.files.open_mapped(path, self.file_bytes, writable=False)
            except FileNotFoundError:  # its broker has deleted it meanwhile
                return None
            self._maps[key] = mapped
            if len(self._maps) > MAPS_MAX:
                self._maps.popitem(last=False)[1].close()
        self._maps.move_to_end(key)
        return mapped.view[:]

    def close(self) -> None:
        while self._maps:
            self._maps.popitem()[1].close()


def _is_topic(name: str) -> bool:
    try:
        path_component(name)
    except IllegalNameError:
        return False
    return True


def _written(chunk: bytes, number: int) -> Iterator[NumberedUnit]:
    for queue_offset, raw in enumerate(_UNIT.iter_unpack(chunk), number):
        unit = Unit._make(raw)
        if unit != NO_UNIT and unit != _FILLER:
            yield NumberedUnit(queue_offset, unit)
