"""The only source of time: wall milliseconds, monotonic seconds."""

import time


def wall_ms() -> int:
    """Milliseconds since the epoch, as RocketMQ stamps messages and data versions."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds for deadlines and ages; it never goes back when the wall clock is set."""
    return time.monotonic()
