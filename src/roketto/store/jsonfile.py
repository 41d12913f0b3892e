"""A table kept as a JSON file in RocketMQ's form, replaced atomically, its predecessor beside it.

Java 5 writes its tables through fastjson2, indented, with the oddities of the wire's dialect::

    {
        "offsetTable":{
                "Orders@billing":{
                        0:13,
                        1:12
                }
        }
    }

Tabs, no blank after a colon, integers as keys, no newline at the end, and arrays of primitive
numbers on one line. Java 4 also puts maps with integer keys on one line. Either reads all of it.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.errors import BodyError
from roketto.store.errors import CorruptStoreError
from roketto.store.files import BACKUP_SUFFIX, Files

__all__ = ["JsonFile", "Loaded", "compact", "decode_table", "encode_table", "pretty"]

T = TypeVar("T")


# --- the form -----------------------------------------------------------------------------------

# Groups are not possessive: Python before 3.11.5 loses its place when one fails half-way.
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"?'
_SINGLE_QUOTED: Final = _STRING.replace(b'"', b"'")
_STRING_OR_BLANKS: Final = re.compile(
    b"(" + _STRING + b"|" + _SINGLE_QUOTED + b")|[ \\t\\r\\n]++", re.DOTALL
)

# The members that are int[] or long[] in Java, not lists: of Bloom filters and retry policies.
_PRIMITIVE_ARRAY: Final = rb'"(?:bitPos|next)":\[[-0-9,]*+\]'
_TOKEN: Final = re.compile(
    _PRIMITIVE_ARRAY + b"|" + _STRING + rb'|\{\}|\[\]|[{}\[\]]|[^{}\[\]"]++', re.DOTALL
)


def pretty(text: bytes, depth: int = 0) -> bytes:
    """JSON without blanks, in the dialect of ``fastjson_write``, as Java 5 indents it.

    ``depth`` is that of the object in which it stands, if it is not the whole text.
    """
    parts: list[bytes] = []
    line = b"\n" + b"\t" * depth
    for token in _TOKEN.findall(text):
        if token in (b"{", b"["):
            line += b"\t"
            parts += (token, line)
        elif token in (b"}", b"]"):
            line = line[:-1]
            parts += (line, token)
        elif token.startswith(b'"'):
            parts.append(token)
        else:  # from the end of one string to the next: colons, numbers, words and commas
            parts.append(token.replace(b",", b"," + line))
    return b"".join(parts)


def compact(text: bytes) -> bytes:
    """The same JSON without blanks; the fast decoders want it like that."""
    return _STRING_OR_BLANKS.sub(rb"\1", text)


def encode_table(value: object) -> bytes:
    """A body as the text of its file."""
    return pretty(encode_body(value))


def decode_table(cls: type[T], text: bytes) -> T:
    """Read the text of a file, of Java 4, Java 5 or ours; BodyError if it is none."""
    return decode_body(cls, compact(text))


# --- the file -----------------------------------------------------------------------------------


class Loaded(NamedTuple, Generic[T]):
    """A table, the file that it came from, and why that is not the main one if it is not."""

    value: T
    path: Path
    problem: str | None


class JsonFile(Generic[T]):
    """One table on disk. Load it once, then save as often as it changes.

        topics = JsonFile(files, config / "topics.json", partial(decode_table, TopicTable))
        loaded = topics.load()
        topics.save(encode_table(table))

    ``parse`` raises BodyError for text that it cannot read.
    """

    def __init__(self, files: Files, path: Path, parse: Callable[[bytes], T]) -> None:
        self.path = path
        self._files = files
        self._parse = parse
        self._is_sound = True

    @property
    def backup(self) -> Path:
        """The version before the last save."""
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def load(self) -> Loaded[T] | None:
        """Read the file, or its backup if that fails; None if there is neither.

        Unlike Java it neither deletes a file that it could not read, nor goes on with an empty
        table in its place: CorruptStoreError. An empty file is one that could not be read.
        """
        value, problem = self._read(self.path)
        self._is_sound = problem is None
        if value is not None:
            return Loaded(value, self.path, None)
        backup, backup_problem = self._read(self.backup)
        if backup is not None:
            return Loaded(backup, self.backup, problem or f"{self.path} is not there")
        if problem is None and backup_problem is None:
            return None
        raise CorruptStoreError(
            self.path,
            0,
            f"{problem or 'it is not there'}; {backup_problem or 'there is no backup'}; "
            "restore one of the files, or remove both to start without this table",
        )

    def save(self, text: bytes) -> None:
        """Replace the file; what it was stays as the backup, unless that was damaged."""
        self._files.make_directory(self.path.parent)
        self._files.replace(self.path, text, keep_previous=self._is_sound)
        self._is_sound = True

    def _read(self, path: Path) -> tuple[T | None, str | None]:
        """The table, or the reason why there is none; neither if there is no file."""
        text = self._files.read(path)
        if text is None:
            return None, None
        if not text:
            return None, f"{path} is empty"
        try:
            return self._parse(text), None
        except BodyError as error:
            return None, f"{path} cannot be read: {error}"
