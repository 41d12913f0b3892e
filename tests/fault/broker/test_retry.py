"""Messages that always fail (F31): tried as often as configured, then dead letters, once each."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from fault.appender import body_of, value_of
from fault.broker.consumer import Consumer, GroupRecord
from fault.broker.later import count_of
from fault.broker.planted import planted, retry_once_more
from fault.broker.producers import properties_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, connected, read_queue, send
from roketto.protocol.names import dlq_topic, retry_topic

GROUP: Final = "G"
TOPIC: Final = tuple(Queue("T", number) for number in range(8))
RETRY: Final = Queue(retry_topic(GROUP), 0)
DEAD: Final = Queue(dlq_topic(GROUP), 0)
RETRIES: Final = 2
RETRIES_BY_DEFAULT: Final = 16
PATIENCE_S: Final = 60.0
PATIENCE_EACH_S: Final = 0.02
"""How long the dead letters may take to come, and so much longer for each of them."""


async def send_all(address: str, messages: int) -> None:
    async with connected(address) as connection:
        for first in range(0, messages, 50):
            values = [f"f{number}" for number in range(first, min(first + 50, messages))]
            await asyncio.gather(
                *(
                    send(connection, TOPIC[number % 8], body_of(value), properties_of(value))
                    for number, value in enumerate(values)
                )
            )


async def dead_letters(address: str, count: int) -> Counter[str]:
    """The values of dead letters, once there are so many."""
    patience_s = PATIENCE_S + count * PATIENCE_EACH_S
    async with connected(address) as connection, asyncio.timeout(patience_s):
        while await count_of(connection, [DEAD]) < count:  # noqa: ASYNC110 (its broker)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.2)  # one more would come after a second
        records = await read_queue(connection, DEAD)
    return Counter(value_of(bytes(record.body)) for record in records)


async def run_failures(
    folder: Path,
    messages: int,
    program: Sequence[str] = ("roketto",),
    asked: int | None = RETRIES,
) -> None:
    """Let all fail, always. The consumer asks for so many retries, or leaves it to the broker."""
    retries = RETRIES_BY_DEFAULT if asked is None else asked
    record = GroupRecord()
    with Site(folder, {**LARGE, "messageDelayLevel": "1s"}, program=program) as site:
        address = site.start().address
        await send_all(address, messages)
        # One member: two would share out queues anew, and give back twice what is in hand then.
        member = Consumer(
            address, GROUP, "member", (*TOPIC, RETRY), record,
            fails=lambda message: True, reconsume_times_max=asked,
        )  # fmt: skip
        await member.start()
        dead = await dead_letters(address, messages)
        await member.leave()
        site.stop()
    values = {f"f{number}" for number in range(messages)}
    assert dead == Counter(values), "a message is no dead letter, or one twice"
    assert record.tries.keys() == values
    wrong = {
        value: times for value, times in record.tries.items() if times != [*range(retries + 1)]
    }
    assert not wrong, f"tried another number of times: {list(wrong.items())[:5]}"
    tries = messages * (retries + 1)
    print(f"{messages} messages failed {tries} times; {sum(dead.values())} are dead letters")


async def test_what_always_fails_is_a_dead_letter_once(tmp_path: Path) -> None:
    """1,000 messages, each with two retries."""
    await run_failures(tmp_path, 1_000)


async def test_by_default_a_message_is_a_dead_letter_after_sixteen_retries(tmp_path: Path) -> None:
    """Neither the group nor its consumer says how often; only the delays are short."""
    await run_failures(tmp_path, 100, asked=None)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_very_many_failures_are_dead_letters_once(tmp_path: Path) -> None:
    """The long tier: 100,000 failures."""
    await run_failures(tmp_path, 33_334)


async def test_a_try_too_many_is_noticed(tmp_path: Path) -> None:
    """Planted: the broker counts one further."""
    with pytest.raises(AssertionError, match="tried another number of times"):
        await run_failures(tmp_path, 50, planted(retry_once_more))
