"""A table most of which is one map of names; the text of each entry is kept for the next save.

A broker has thousands of topics, and one of them changes at a time. To write them all anew would
take the loop away from everybody else for some 15 us each; so only what has changed is written, and
the rest joined::

    {                                   the table without its entries, written each time
        "dataVersion":{...},
        "topicConfigTable":{
                "Orders":{...},         one text for each entry, kept until it changes
                "Bills":{...}
        }
    }
"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from roketto.clock import wall_ms
from roketto.protocol.bodies.base import Body, encode_body
from roketto.store.files import Files
from roketto.store.jsonfile import encode_table, pretty
from roketto.store.table import Table
from roketto.store.unknown_members import inner_unknown, merge_unknown

__all__ = ["EntryTable"]

B = TypeVar("B", bound=Body)

_OPEN: Final = b"{\n\t\t"
_NEXT: Final = b",\n\t\t"
_CLOSE: Final = b"\n\t}"


class EntryTable(Table[B]):
    """A Table whose ``member`` is a map of names; whoever changes an entry says so to ``_mark``.

    ``prepare`` writes some entries at a time, so that others get their turn before ``take_save``,
    which writes what is left.
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
        super().__init__(files, path, kind, member, version_step=version_step, clock_ms=clock_ms)
        self._field: str = kind.__struct_fields__[kind.__struct_encode_fields__.index(member)]
        self._texts: dict[str, bytes] = {}
        """What is in the file for each entry, but for those that are stale."""
        self._stale: dict[str, None] = {}
        """Entries that have no text, or another one than they should; some may be gone."""

    def load(self) -> str | None:
        """See ``Table.load``."""
        problem = super().load()
        self._texts = {}
        self._stale = dict.fromkeys(self._entries())
        return problem

    def prepare(self, count_max: int) -> bool:
        """See ``Table.prepare``."""
        if self._is_changed:
            self._write(count_max)
        return not self._is_changed or not self._stale

    def text(self) -> bytes:
        """See ``Table.text``."""
        self._write(len(self._stale))
        body = replace(self._body, **{self._field: {}})
        text = encode_table(merge_unknown(body, self._unknown))
        entries, texts = self._entries(), self._texts
        if not entries:
            return text
        before, empty, after = text.partition(b'\n\t"%b":{}' % self._member.encode())
        assert empty, f"{self._member} is not in its table"
        joined = _NEXT.join([texts[name] for name in entries])
        return b"".join((before, empty[:-2], _OPEN, joined, _CLOSE, after))

    def _mark(self, name: str) -> None:
        """An entry is new, has changed, or is gone."""
        self._stale[name] = None

    def _put(
        self, entries: dict[str, Any], name: str, value: Body, entries_max: int, *way: str
    ) -> None:
        super()._put(entries, name, value, entries_max, *way)
        self._mark(name)

    def _entries(self) -> dict[str, Any]:
        entries: dict[str, Any] = getattr(self._body, self._field)
        return entries

    def _write(self, count_max: int) -> None:
        entries, texts = self._entries(), self._texts
        unknown = inner_unknown(self._unknown, self._member)
        for name in list(islice(self._stale, count_max)):
            del self._stale[name]
            if name not in entries:
                texts.pop(name, None)
                continue
            value = merge_unknown(entries[name], inner_unknown(unknown, name))
            texts[name] = pretty(encode_body({name: value}), depth=1)[len(_OPEN) : -len(_CLOSE)]
