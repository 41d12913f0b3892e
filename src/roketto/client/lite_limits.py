"""How much a lite pull consumer fetches ahead, and how long it waits.

The defaults are Java's, but for ``pull_count``: a request costs as much as a dozen messages.
"""

from dataclasses import dataclass, fields
from typing import Final

__all__ = ["LiteLimits"]

_COUNT_MAX: Final = 65_535
_BYTES_MAX: Final = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteLimits:
    """Bounds of one consumer; ValueError for what makes no sense.

    A queue is pulled while it has less in hand than all of them say, so that it may exceed each by
    what one pull brings.
    """

    pull_count: int = 256
    """Messages that one request asks for; Java's brokers give no more than 32."""
    queue_count_max: int = 1_000
    """Messages of one queue in hand."""
    queue_bytes_max: int = 100 * 1024 * 1024
    """Their bodies together."""
    queue_span_max: int = 2_000
    """From the offset of the first to that of the last, for filters that want only a few."""
    all_count_max: int = 10_000
    """Messages of all queues in hand."""
    suspend_ms: int = 20_000
    """How long a broker is asked to wait for a message."""
    suspend_timeout_ms: int = 30_000
    """How long its answer is waited for."""
    poll_timeout_ms: int = 5_000
    """How long ``poll`` waits if it is not told."""
    auto_commit_interval_ms: int = 5_000
    """At least a second."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name))
        if self.suspend_timeout_ms < self.suspend_ms:
            raise ValueError(
                f"suspend_timeout_ms is {self.suspend_timeout_ms}, less than suspend_ms"
                f" {self.suspend_ms}: every answer without messages would come too late"
            )
        if self.auto_commit_interval_ms < 1_000:
            raise ValueError(
                f"auto_commit_interval_ms is {self.auto_commit_interval_ms}; it takes 1000 or more;"
                " to commit more often await commit() yourself"
            )


def _check(name: str, value: int) -> None:
    most = _BYTES_MAX if name == "queue_bytes_max" else 3_600_000
    if name.endswith(("pull_count", "count_max", "span_max")):
        most = _COUNT_MAX
    least = 0 if name == "poll_timeout_ms" else 1
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; it takes {least} to {most}")
