"""Push consumers of ours that note what they get, as those of Java do that are told to."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from interop.broker.clients import Message as JavaMessage
from interop.client.sites import Site
from interop.client.waiting import WAIT_S
from patience import LateError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage
from roketto.client.subscription import Sql
from roketto.clock import wall_ms

QUICK: Final = PushTuning(suspend_ms=100, reconsume_max=16)


@dataclass(frozen=True, slots=True)
class Got:
    """One message that a listener of somebody has had."""

    who: str
    topic: str
    queue: int
    offset: int
    body: str
    times: int
    at_ms: int


class Listener:
    """Notes every message. It fails those whose body starts with "fail" until they have been tried
    again ``fails`` times, with ``delay_level`` for the next time.
    """

    def __init__(self, who: str, fails: int = 0, delay_level: int = 0) -> None:
        self.messages: list[ReceivedMessage] = []
        self.got: list[Got] = []
        self.calls: list[int] = []
        """How many messages each call had."""
        self._who = who
        self._fails = fails
        self._delay_level = delay_level
        self._changed = asyncio.Event()

    async def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult:
        context.delay_level = self._delay_level
        self.messages += messages
        self.calls.append(len(messages))
        self.got += [
            Got(self._who, one.topic, one.queue_id, one.queue_offset, one.body.decode(),
                one.reconsume_times, wall_ms())
            for one in messages
        ]  # fmt: skip
        self._changed.set()
        is_failed = any(self.fails(one.body, one.reconsume_times) for one in messages)
        return ConsumeResult.LATER if is_failed else ConsumeResult.SUCCESS

    def fails(self, body: bytes, times: int) -> bool:
        return body.startswith(b"fail") and times < self._fails

    @property
    def bodies(self) -> list[str]:
        return [one.body for one in self.got]

    async def until(self, is_so: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
        """Wait until it is so, which can only change when a message comes."""
        try:
            async with asyncio.timeout(wait_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise LateError(f"waited in vain for {what}; there is {self.bodies}") from None

    async def received(self, count: int, wait_s: float = WAIT_S) -> list[ReceivedMessage]:
        """What it has got, when it is so many messages."""
        await self.until(lambda: len(self.messages) >= count, f"{count} messages", wait_s)
        return self.messages


def consumer(
    site: Site, group: str, listener: Listener, topics: Collection[str] | dict[str, str | Sql],
    **options: Any,
) -> PushConsumer:  # fmt: skip
    """A consumer of these topics from the first message on; ``options`` are PushConsumer's."""
    wanted = topics if isinstance(topics, dict) else dict.fromkeys(topics, "*")
    options = {"from_where": FromWhere.FIRST, "tuning": QUICK, **options}
    return PushConsumer(group, site.names, topics=wanted, listener=listener, **options)


def shown(messages: Iterable[JavaMessage]) -> list[Got]:
    """The same of what Java's consumers have noted."""
    return [
        Got(one.consumer, one.topic, one.queue, one.offset, one.body, one.times, one.at_ms)
        for one in messages
    ]


def own_queues(consumer: PushConsumer, topic: str) -> set[int]:
    """The queues of a topic that a consumer has now."""
    return {queue.queue_id for queue in consumer.queues if queue.topic == topic}
