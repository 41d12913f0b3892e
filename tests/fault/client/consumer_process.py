"""A process that consumes, and is killed in the middle of a message by test_interrupted.py.

    python -m fault.client.consumer_process KIND NAMES GROUP TOPIC INSTANCE COUNT NOTES [BUG]

With message number COUNT it says so on standard output and never ends it; others go on. What it is
given is written to the file NOTES, a line each: queue id, offset, value.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from evidence import EvidenceWriter
from fault.appender import value_of
from fault.client import planted
from fault.client.cluster import OFFSETS_S
from fault.client.group_log import LIMITS, LITE, ORDERLY, POLLED_MAX, TUNING
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.lite_pull import LitePullConsumer
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings


class Stalling:
    """Notes what it is given, and does not get past one of them."""

    def __init__(self, notes: Path, count: int) -> None:
        self._notes = EvidenceWriter(notes)
        self._left = count

    async def take(self, message: ReceivedMessage) -> None:
        value = value_of(message.body)
        self._notes.write([f"{message.queue_id} {message.queue_offset} {value}"])
        self._left -= 1
        if self._left == 0:
            print(value, flush=True)
            await asyncio.Event().wait()

    async def listen(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult:
        for message in messages:
            await self.take(message)
        return ConsumeResult.SUCCESS


async def consume(
    kind: str, settings: ClientSettings, group: str, topic: str, stalling: Stalling
) -> None:
    if kind == LITE:
        lite = LitePullConsumer(
            group, settings=settings, from_where=FromWhere.FIRST, auto_commit=False, limits=LIMITS
        )
        lite.subscribe(topic)
        async with lite:
            while True:
                for message in await lite.poll(1_000, POLLED_MAX):
                    await stalling.take(message)
                await lite.commit()
    pushed = PushConsumer(
        group, settings=settings, topics={topic: "*"}, listener=stalling.listen,
        in_order=kind == ORDERLY, from_where=FromWhere.FIRST, tuning=TUNING,
    )  # fmt: skip
    async with pushed:
        await asyncio.Event().wait()


def main(
    kind: str, names: str, group: str, topic: str, instance: str, count: str, notes: str,
    bug: str = "",
) -> None:  # fmt: skip
    if bug:
        getattr(planted, bug)(pytest.MonkeyPatch())
    settings = ClientSettings(
        name_servers=names, client_ip="127.0.0.1", instance_name=instance,
        offsets_interval_s=OFFSETS_S,
    )  # fmt: skip
    asyncio.run(consume(kind, settings, group, topic, Stalling(Path(notes), int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
