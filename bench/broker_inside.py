"""Our broker in the process of the benchmark: what a send costs where nobody writes to a socket.

A send goes the broker's own way from the bytes of a read to those of its answer. With a socket it
takes longer, and the share of any part of it is smaller: what is found here is the most it can be.
"""

import time
from asyncio import Transport
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from roketto.broker.app import Broker
from roketto.broker.config import BrokerConfig
from roketto.broker.context import Context
from roketto.broker.dispatch import Dispatcher
from roketto.broker.lanes import Lanes
from roketto.protocol.bodies.topics import TopicConfig
from roketto.remoting.connection import Connection
from roketto.remoting.settings import ConnectionSettings
from store_sizes import scratch


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


class Inside:
    """A running broker and one connection to it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._sink = _Sink()
        self._connection = Connection(
            Dispatcher(context).handle, ConnectionSettings(), lane=Lanes(context)
        )
        self._connection.connection_made(self._sink)

    @property
    def writes(self) -> int:
        """How often it has answered what was read at once."""
        return self._sink.writes

    def add_topic(self, topic: str, queues: int, **attributes: str) -> None:
        """A topic that takes messages."""
        config = TopicConfig(
            topic_name=topic, read_queue_nums=queues, write_queue_nums=queues,
            attributes={name.replace("_", "."): value for name, value in attributes.items()},
        )  # fmt: skip
        self.context.topics.put(config)

    def take(self, reads: Sequence[bytes]) -> int:
        """Let it answer these; for how many nanoseconds the processor worked for that.

        Others on the machine are not counted.
        """
        begin_ns = time.thread_time_ns()
        for read in reads:
            self._connection.data_received(read)
        return time.thread_time_ns() - begin_ns


@asynccontextmanager
async def broker_inside() -> AsyncIterator[Inside]:
    """A broker with an empty store, until the end of the block."""
    with scratch() as folder:
        broker = Broker(
            BrokerConfig(store_path_root_dir=folder, broker_ip1="127.0.0.1", listen_port=0)
        )
        await broker.start()
        try:
            yield Inside(broker.context)
        finally:
            await broker.stop()
