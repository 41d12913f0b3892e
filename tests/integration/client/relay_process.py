"""A process that relays an outbox until it is killed; run by test_databases.py.

python -m integration.client.relay_process DATABASE_URL NAME_SERVER [SENDS]

After so many sends it stands still in the middle of a batch, with the next one on its way.
"""

import asyncio
import sys

from roketto.client.message import Message, SendResult
from roketto.client.outbox import Outbox, OutboxSettings
from roketto.client.outbox_store import SqlAlchemyOutbox
from roketto.client.producer import Producer

SETTINGS = OutboxSettings(batch_count_max=16, lease_s=1.0, poll_s=0.02)


class StallingProducer:
    """A producer that gets no further than some sends."""

    def __init__(self, producer: Producer, sends: int) -> None:
        self.client = producer.client
        self._producer = producer
        self._left = sends

    async def send(self, message: Message) -> SendResult:
        self._left -= 1
        if self._left == -1:
            print("stalled", flush=True)
            await asyncio.Event().wait()
        return await self._producer.send(message)


async def main(url: str, name_server: str, sends: str = "1000000") -> None:
    async with Producer("relay", name_server) as producer:
        stalling = StallingProducer(producer, int(sends))
        async with Outbox(SqlAlchemyOutbox(url), stalling, settings=SETTINGS):
            print("relaying", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
