"""What a producer is told about sending; the defaults are those of Java's producers."""

from dataclasses import dataclass
from enum import Enum

from roketto.protocol.compression import LEVEL_DEFAULT
from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.protocol.names import DEFAULT_TOPIC
from roketto.protocol.sysflags import COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD

__all__ = ["BatchSettings", "Compression", "SendSettings"]

_DELAY_MS_MAX = 30_000
_BATCH_BYTES_MAX = 2 * 1024 * 1024


class Compression(Enum):
    """How bodies are packed. Consumers of before 4.9.4 know ZLIB only."""

    ZLIB = COMPRESSION_ZLIB
    LZ4 = COMPRESSION_LZ4
    ZSTD = COMPRESSION_ZSTD


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How messages that are sent at about the same time are made one request.

    Throughput for latency: a message waits ``delay_ms`` for others to the same topic, with the same
    tags, unless there are ``bytes_max`` of them earlier.
    """

    delay_ms: int = 10
    """How long a message waits for others."""
    bytes_max: int = 32 * 1024
    """Bodies of messages that do not wait any longer."""
    held_bytes_max: int = 32 * 1024 * 1024
    """Bodies that wait or are under way; above it messages are sent one by one."""

    def __post_init__(self) -> None:
        _check("delay_ms", self.delay_ms, 1, _DELAY_MS_MAX)
        _check("bytes_max", self.bytes_max, 1, _BATCH_BYTES_MAX)
        _check("held_bytes_max", self.held_bytes_max, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """Times, sizes, retries.

    Producer("orders", sending=SendSettings(timeout_ms=5_000, retries=3))
    """

    timeout_ms: int = 3_000
    """For a whole send: waiting for its turn, routes, all attempts."""
    attempt_timeout_ms: int | None = None
    """For each attempt but the last; None: whatever is left."""
    retries: int = 2
    """Attempts after the first one, on other brokers if there are any."""
    retries_unsafe: bool = False
    """Whether a message is sent again that was stored but not flushed or replicated in time. Then
    it is stored twice."""
    body_bytes_max: int = MESSAGE_BYTES_MAX
    """Before compression; brokers have such a bound, too."""
    compress_bytes_min: int | None = 4_096
    """Bodies of this size and more are compressed; None: none are."""
    compression: Compression = Compression.ZLIB
    """ZLIB, LZ4 or ZSTD. Consumers of before 4.9.4 know ZLIB only."""
    compression_level: int = LEVEL_DEFAULT
    """Of ZLIB and ZSTD."""
    sends_max: int = 1_024
    """Sends under way; others wait for their turn, within their time."""
    bytes_max: int = 100 * 1024 * 1024
    """Bodies of sends under way."""
    template_topic: str = DEFAULT_TOPIC
    """Topics that brokers make when they are first sent to are made like this one..."""
    template_queues: int = 4
    """...with so many queues."""
    avoids_slow_brokers: bool = False
    """Prefer brokers that were not slow and have not failed; see faults.py."""
    detects_brokers: bool = False
    """Ask brokers that have failed whether they answer again; for ``avoids_slow_brokers``."""
    detect_timeout_ms: int = 200
    """How long such a broker has to answer."""
    detect_interval_ms: int = 2_000
    """How often it is asked."""
    batches: BatchSettings | None = None
    """Let messages that are sent at about the same time be one request."""

    def __post_init__(self) -> None:
        _check("timeout_ms", self.timeout_ms, 1)
        _check("retries", self.retries, 0)
        _check("body_bytes_max", self.body_bytes_max, 1)
        _check("sends_max", self.sends_max, 1)
        _check("bytes_max", self.bytes_max, 1)
        _check("template_queues", self.template_queues, 1)


def _check(name: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name} is {value}; it takes {bounds}")
