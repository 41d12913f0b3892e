"""Delayed messages and kill -9 (F27): each is delivered, none early, and none a second time.

Java's broker, which saves its progress every ten seconds, delivers again what came since.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from checker import Report
from fault.broker.later import PATIENCE_S, Later, Plan
from fault.broker.planted import deliver_again, deliver_early, deliver_some, planted
from fault.broker.site import LARGE, Site
from roketto.clock import wall_ms
from roketto.protocol.property_names import DELAY

DELAYS_S: Final = (1, 2, 3)
CONFIG: Final = {**LARGE, "messageDelayLevel": " ".join(f"{delay}s" for delay in DELAYS_S)}


class Delayed(Later):
    """Messages that were sent with a delay; the levels take turns."""

    def plan(self, producer: int, number: int) -> Plan:
        at = number % len(DELAYS_S)
        level = str(at + 1)
        # Each level delivers in the order of sending; together they do not.
        return Plan(wall_ms() + 1_000 * DELAYS_S[at], {DELAY: level}, f"p{producer}-{level}")


async def run_delays(
    folder: Path,
    messages: int,
    kills: int,
    program: Sequence[str] = ("roketto",),
    patience_s: float = PATIENCE_S,
) -> Report:
    """Send all, and kill the broker so many times while it delivers them."""
    with Site(folder, CONFIG, program=program) as site:
        delayed = Delayed(site, messages, patience_s)
        reads = await delayed.deliver(kills, rest_s=DELAYS_S[0] + 0.2)
        site.stop()
    return delayed.judge(reads)


async def test_every_delayed_message_is_delivered_once_through_three_kills(tmp_path: Path) -> None:
    """3,000 of three levels."""
    report = await run_delays(tmp_path, 3_000, 3)
    assert (report.read, report.ok) == (3_000, 3_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_hundred_thousand_delayed_messages_through_twenty_kills(tmp_path: Path) -> None:
    """The long tier."""
    await run_delays(tmp_path, 100_000, 20)


@pytest.mark.parametrize(
    ("bug", "noticed"),
    [
        (deliver_again, r"duplicate [1-9]"),
        (deliver_early, r"was delivered \d+ ms early"),
    ],
)
async def test_delivering_twice_or_early_is_noticed(
    tmp_path: Path, bug: Callable[[], None], noticed: str
) -> None:
    """Planted: progress that is not kept, and no patience."""
    with pytest.raises(AssertionError, match=noticed):
        await run_delays(tmp_path, 300, 1, planted(bug))


async def test_delivering_not_all_is_noticed(tmp_path: Path) -> None:
    """Planted: some are taken for delivered."""
    with pytest.raises(TimeoutError):
        await run_delays(tmp_path, 300, 1, planted(deliver_some), patience_s=6.0)
