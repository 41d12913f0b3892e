"""How far the recovery of a store is, for those who wait for their broker."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from roketto.clock import monotonic_s

__all__ = ["RecoveryProgress"]

log = logging.getLogger(__name__)

_PROGRESS_S: Final = 3.0
"""How often a recovery says how far it is; one that is done before says nothing."""
_MIB: Final = 1 << 20


class RecoveryProgress:
    """Tells the log of the broker, every few seconds, how far the recovery of its store is."""

    def __init__(self, root: Path, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._root = root
        self._clock_s = clock_s
        self._due_s = clock_s() + _PROGRESS_S

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        now_s = self._clock_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + _PROGRESS_S
        log.info(
            "recovering the store %s: %d %% of the log, %d of %d MiB, have been read",
            self._root, done_bytes * 100 // total_bytes, done_bytes // _MIB, total_bytes // _MIB,
        )  # fmt: skip
