"""A table of the broker: a body in memory, its JSON file, and whether the two differ.

The tables of topics, groups, offsets and filters are made of this one. Each is loaded once, changed
by its methods and saved from time to time::

    topics = TopicTable(files, config)
    problem = topics.load()              # not None: the backup was taken, and why
    topics.put(TopicConfig(topic_name="Orders"))
    topics.save_if_changed()

The files have no checksum, as Java's have none: a digit that became another one is not noticed.
What is noticed is a file that is cut, padded, empty, of another table, or has bytes that no broker
writes.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from roketto.clock import wall_ms
from roketto.protocol.bodies.base import Body, decode_body, encode_body
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.errors import BodyError
from roketto.store.errors import TableFullError
from roketto.store.files import SMALL_BYTES_MAX, Files
from roketto.store.jsonfile import JsonFile, encode_table
from roketto.store.unknown_members import (
    Unknown,
    find_unknown,
    forget_unknown,
    merge_unknown,
    parse_tree,
)

__all__ = ["Table"]

ENTRY_BYTES_MAX: Final = 65_536
"""One topic, group or filter: some hundred bytes, more with attributes or a long expression."""

B = TypeVar("B", bound=Body)

# Zeros are what a file system leaves where data never came; inside a string they would be read.
_NEVER_WRITTEN: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@mypyc_attr(allow_interpreted_subclasses=True)
class Table(Generic[B]):
    """One table. It belongs to one thread; ``body`` may be read, and is changed by methods only.

    ``member`` is the one that every file of this table has. Every ``version_step`` changes the
    table gets a new data version, with the ``state_version`` of that moment.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        kind: type[B],
        member: str,
        *,
        version_step: int = 1,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.path = path
        self.state_version = 0
        """The epoch of the master where a controller elects it, else 0."""
        self._kind = kind
        self._member = member
        self._version_step = version_step
        self._clock_ms = clock_ms
        self._file = JsonFile(files, path, self._parse)
        self._body: B = kind()
        self._unknown: Unknown | None = None
        self._is_changed = False
        self._changes = 0
        self._start_version()

    @property
    def body(self) -> B:
        """All that the table has, as it is sent to slaves."""
        return self._body

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to save."""
        return self._is_changed

    def load(self) -> str | None:
        """Read the file; empty if there is none. The text says why the backup had to be taken.

        CorruptStoreError if there is a file and neither it nor its backup can be read.
        """
        loaded = self._file.load()
        self._body, self._unknown = (self._kind(), None) if loaded is None else loaded.value
        self._is_changed = False
        self._start_version()
        if loaded is None or loaded.problem is None:
            return None
        self._is_changed = True  # the next save gives the table its second copy back
        return f"{loaded.problem}; {loaded.path}, the version before the last, is used instead"

    def text(self) -> bytes:
        """The table as its file has it."""
        return encode_table(merge_unknown(self._body, self._unknown))

    def save_if_changed(self) -> bool:
        """Replace the file, durably, if the table has changed since; whether it had.

        After an error it still has, and the file is what it was or what it should be.
        """
        save = self.take_save()
        if save is None:
            return False
        save()
        return True

    def prepare(self, count_max: int) -> bool:
        """Do some of the work of the next save, of so many entries; whether nothing is left."""
        return True

    def take_save(self) -> Callable[[], None] | None:
        """What replaces the file by the table of this moment, None if it has not changed.

        It blocks for the disk and may be done in any thread, one of a table at a time.
        """
        if not self._is_changed:
            return None
        text = self.text()
        if len(text) > SMALL_BYTES_MAX:
            raise TableFullError(
                f"{self.path} would have {len(text)} bytes, at most {SMALL_BYTES_MAX} can be read "
                "again; it stays as it was saved last; remove entries"
            )
        self._is_changed = False

        def save() -> None:
            try:
                self._file.save(text)
            except BaseException:
                self._is_changed = True
                raise

        return save

    # --- for the tables made of this one ------------------------------------------------------

    def _put(
        self, entries: dict[str, Any], name: str, value: Body, entries_max: int, *way: str
    ) -> None:
        """Give ``name`` a value in ``entries``, which is the member at the end of ``way``."""
        text = encode_body(value)
        if len(text) > ENTRY_BYTES_MAX:
            raise TableFullError(
                f"{name[:255]!a} would have {len(text)} bytes in {self.path}, "
                f"at most {ENTRY_BYTES_MAX} are taken; give it fewer attributes or shorter ones"
            )
        assert decode_body(type(value), text) == value, "one bad entry would spoil the whole file"
        if name not in entries:
            self._make_room(len(entries), entries_max)
            forget_unknown(self._unknown, *way, name)
        entries[name] = value
        self._change()

    def _make_room(self, count: int, count_max: int) -> None:
        if count >= count_max:
            raise TableFullError(
                f"{self.path} has {count} entries, at most {count_max} are taken; "
                "remove those that nobody uses"
            )

    def _change(self) -> None:
        self._is_changed = True
        self._changes += 1
        if self._changes % self._version_step == 0:
            self._next_version()

    def _next_version(self) -> None:
        version: DataVersion | None = getattr(self._body, "data_version", None)
        if version is not None:
            version.counter += 1
            version.timestamp = self._clock_ms()
            version.state_version = self.state_version

    def _start_version(self) -> None:
        """A table without a version, as 4.x has them, gets one that nobody has seen before."""
        body: Any = self._body
        if getattr(body, "data_version", 0) in (None, DataVersion()):
            body.data_version = DataVersion(timestamp=self._clock_ms())

    def _parse(self, text: bytes) -> tuple[B, Unknown | None]:
        if found := _NEVER_WRITTEN.search(text):
            raise BodyError(f"there is a byte {found[0][0]} at {found.start()}")
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise BodyError(f"it is no UTF-8 at byte {error.start}") from None
        # Brokers write no other blanks, and no string has two lines; other text only takes longer.
        text = b"".join([line.lstrip() for line in text.splitlines()])
        body = decode_body(self._kind, text)
        tree = parse_tree(text)
        if not isinstance(tree, dict) or self._member not in tree:
            raise BodyError(f"it has no {self._member}: it is another table, or none")
        return body, find_unknown(tree, body)
