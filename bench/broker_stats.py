"""What statistics cost: the same sends with them and without, by turns, in this process.

A send goes the broker's own way from the bytes of a read to those of its answer, only that nobody
writes them to a socket. With one it takes longer, and the share of the statistics is smaller: what
is found here is the most that they can cost.
"""

import asyncio
import statistics
import time
from asyncio import Transport
from collections.abc import Iterable
from typing import Any, Final

from broker_frames import send_frames
from broker_rig import QUEUES, TOPIC, Rig
from report import Report
from roketto.broker.app import Broker
from roketto.broker.config import BrokerConfig
from roketto.broker.dispatch import Dispatcher
from roketto.broker.lanes import Lanes
from roketto.protocol.bodies.topics import TopicConfig
from roketto.remoting.connection import Connection
from roketto.remoting.settings import ConnectionSettings
from store_sizes import scratch

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


class _Sink(Transport):
    """A peer that reads everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self.writes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.writes += 1

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.writes += 1


async def _send_by_turns(slices: int) -> tuple[float, float]:
    """Nanoseconds of a send without statistics, and with them."""
    with scratch() as folder:
        broker = Broker(
            BrokerConfig(store_path_root_dir=folder, broker_ip1="127.0.0.1", listen_port=0)
        )
        await broker.start()
        try:
            return await _take_turns(broker, slices)
        finally:
            await broker.stop()


async def _take_turns(broker: Broker, slices: int) -> tuple[float, float]:
    context = broker.context
    queues = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    context.topics.put(queues)
    settings = ConnectionSettings()
    connection = Connection(Dispatcher(context).handle, settings, lane=Lanes(context))
    sink = _Sink()
    connection.connection_made(sink)
    data = b"".join(send_frames([TOPIC], QUEUES, _BODY_BYTES) * (_READ // QUEUES))
    taken: dict[bool, list[int]] = {False: [], True: []}
    turns = _WARM_UP + slices
    for number in range(turns):
        for is_counting in (number % 2 == 0, number % 2 == 1):
            context.stats.is_counting = is_counting
            taken[is_counting].append(_send(connection, data))
            await asyncio.sleep(0)  # the broker has its turn, too
    sent = _SLICE * _READ
    assert sink.writes == turns * 2 * _SLICE, "each read has its answers"
    assert context.stats.put.count == turns * sent, "one half of them counts"
    off_ns, on_ns = (statistics.median(taken[way][_WARM_UP:]) / sent for way in (False, True))
    return off_ns, on_ns


def _send(connection: Connection, data: bytes) -> int:
    """How long the processor worked for it: others on the machine are not to be counted."""
    begin_ns = time.thread_time_ns()
    for _ in range(_SLICE):
        connection.data_received(data)
    return time.thread_time_ns() - begin_ns
