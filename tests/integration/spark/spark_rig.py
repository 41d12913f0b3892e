"""What Spark tests do with a cluster: make topics, send into chosen queues, ask offsets."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from integration.admin.admin_rig import until_routed
from roketto.admin.api import Admin
from roketto.client.message import Message, MessageQueue, SendResult
from roketto.client.producer import Producer
from roketto.remoting.loop import run
from servers import ServerProcess

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AnyRig:
    """A running cluster, ours or Java's.

    rig.topic("Orders", queues=2)
    rig.send("Orders", [Message("Orders", b"1")], queue_id=0)
    """

    names: str

    def options(self, **more: str) -> dict[str, str]:
        """Options of a source or sink on this cluster."""
        return {"nameServer": self.names, **more}

    def admin(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """What an administrator does, in a loop of its own."""

        async def main() -> T:
            async with Admin(self.names) as admin:
                return await work(admin)

        return run(main())

    def topic(
        self,
        name: str,
        queues: int = 1,
        brokers: int = 1,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic, or give it more queues, and wait for its route."""

        async def work(admin: Admin) -> str:
            await admin.topics.create(
                name, read_queues=queues, write_queues=queues, attributes=attributes
            )
            await until_routed(admin, name, brokers)
            while True:
                route = await admin.topics.route(name)
                if all(data.read_queue_nums == queues for data in route.queue_datas):
                    return name
                await asyncio.sleep(0.02)

        return self.admin(work)

    def send(
        self,
        topic: str,
        messages: Sequence[Message | bytes | str],
        queue_id: int | None = None,
        broker_name: str = "broker-a",
    ) -> list[SendResult]:
        """Send one behind the other, so that offsets follow the order."""

        async def main() -> list[SendResult]:
            queue = None if queue_id is None else MessageQueue(broker_name, queue_id, topic)
            async with Producer("spark-tests", self.names) as producer:
                return [await producer.send(_message(topic, one), queue=queue) for one in messages]

        return run(main())


@dataclass(frozen=True, slots=True)
class Rig(AnyRig):
    """A cluster of one name server and one broker of ours."""

    broker: ServerProcess
    folder: Path


def _message(topic: str, given: Message | bytes | str) -> Message:
    if isinstance(given, Message):
        return given
    return Message(topic, given.encode() if isinstance(given, str) else given)
