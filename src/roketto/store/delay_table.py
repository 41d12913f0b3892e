"""How far each delay level has been delivered: ``config/delayOffset.json``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from roketto.store.files import Files
from roketto.store.table import Table

__all__ = ["DELAY_OFFSETS_FILE", "DelayOffsetTable"]

DELAY_OFFSETS_FILE: Final = "delayOffset.json"

LEVELS_MAX: Final = 1_000
"""RocketMQ has 18, and whoever configures others writes them down one by one."""

VERSION_STEP: Final = 200
"""Java's delayOffsetUpdateVersionStep."""


class DelayOffsetTable(Table[DelayOffsetSerializeWrapper]):
    """Delay level, from 1 -> the offset of the next message in its queue. See ``Table``."""

    def __init__(
        self,
        files: Files,
        config: Path,
        *,
        version_step: int = VERSION_STEP,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        super().__init__(
            files, config / DELAY_OFFSETS_FILE, DelayOffsetSerializeWrapper, "offsetTable",
            version_step=version_step, clock_ms=clock_ms,
        )  # fmt: skip

    @property
    def offsets(self) -> Mapping[int, int]:
        """All levels that were used."""
        return self._body.offset_table

    def get(self, level: int) -> int | None:
        return self._body.offset_table.get(level)

    def put(self, level: int, offset: int) -> None:
        """Set the offset of a level; TableFullError if there are too many."""
        assert 0 < level < 1 << 31, f"level {level} is no positive Java int"
        assert -(1 << 63) <= offset < 1 << 63, f"offset {offset} is no Java long"
        table = self._body.offset_table
        if level not in table:
            self._make_room(len(table), LEVELS_MAX)
        elif table[level] == offset:
            return
        table[level] = offset
        self._change()

    def remove(self, level: int) -> int | None:
        """Forget a level that is configured no more; its offset, None if there was none."""
        removed = self._body.offset_table.pop(level, None)
        if removed is not None:
            self._change()
        return removed
