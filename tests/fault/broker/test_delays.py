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

DELAYS_S: Final = range(1, 4)
LONG_DELAYS_S: Final = range(1, 9)
"""So that there is something to deliver all the time in which a broker is killed twenty times."""
LONGEST_DELAYS_S: Final = range(1, 92, 5)
"""The same, and two hundred times."""


class Delayed(Later):
    """Messages that were sent with a delay; the levels take turns."""

    def __init__(self, site: Site, count: int, delays_s: Sequence[int], patience_s: float) -> None:
        super().__init__(site, count, patience_s)
        self._delays_s = delays_s

    def plan(self, producer: int, number: int) -> Plan:
        at = number % len(self._delays_s)
        level = str(at + 1)
        # Each level delivers in the order of sending; together they do not.
        return Plan(wall_ms() + 1_000 * self._delays_s[at], {DELAY: level}, f"p{producer}-{level}")


async def run_delays(
    folder: Path,
    messages: int,
    kills: int,
    program: Sequence[str] = ("roketto",),
    *,
    delays_s: Sequence[int] = DELAYS_S,
    patience_s: float = PATIENCE_S,
) -> Report:
    """Send all, and kill the broker so many times while it delivers them."""
    config = {**LARGE, "messageDelayLevel": " ".join(f"{delay}s" for delay in delays_s)}
    with Site(folder, config, program=program) as site:
        delayed = Delayed(site, messages, delays_s, patience_s)
        reads = await delayed.deliver(kills, rest_s=delays_s[0] + 0.2)
        site.stop()
    return delayed.judge(reads)


async def test_every_delayed_message_is_delivered_once_through_twenty_kills(tmp_path: Path) -> None:
    """3,000 of eight levels."""
    report = await run_delays(tmp_path, 3_000, 20, delays_s=LONG_DELAYS_S)
    assert (report.read, report.ok) == (3_000, 3_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_hundred_thousand_delayed_messages_through_two_hundred_kills(
    tmp_path: Path,
) -> None:
    """The long tier."""
    await run_delays(tmp_path, 100_000, 200, delays_s=LONGEST_DELAYS_S, patience_s=300.0)


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
