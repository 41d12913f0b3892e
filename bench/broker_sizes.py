"""How long and how large the benchmark of the broker is: the real one, and a first look."""

from dataclasses import dataclass
from typing import Final

from broker_load import REFUSED_SHARE_MAX, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The defaults are the real ones."""

    rounds: int = 3
    round_s: float = 3.0
    pairs: int = 10
    """Of shorter rounds by turns where a tenth of the rate matters: from one long round to the
    next, machine and disk change by as much."""
    java_warm_up_s: float = 32.0
    """Its rates still rise after 20 s of load."""
    warm_up_s: float = 4.0
    send_bodies: tuple[int, ...] = (128, 1024)
    send_loads: tuple[Load, ...] = (
        Load(1, 1), Load(1, 16), Load(16, 1), Load(16, 16), Load(64, 1), Load(64, 16),
    )  # fmt: skip
    batch_loads: tuple[Load, ...] = (Load(1, 1), Load(16, 4))
    pull_loads: tuple[Load, ...] = (Load(1, 1), Load(64, 1), Load(16, 4))
    flush_loads: tuple[Load, ...] = (Load(64, 1), Load(64, 16))
    pull_messages: int = 128_000
    latency_rate: int = 5_000
    latency_s: float = 5.0
    push_messages: int = 400_000
    push_rounds: int = 3
    starts: int = 3
    transaction_loads: tuple[Load, ...] = (Load(1, 1), Load(16, 1), Load(64, 16))
    timer_loads: tuple[Load, ...] = (Load(16, 1), Load(64, 16))
    timers_pending: int = 1_000_000
    timers_due: int = 8_000
    """Messages whose lateness is measured while the others wait."""
    many_topics: int = 10
    many_queues: int = 1_000
    """Of each of these topics."""
    admin_topics: int = 1_000
    """Of eight queues each, and as many groups."""
    admin_times: int = 20
    refused_share_max: float = REFUSED_SHARE_MAX

    @property
    def short_round_s(self) -> float:
        """One of a pair."""
        return self.round_s / 3


QUICK: Final = Sizes(
    rounds=1,
    round_s=0.4,
    pairs=2,
    java_warm_up_s=2.0,
    warm_up_s=0.4,
    send_bodies=(128,),
    send_loads=(Load(1, 1), Load(64, 16)),
    pull_loads=(Load(1, 1), Load(16, 4)),
    pull_messages=12_800,
    latency_rate=1_000,
    latency_s=0.5,
    push_messages=20_000,
    push_rounds=1,
    starts=1,
    transaction_loads=(Load(16, 1),),
    timer_loads=(Load(16, 1),),
    timers_pending=20_000,
    timers_due=800,
    many_topics=2,
    many_queues=100,
    admin_topics=50,
    admin_times=2,
    refused_share_max=1.0,
)
