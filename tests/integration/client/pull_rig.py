"""What tests of pull consumers need of a cluster: topics, and messages in chosen queues."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import Self

from patience import LateError
from roketto.client.client import Client
from roketto.client.errors import TopicNotFoundError
from roketto.client.message import MessageQueue
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.clock import wall_ms
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.offsets import ResetOffsetRequest
from roketto.protocol.headers.send import SendMessageResponse, SendMessageV2Request
from roketto.protocol.headers.topics import CreateTopicRequest
from roketto.protocol.properties import encode_properties

NUMBERS = itertools.count()


class PullRig:
    """A client beside the tested one; ``name()`` makes names of topics and groups."""

    def __init__(self, names: str, address: str) -> None:
        self.names = names
        self.address = address
        self.client = Client(ClientSettings(name_servers=names))

    async def __aenter__(self) -> Self:
        await self.client.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.stop()

    async def topic(self, queues: int = 1, name: str | None = None) -> str:
        """A new topic, when its route is known."""
        name = name or f"Topic{next(NUMBERS)}"
        request = CreateTopicRequest(
            topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
            perm=6, topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        answer = await self.client.calls.ask(
            self.address, RequestCode.UPDATE_AND_CREATE_TOPIC, request
        )
        assert answer.code == 0, answer.remark
        await until(lambda: self._has_route(name))
        return name

    async def _has_route(self, topic: str) -> bool:
        try:
            await self.client.routes.refresh(topic)
        except TopicNotFoundError:
            return False
        return True

    async def send(
        self,
        topic: str,
        bodies: Iterable[object],
        queue_id: int = 0,
        sys_flag: int = 0,
        **properties: str,
    ) -> list[int]:
        """The offsets of messages with these bodies: bytes, or else their texts."""
        offsets = []
        for body in bodies:
            request = SendMessageV2Request(
                producer_group="rig", topic=topic, default_topic="TBW102",
                default_topic_queue_nums=4, queue_id=queue_id, sys_flag=sys_flag,
                born_timestamp=wall_ms(), flag=0, properties=encode_properties(properties).decode(),
            )  # fmt: skip
            answer = await self.client.calls.ask_for(
                SendMessageResponse, self.address, RequestCode.SEND_MESSAGE_V2, request,
                body if isinstance(body, bytes) else str(body).encode(),
            )  # fmt: skip
            offsets.append(answer.queue_offset)
        return offsets

    async def reset(self, group: str, topic: str, queue_offset: int) -> None:
        """What an operator does to a group."""
        request = ResetOffsetRequest(
            group=group, topic=topic, queue_id=0, queue_offset=queue_offset, is_force=True
        )
        answer = await self.client.calls.ask(
            self.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, request
        )
        assert answer.code == 0, answer.remark


def name() -> str:
    return f"group{next(NUMBERS)}"


def queue(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue("broker-a", queue_id, topic)


def bodies(messages: Iterable[ReceivedMessage]) -> list[str]:
    return [message.body.decode() for message in messages]


async def until(is_so: Callable[[], Awaitable[bool]], wait_s: float = 10.0) -> None:
    """Wait for something; AssertionError if it does not happen."""
    for _ in range(int(wait_s / 0.02)):
        if await is_so():
            return
        await asyncio.sleep(0.02)
    raise LateError(f"it was not so within {wait_s} s")
