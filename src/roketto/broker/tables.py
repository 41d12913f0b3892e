"""The tables of a broker's store: loaded together, saved off the loop when they change."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from roketto.store.delay_table import DelayOffsetTable
from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.store.filter_table import FilterTable
from roketto.store.group_table import GroupTable
from roketto.store.mode_table import ModeTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.sink_table import SinkTable
from roketto.store.table import Table
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.topic_table import TopicTable
from roketto.store.transaction_metrics import TransactionMetricsTable

log = logging.getLogger(__name__)

SOON_S: Final = 0.05
"""After a topic or group was made on first use: those of one burst are saved together."""
_SLICE_ENTRIES: Final = 64
"""Entries of a table whose texts are made before others get their turn: a millisecond."""


class Tables:
    """Topics, groups, offsets of consumers and delays, filters, modes and sinks of one store.

    tables = Tables(Files(), store_root)
    tables.load()                          # CorruptStoreError
    saving = asyncio.create_task(tables.keep_saved(5.0))
    tables.save_soon()                     # something changed that must not wait
    await tables.saved()                   # StoreError; somebody waits for it
    tables.save_all()                      # at the end, on this thread

    Their texts are made on the loop, where nobody changes them meanwhile; a thread waits for the
    disk. A save that fails is tried again with the next one, and told once.
    """

    def __init__(self, files: Files, root: Path) -> None:
        config = root / "config"
        self.topics = TopicTable(files, config)
        self.groups = GroupTable(files, config)
        self.offsets = ConsumeOffsetTable(files, config)
        self.delays = DelayOffsetTable(files, config)
        self.filters = FilterTable(files, config)
        self.modes = ModeTable(files, config)
        self.sinks = SinkTable(files, config)
        self.timer_metrics = TimerMetricsTable(files, config)
        self.transaction_metrics = TransactionMetricsTable(files, config)
        self._all: tuple[Table[Any], ...] = (
            self.topics, self.groups, self.offsets, self.delays, self.filters, self.modes,
            self.sinks, self.transaction_metrics,
        )  # fmt: skip
        self._failing: set[Path] = set()
        self._is_urgent = asyncio.Event()
        self._is_awaited = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []

    def load(self) -> None:
        """Read all of them; what was damaged and taken from a backup is in the log."""
        for table in self._all:
            if table is not self.transaction_metrics:
                _tell_problem(table.load())
        self._load_counts(self.timer_metrics, "timer messages are counted from zero on")
        self._load_counts(self.transaction_metrics, "open transactions are counted anew")

    def _load_counts(self, table: Table[Any], otherwise: str) -> None:
        """Read what nothing rests on. Timers save theirs."""
        try:
            _tell_problem(table.load())
        except StoreError as error:
            _tell_problem(f"{otherwise}: {error}")

    def save_soon(self) -> None:
        """Do not wait for the next round."""
        self._is_urgent.set()

    async def saved(self) -> None:
        """Return when all that has changed by now is saved; StoreError if it cannot be."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(saved)
        self._is_awaited.set()
        self.save_soon()
        await saved

    async def keep_saved(self, interval_s: float) -> None:
        """Save what changes, every ``interval_s`` and when somebody asks for it; never ends."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="roketto-tables") as thread:
            while True:
                if await _is_set(self._is_urgent, interval_s):
                    await _is_set(self._is_awaited, SOON_S)
                self._is_urgent.clear()
                self._is_awaited.clear()
                waiting, self._waiting = self._waiting, []
                for table in self._all:
                    try:
                        while not table.prepare(_SLICE_ENTRIES):  # noqa: ASYNC110 (it works)
                            await asyncio.sleep(0)
                        save = table.take_save()
                        if save is not None:
                            await loop.run_in_executor(thread, save)
                    except (OSError, StoreError) as error:
                        self._note_failure(table, error)
                    else:
                        self._failing.discard(table.path)
                self._tell(waiting)

    def _tell(self, waiting: "list[asyncio.Future[None]]") -> None:
        """Let those go on who wait for a round that is over."""
        for saved in waiting:
            if saved.done():  # nobody waits any more
                continue
            if self._failing:
                names = ", ".join(sorted(map(str, self._failing)))
                saved.set_exception(
                    StoreError(f"it is changed, but a restart would forget it: cannot save {names}")
                )
            else:
                saved.set_result(None)

    def save_all(self) -> None:
        """Save what has changed, now."""
        for table in self._all:
            try:
                table.save_if_changed()
            except (OSError, StoreError) as error:
                self._note_failure(table, error)
        waiting, self._waiting = self._waiting, []
        self._tell(waiting)

    def _note_failure(self, table: Table[Any], error: Exception) -> None:
        if table.path not in self._failing:
            self._failing.add(table.path)
            log.error("%s cannot be saved, and is tried again: %s", table.path, error)


def _tell_problem(problem: str | None) -> None:
    if problem is not None:
        log.warning("%s", problem)


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for so long at most; whether it has happened."""
    try:
        # Not wait_for: before Python 3.12 it may swallow the cancellation of a stop.
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
