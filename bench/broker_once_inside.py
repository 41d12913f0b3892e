"""What a dedup window costs a send without a socket: sends with it and without, by turns.

The window is as full as it gets: each new id lets an old one be forgotten.
"""

import asyncio
import statistics
from itertools import count
from typing import Final

from broker_frames import send_frames, unique_key
from broker_inside import Inside, broker_inside
from broker_requests import SMALL
from broker_rig import QUEUES, TOPIC

_READ: Final = 2 * QUEUES
"""Sends that come with one read."""
_SLICE: Final = 50
"""Reads between two looks at the clock: a few milliseconds, in which little else happens."""
_FULL: Final = 1.05
"""So many times as many ids as there is room for are sent before."""
_KEY_NAME: Final = b"UNIQ_KEY\\u0001"
_COUNTED: Final = 12
"""The digits that are counted, at the end of the key."""


class _Sends:
    """Sends to the queues of a topic in turn, each with a unique key of its own."""

    def __init__(self, topic: str) -> None:
        self._halves: list[tuple[bytes, bytes]] = []
        for frame in send_frames([topic], QUEUES, SMALL):
            at = frame.index(_KEY_NAME) + len(_KEY_NAME) + len(unique_key(0)) - _COUNTED
            self._halves.append((frame[:at], frame[at + _COUNTED :]))
        self._numbers = count()

    def reads(self) -> list[bytes]:
        """The next ones, for a slice."""
        return [
            b"".join(
                b"%b%012X%b" % (begin, next(self._numbers), end)
                for _ in range(_READ // QUEUES)
                for begin, end in self._halves
            )
            for _ in range(_SLICE)
        ]


def measure_inside(topic: str, slices: int, **attributes: str) -> tuple[float, float]:
    """Nanoseconds of a send to a topic without these attributes, and to one with them."""
    return asyncio.run(_measure(topic, slices, attributes))


async def _measure(topic: str, slices: int, attributes: dict[str, str]) -> tuple[float, float]:
    async with broker_inside() as broker:
        broker.add_topic(TOPIC, QUEUES)
        broker.add_topic(topic, QUEUES, **attributes)
        window = broker.context.topics.windows.of(broker.context.topics.topics[topic])
        assert window is not None
        await window.ready.wait()
        return await _take_turns(broker, topic, slices)


async def _take_turns(broker: Inside, topic: str, slices: int) -> tuple[float, float]:
    sends = {name: _Sends(name) for name in (TOPIC, topic)}
    sent = _SLICE * _READ
    to_fill = int(broker.context.config.dedup_ids_max * _FULL) // sent
    for _ in range(to_fill):
        broker.take(sends[topic].reads())
        await asyncio.sleep(0)  # the broker has its turn, too
    taken: dict[str, list[int]] = {name: [] for name in sends}
    for number in range(slices):
        for name in (TOPIC, topic) if number % 2 == 0 else (topic, TOPIC):
            taken[name].append(broker.take(sends[name].reads()))
            await asyncio.sleep(0)
    turns = to_fill + 2 * slices
    assert broker.writes == turns * _SLICE, "each read has its answers"
    assert broker.context.stats.put.count == turns * sent, "every id is a new one"
    off_ns, on_ns = (statistics.median(taken[name]) / sent for name in (TOPIC, topic))
    return off_ns, on_ns
