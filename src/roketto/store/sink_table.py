"""How far sinks are with their batches: ``config/sinks.json``.

The log has every step of them; this table has what those steps have led to, so that a start reads
the last ones only, and so that it is known when retention has removed them all. Java's brokers have
no such file, and leave it alone.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.staged import SinkEntry, SinkTableBody
from roketto.store.entry_table import EntryTable
from roketto.store.files import Files

__all__ = ["SINKS_FILE", "SINKS_MAX", "SinkTable"]

SINKS_FILE: Final = "sinks.json"

SINKS_MAX: Final = 10_000
"""Some 3 MB of JSON; each is a query that runs somewhere."""

_MEMBER: Final = "sinkTable"


class SinkTable(EntryTable[SinkTableBody]):
    """Sink -> how far it is. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(files, config / SINKS_FILE, SinkTableBody, _MEMBER, clock_ms=clock_ms)

    @property
    def sinks(self) -> Mapping[str, SinkEntry]:
        """All of them."""
        return self._body.sink_table

    @property
    def next_offset(self) -> int:
        """The first step, by its offset in its queue, that the table may know nothing of."""
        return self._body.next_offset

    def note_next(self, offset: int) -> None:
        """All steps below are in the table."""
        if offset != self._body.next_offset:
            self._body.next_offset = offset
            self._change()

    def put(self, sink_id: str, entry: SinkEntry) -> None:
        """Add or replace a sink; TableFullError if there are too many."""
        self._put(self._body.sink_table, sink_id, entry, SINKS_MAX, _MEMBER)

    def remove(self, sink_id: str) -> None:
        """Forget a sink, if it is known."""
        if self._body.sink_table.pop(sink_id, None) is not None:
            self._mark(sink_id)
            self._change()
