"""Who may relay an outbox: one at a time, by a row that its holder counts up.

No clocks of two machines are compared. Whoever waits for the lease sees by its own clock for how
long nobody has counted it up; whoever has it takes it for lost a little earlier.
"""

import os
import secrets
from collections.abc import Callable
from typing import Final

from roketto.client.outbox_store import Holder, LeaseRow
from roketto.clock import monotonic_s

__all__ = ["Lease", "make_holder_name"]

_PATIENCE: Final = 1.25
"""Of the lease's time, until it is taken from a holder who is silent."""


def make_holder_name(ip: str) -> str:
    """A name that nobody else has."""
    return f"{ip}@{os.getpid()}#{secrets.token_hex(8)}"


class Lease:
    """One side of it; ``step`` is called several times in ``seconds``, each in a transaction.

    >>> lease = Lease("me", 10.0)
    >>> lease.is_held
    False
    """

    def __init__(self, name: str, seconds: float, now_s: Callable[[], float] = monotonic_s) -> None:
        self.name = name
        self.seconds = seconds
        self._now_s = now_s
        self._held_until_s = float("-inf")
        self._seen: Holder | None = None
        self._seen_s = 0.0
        """When it was first seen as it is."""

    @property
    def is_held(self) -> bool:
        """Whether nobody else can have it now."""
        return self._now_s() < self._held_until_s

    def step(self, row: LeaseRow) -> bool:
        """Renew it, or take it if it is free; whether it is held."""
        begun_s = self._now_s()
        if row.renew(self.name) or self._take(row, begun_s):
            self._held_until_s = begun_s + self.seconds
        else:
            self._held_until_s = float("-inf")
        return self.is_held

    def _take(self, row: LeaseRow, now_s: float) -> bool:
        holder = row.holder()
        if holder != self._seen:
            self._seen, self._seen_s = holder, now_s
        is_silent = now_s - self._seen_s >= self.seconds * _PATIENCE
        return (not holder.name or is_silent) and row.hold(self.name, holder)

    def release(self, row: LeaseRow) -> None:
        """Let the next one have it at once."""
        self._held_until_s = float("-inf")
        row.release(self.name)
