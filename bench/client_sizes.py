"""How long and how large the benchmark of the client is: the real one, and a first look."""

from dataclasses import dataclass
from typing import Final

BODY_BYTES: Final = 128
QUEUES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The defaults are the real ones."""

    rounds: int = 3
    ramp_s: float = 0.4
    """After a sender has begun, before it is counted."""
    round_s: float = 1.5
    java_ramp_s: float = 5.0
    """Java's producer stands still between its turns: what was on its way then is too late, and
    each of its threads rests for three seconds after a send that has failed."""
    java_warm_up_s: float = 25.0
    """Of Java's producer, and of the broker under it; its rates still rise after 20 s."""
    backlog: int = 80_000
    java_warm_up_messages: int = 200_000
    """Of Java's consumer."""
    other_rounds: int = 2
    other_ramp_s: float = 1.5
    """A JVM in a client's process begins slowly."""
    other_round_s: float = 1.5
    other_backlog: int = 20_000
    other_consume_s: float = 3.0
    """How long another client may take for the measured part of its backlog."""


QUICK: Final = Sizes(
    rounds=1,
    ramp_s=0.2,
    round_s=0.4,
    java_ramp_s=4.0,
    java_warm_up_s=1.0,
    backlog=8_000,
    java_warm_up_messages=8_000,
    other_rounds=1,
    other_ramp_s=0.2,
    other_round_s=0.4,
    other_backlog=2_000,
    other_consume_s=1.0,
)
