"""What statistics cost: the same sends with them and without, by turns, in this process."""

import asyncio
import statistics
from typing import Final

from broker_frames import send_frames
from broker_inside import Inside, broker_inside
from broker_rig import QUEUES, TOPIC, Rig
from report import Report

_BODY_BYTES: Final = 128
_READ: Final = 2 * QUEUES
"""Sends that come with one read."""
_SLICE: Final = 50
"""Reads between two looks at the clock: a few milliseconds, in which little else happens."""
_WARM_UP: Final = 4
"""Slices of each way that do not count."""
_SHARE_MAX: Final = 3.0
"""Percent of a send."""


def measure_stats(report: Report, rig: Rig) -> None:
    report.begin("stats", f"send of {_BODY_BYTES} B without a socket, with statistics and without")
    slices = max(20, int(rig.sizes.round_s * 200))
    off_ns, on_ns = asyncio.run(_send_by_turns(slices))
    report.add("send without statistics", off_ns, "ns")
    report.add("statistics of a send", on_ns - off_ns, "ns")
    report.add("statistics, share of a send", 100 * (1 - off_ns / on_ns), "%", most=_SHARE_MAX)


async def _send_by_turns(slices: int) -> tuple[float, float]:
    """Nanoseconds of a send without statistics, and with them."""
    async with broker_inside() as broker:
        return await _take_turns(broker, slices)


async def _take_turns(broker: Inside, slices: int) -> tuple[float, float]:
    broker.add_topic(TOPIC, QUEUES)
    reads = [b"".join(send_frames([TOPIC], QUEUES, _BODY_BYTES) * (_READ // QUEUES))] * _SLICE
    taken: dict[bool, list[int]] = {False: [], True: []}
    turns = _WARM_UP + slices
    figures = broker.context.stats
    for number in range(turns):
        for is_counting in (number % 2 == 0, number % 2 == 1):
            figures.is_counting = is_counting
            taken[is_counting].append(broker.take(reads))
            await asyncio.sleep(0)  # the broker has its turn, too
    sent = _SLICE * _READ
    assert broker.writes == turns * 2 * _SLICE, "each read has its answers"
    assert figures.put.count == turns * sent, "one half of them counts"
    off_ns, on_ns = (statistics.median(taken[way][_WARM_UP:]) / sent for way in (False, True))
    return off_ns, on_ns
