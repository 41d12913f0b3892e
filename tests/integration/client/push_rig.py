"""What tests of push consumers need: consumers that remember what they got, and who got what."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from itertools import count
from typing import Any

import pytest

from integration.client.pull_rig import PullRig, name
from patience import LateError
from roketto.client import pull_loop, push_rounds
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer
from roketto.client.received import ReceivedMessage

QUICK = {push_rounds: "_AGAIN_S", pull_loop: "FAILED_S"}
"""What tests do not wait for as long as users do: the next round, and the next look at a pause."""

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER

Answer = Callable[[ReceivedMessage], ConsumeResult | None]


class Heard:
    """A listener that notes what it hears; ``answer`` may answer otherwise than SUCCESS."""

    def __init__(self, answer: Answer | None = None, pause_s: float = 0.0) -> None:
        self.messages: list[ReceivedMessage] = []
        self._answer = answer
        self._pause_s = pause_s
        self._changed = asyncio.Event()

    async def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult | None:
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
        self.messages += messages
        self._changed.set()
        return SUCCESS if self._answer is None else self._answer(messages[0])

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.bodies)

    async def until(self, is_so: Callable[[], bool], wait_s: float = 15.0) -> None:
        """Wait until something is so, which can only change when a message comes."""
        try:
            async with asyncio.timeout(wait_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise LateError(f"it was not so after {len(self.messages)} messages") from None

    async def more(self, count: int) -> None:
        """Wait until so many more were heard."""
        enough = len(self.messages) + count
        await self.until(lambda: len(self.messages) >= enough)

    async def all_of(self, bodies: Collection[str], wait_s: float = 15.0) -> None:
        """Wait until each of these was heard."""
        await self.until(lambda: set(bodies) <= set(self.bodies), wait_s)


def push(rig: PullRig, topic: str, group: str | None = None, **options: Any) -> PushConsumer:
    """A consumer of all messages of a topic, from the first one on."""
    options.setdefault("from_where", FromWhere.FIRST)
    options.setdefault("topics", {topic: "*"})
    return PushConsumer(group or name(), rig.names, **options)


def texts(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, constant in QUICK.items():
        monkeypatch.setattr(module, constant, 0.1)


async def send_until(
    rig: PullRig, topic: str, sent: list[str], is_enough: asyncio.Event, queues: int = 2
) -> None:
    """Send numbers to all queues in turn until it is enough."""
    for number in count():
        if is_enough.is_set():
            return
        await rig.send(topic, [number], number % queues)
        sent.append(str(number))
        await asyncio.sleep(0.001)
