"""How a push consumer works: how much at once, how much ahead, and when it gives up."""

from dataclasses import dataclass, fields
from typing import Final

from roketto.client.active_consumer import IllegalConsumerError

__all__ = ["PushTuning"]

RECONSUME_MAX: Final = 16
"""How often Java gives a message back before it becomes a dead letter..."""
RECONSUME_IN_ORDER_MAX: Final = 2**31 - 1
"""...and how often it tries one again where order counts: until it succeeds."""
_SUSPEND_MS: Final = (10, 30_000)

_RANGES: Final[dict[str, tuple[float, float]]] = {
    "concurrency": (1, 1000),
    "batch_max": (1, 1024),
    "pull_count_max": (1, 1024),
    "pull_bytes_max": (1, 2**31 - 1),
    "pull_interval_ms": (0, 65_535),
    "cached_count_max": (1, 65_535),
    "cached_mib_max": (1, 1024),
    "topic_cached_count_max": (1, 6_553_500),
    "topic_cached_mib_max": (1, 102_400),
    "span_max": (1, 65_535),
    "reconsume_max": (0, 2**31 - 1),
    "suspend_ms": _SUSPEND_MS,
    "consume_timeout_s": (0.001, 86_400 * 365),
    "stop_timeout_s": (0, 86_400),
}
"""What Java allows, where it has the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTuning:
    """The defaults are those of Java's DefaultMQPushConsumer, but for ``pull_count_max``.

    PushTuning(concurrency=64, batch_max=16)
    """

    concurrency: int = 20
    """Calls of the listener at the same time, in threads or as coroutines."""
    batch_max: int = 1
    """Messages for one call."""
    pull_count_max: int = 256
    """Messages for one pull; Java's brokers give no more than 32 unless they are told to."""
    pull_bytes_max: int = 262_144
    """Bytes for one pull."""
    pull_interval_ms: int = 0
    """A rest after each pull that has found something."""
    cached_count_max: int = 1000
    """Messages of a queue that wait here; with more nothing is pulled."""
    cached_mib_max: int = 100
    """The same by the size of their bodies, in MiB."""
    topic_cached_count_max: int | None = None
    """Messages of all queues that this consumer has, which share it evenly."""
    topic_cached_mib_max: int | None = None
    """And by size, in MiB."""
    span_max: int = 2000
    """From the first offset that is not consumed to the last one pulled, unless in order."""
    reconsume_max: int | None = None
    """How often a message is given back before it becomes a dead letter; 16, and without end where
    order counts."""
    suspend_ms: int = 1000
    """In order: how long a queue waits after a message that could not be consumed."""
    consume_timeout_s: float = 900.0
    """Who takes longer for a message has lost it: another one gets it."""
    stop_timeout_s: float = 10.0
    """How long a stop waits for listeners."""
    sends_expression: bool = False
    """Whether each pull says what is wanted, and not only heartbeats."""

    def __post_init__(self) -> None:
        for name in (item.name for item in fields(self)):
            value = getattr(self, name)
            if name not in _RANGES or value is None:
                continue
            lowest, highest = _RANGES[name]
            if not lowest <= value <= highest:
                raise IllegalConsumerError(f"{name} is {value}; it takes {lowest:g} to {highest:g}")

    def reconsume_limit(self, in_order: bool) -> int:
        """How often a message may be given back."""
        if self.reconsume_max is not None:
            return self.reconsume_max
        return RECONSUME_IN_ORDER_MAX if in_order else RECONSUME_MAX

    def suspend_s(self, asked_ms: int) -> float:
        """How long a queue waits if a listener asks for so much, or with -1 for nothing special."""
        lowest, highest = _SUSPEND_MS
        wait_ms = self.suspend_ms if asked_ms == -1 else asked_ms
        return min(max(wait_ms, lowest), highest) / 1000

    def count_max(self, queues: int) -> int:
        """The messages that may wait of one of so many queues."""
        if self.topic_cached_count_max is None or queues == 0:
            return self.cached_count_max
        return max(1, self.topic_cached_count_max // queues)

    def mib_max(self, queues: int) -> int:
        """The same in MiB of bodies."""
        if self.topic_cached_mib_max is None or queues == 0:
            return self.cached_mib_max
        return max(1, self.topic_cached_mib_max // queues)
