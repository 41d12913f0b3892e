"""The only source of time: wall milliseconds, monotonic seconds."""

import time

from librt.time import time as wall_s


def wall_ms() -> int:
    """Milliseconds since the epoch, as RocketMQ stamps messages and data versions."""
    return int(wall_s() * 1_000)


def monotonic_s() -> float:
    """Seconds for deadlines and ages; it never goes back when the wall clock is set."""
    return time.monotonic()
