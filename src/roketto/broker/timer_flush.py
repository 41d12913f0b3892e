"""When the timer wheel comes to the disk: after all that it rests on, off the loop."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

from roketto.broker.config import BrokerConfig
from roketto.clock import monotonic_s
from roketto.store.errors import StoreError
from roketto.store.store import Store
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.timer_store import Frozen, TimerStore

__all__ = ["TimerFlush"]

log = logging.getLogger(__name__)

_SAFE_S: Final = 0.05
"""How often it looks whether the log is on the disk, to flush what rests on it."""
_QUIET_MS: Final = 60_000
"""While nothing comes or goes, how often the time that was reached is saved."""
_CLEAN_S: Final = 30.0


class _Taken(NamedTuple):
    """What comes to the disk together, once the log is there up to ``end``."""

    frozen: Frozen
    end: int
    save_metrics: Callable[[], None] | None


class TimerFlush:
    """The way of one wheel to the disk.

    flush.rests_on(where.end)              # of each message and each copy that the wheel knows of
    task = asyncio.create_task(flush.run())
    flush.close()                          # after the store was closed
    """

    def __init__(
        self, timers: TimerStore, metrics: TimerMetricsTable, store: Store, config: BrokerConfig
    ) -> None:
        self._timers = timers
        self._metrics = metrics
        self._store = store
        self._config = config
        self._end = 0
        self._frozen: _Taken | None = None
        self._has_failed = False
        self._hurry = asyncio.Event()

    def start(self, end: int) -> None:
        """The wheel was loaded, and rests on what is before a log offset."""
        self._end = end
        self._frozen = None

    def rests_on(self, end: int) -> None:
        """The wheel rests on a record that ends there in the log."""
        self._end = max(self._end, end)

    def hurry(self) -> None:
        """Do not wait until it is time: what comes fills the room that there is before a flush."""
        self._hurry.set()

    async def run(self) -> None:
        """Flush every ``timerFlushIntervalMs``, or sooner; never ends by itself."""
        cleaned_s = monotonic_s()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="roketto-timers") as thread:
            while True:
                if self._take() and not self._is_safe:
                    await self._wait_for_log()
                else:
                    await self._wait_for_time()
                try:
                    if self._is_safe:
                        for work in self._work():
                            await loop.run_in_executor(thread, work)
                    if monotonic_s() - cleaned_s >= _CLEAN_S:
                        cleaned_s = monotonic_s()
                        self.remove_old_files()
                except StoreError as full:
                    log.error("the timer wheel cannot be saved, and is tried again: %s", full)
                    await asyncio.sleep(self._interval_s)  # no hurry helps
                except OSError as error:
                    # Nobody knows what the disk has now. The next start finds it out.
                    self._has_failed = True
                    log.critical("the timer wheel is saved no more, a write has failed: %s", error)
                    return

    @property
    def _interval_s(self) -> float:
        return self._config.timer_flush_interval_ms / 1000

    async def _wait_for_log(self) -> None:
        """Wait for what was taken to be safe, for a moment."""
        if self._timers.wants_flush:
            self._store.request_flush()
        await asyncio.sleep(_SAFE_S)

    async def _wait_for_time(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._interval_s):
                await self._hurry.wait()
        self._hurry.clear()  # whoever still needs room says so again

    def flush(self) -> bool:
        """Flush now; False if the log is not on the disk yet."""
        if not self._take():
            return True
        is_safe = self._is_safe
        for work in self._work() if is_safe else ():
            work()
        return is_safe

    def _take(self) -> bool:
        """Whether there is something to flush, which is taken now."""
        timers = self._timers
        if self._frozen is None:
            is_quiet = timers.read_ms - timers.saved.read_ms < _QUIET_MS
            if is_quiet and not timers.is_changed and not self._metrics.is_changed:
                return False
            self._freeze()
        return True

    def _freeze(self) -> None:
        save = self._metrics.take_save()
        self._frozen = _Taken(self._timers.freeze(), self._end, save)

    @property
    def _is_safe(self) -> bool:
        """Whether everything that was taken rests on what is on the disk."""
        return self._frozen is not None and self._frozen.end <= self._store.flushed

    def _work(self) -> Iterator[Callable[[], None]]:
        taken = self._frozen
        assert taken is not None
        yield from self._timers.flush(taken.frozen)
        self._frozen = None
        if taken.save_metrics is not None:
            yield taken.save_metrics

    def remove_old_files(self) -> None:
        """Remove files of the timer log whose messages are gone from the log."""
        timers = self._timers
        removed = timers.log.remove_below(self._store.log.min_offset, timers.saved.log_flushed)
        if removed:
            log.info("%d files of the timer log were removed with their messages", removed)

    def close(self) -> None:
        """Bring everything to the disk, if the log is there."""
        try:
            if self._store.flushed >= self._end and not self._has_failed:
                self._freeze()
                for work in self._work():
                    work()
        except (OSError, StoreError) as error:
            log.error("the timer wheel cannot be saved, and is made up for at the start: %s", error)
        finally:
            self._timers.close()
