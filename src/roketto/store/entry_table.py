"""A table most of which is maps by name; the text of each entry is kept for the next save.

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
from roketto.store.unknown_members import Unknown, inner_unknown, merge_unknown

__all__ = ["EntryTable"]

B = TypeVar("B", bound=Body)

_OPEN: Final = b"{\n\t\t"
_NEXT: Final = b",\n\t\t"
_CLOSE: Final = b"\n\t}"


class EntryTable(Table[B]):
    """A Table of maps by name, its ``member`` among them; ``_mark`` says which entry has changed.

    ``prepare`` writes some entries at a time, so that others get their turn before ``take_save``,
    which writes what is left.
    """

    def __init__(
        self,
        files: Files,
        path: Path,
        kind: type[B],
        member: str,
        *more: str,
        version_step: int = 1,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        super().__init__(files, path, kind, member, version_step=version_step, clock_ms=clock_ms)
        self._maps = [_Map(kind, name) for name in (member, *more)]

    def load(self) -> str | None:
        """See ``Table.load``."""
        problem = super().load()
        for each in self._maps:
            each.forget(self._body)
        return problem

    def prepare(self, count_max: int) -> bool:
        """See ``Table.prepare``."""
        if not self._is_changed:
            return True
        for each in self._maps:
            if each.stale:
                each.write(self._body, self._unknown, count_max)
                break
        return not any(each.stale for each in self._maps)

    def text(self) -> bytes:
        """See ``Table.text``."""
        body, unknown = self._body, self._unknown
        filled = [each for each in self._maps if getattr(body, each.field)]
        emptied = replace(body, **{each.field: {} for each in filled})
        text = encode_table(merge_unknown(emptied, unknown))
        for each in filled:
            each.write(body, unknown, len(each.stale))
            text = each.fill(text, body)
        return text

    def _mark(self, name: str, which: int = 0) -> None:
        """An entry of a map is new, has changed, or is gone."""
        self._maps[which].stale[name] = None

    def _put(
        self, entries: dict[str, Any], name: str, value: Body, entries_max: int, *way: str
    ) -> None:
        super()._put(entries, name, value, entries_max, *way)
        self._mark(name)


class _Map:
    """The texts of one map of a table."""

    __slots__ = ("_member", "_texts", "field", "stale")

    def __init__(self, kind: type[Body], member: str) -> None:
        self.field: str = kind.__struct_fields__[kind.__struct_encode_fields__.index(member)]
        self.stale: dict[str, None] = {}
        """Entries that have no text, or another one than they should; some may be gone."""
        self._member = member
        self._texts: dict[str, bytes] = {}

    def forget(self, body: Body) -> None:
        """All entries are other ones."""
        self._texts = {}
        self.stale = dict.fromkeys(getattr(body, self.field) or ())

    def write(self, body: Body, unknown: Unknown | None, count_max: int) -> None:
        """Make the texts of some that are stale."""
        entries = getattr(body, self.field) or {}
        unknown = inner_unknown(unknown, self._member)
        for name in list(islice(self.stale, count_max)):
            del self.stale[name]
            if name in entries:
                value = merge_unknown(entries[name], inner_unknown(unknown, name))
                text = pretty(encode_body({name: value}), depth=1)
                self._texts[name] = text[len(_OPEN) : -len(_CLOSE)]
            else:
                self._texts.pop(name, None)

    def fill(self, text: bytes, body: Body) -> bytes:
        """Put the entries in the text of a table that has none of them."""
        before, empty, after = text.partition(b'\n\t"%b":{}' % self._member.encode())
        assert empty, f"{self._member} is not in its table"
        joined = _NEXT.join([self._texts[name] for name in getattr(body, self.field)])
        return b"".join((before, empty[:-2], _OPEN, joined, _CLOSE, after))
