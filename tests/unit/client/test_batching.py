"""Messages that are sent at about the same time leave together, and each gets its own result."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from roketto.client.batching import Batcher, split_result
from roketto.client.errors import ClientError, IllegalMessageError, SendFailedError
from roketto.client.marked import mark
from roketto.client.message import Message, MessageQueue, SendResult, SendStatus
from roketto.client.send_settings import BatchSettings, SendSettings
from roketto.protocol.batch import decode_batch
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import TOPIC, Answer
from unit.client.sending_rig import HELLO, SendRig, settle, stored

QUEUE = MessageQueue("broker-a", 0, "T")


def rig_of(answer: Answer | None = None, **settings: int) -> SendRig:
    def store(address: str, command: Command) -> Command:
        if command.code != RequestCode.SEND_BATCH_MESSAGE:
            return stored(command)
        count = len(decode_batch(command.body))
        return stored(command, msgId=",".join(f"{number:032X}" for number in range(count)))

    return SendRig(answer or store, SendSettings(batches=BatchSettings(**settings)))


def bodies(command: Command) -> list[bytes]:
    return [bytes(item.body) for item in decode_batch(command.body)]


async def test_what_comes_within_the_delay_is_one_request() -> None:
    rig = rig_of(delay_ms=5)
    async with rig.producer as producer:
        results = await asyncio.gather(
            *(producer.send(Message(TOPIC, b"%d" % number)) for number in range(5))
        )
    ((_, command),) = rig.sends
    assert bodies(command) == [b"0", b"1", b"2", b"3", b"4"]
    assert [result.queue_offset for result in results] == [7, 8, 9, 10, 11]
    assert [result.offset_id for result in results] == [f"{number:032X}" for number in range(5)]
    assert len({result.message_id for result in results}) == 5
    assert producer._batcher is not None
    assert producer._batcher.held_bytes == 0


async def test_more_bytes_than_the_bound_leave_at_once() -> None:
    """More, not as many."""
    rig = rig_of(delay_ms=30_000, bytes_max=10)
    async with rig.producer as producer:
        sends = [asyncio.create_task(producer.send(Message(TOPIC, b"12345"))) for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(*sends), 5)
    ((_, command),) = rig.sends
    assert len(bodies(command)) == 3


async def test_topics_tags_queues_and_wishes_are_kept_apart() -> None:
    rig = rig_of(delay_ms=5)
    rig.routes["Other"] = rig.routes[TOPIC]
    queue = MessageQueue("broker-b", 1, TOPIC)
    async with rig.producer as producer:
        await asyncio.gather(
            *(producer.send(HELLO) for _ in range(2)),
            *(producer.send(replace(HELLO, tags="t")) for _ in range(2)),
            *(producer.send(replace(HELLO, topic="Other")) for _ in range(2)),
            *(producer.send(replace(HELLO, wait_for_store=False)) for _ in range(2)),
            *(producer.send(HELLO, queue=queue) for _ in range(2)),
        )
    assert [len(bodies(command)) for _, command in rig.sends] == [2] * 5


async def test_some_messages_never_wait_for_others() -> None:
    rig = rig_of(delay_ms=30_000)
    async with rig.producer as producer:
        await producer.send(HELLO, timeout_ms=1_000)
        await producer.send(replace(HELLO, delay_ms=5))
        await producer.send(mark(HELLO, {"PGROUP": "orders"}))
        await producer.send_one_way(HELLO)
    codes = {command.code for _, command in rig.sends}
    assert (len(rig.sends), codes) == (4, {RequestCode.SEND_MESSAGE_V2})


async def test_with_too_much_held_messages_go_one_by_one() -> None:
    rig = rig_of(delay_ms=30_000, held_bytes_max=8)
    async with rig.producer as producer:
        held = [asyncio.create_task(producer.send(HELLO)) for _ in range(2)]
        await settle()
        await producer.send(HELLO)
        assert len(rig.sends) == 1
        await producer.stop()  # lets what waits leave
        await asyncio.gather(*held)
    assert len(rig.sends) == 2


async def test_a_message_alone_is_no_batch() -> None:
    rig = rig_of(delay_ms=1)
    async with rig.producer as producer:
        await producer.send(HELLO)
    assert rig.sends[0][1].code == RequestCode.SEND_MESSAGE_V2


async def test_a_message_that_nobody_takes_spoils_no_others() -> None:
    rig = rig_of(delay_ms=5)
    async with rig.producer as producer:
        results = await asyncio.gather(
            producer.send(HELLO),
            producer.send(replace(HELLO, body=b"")),
            producer.send(HELLO),
            return_exceptions=True,
        )
    assert isinstance(results[1], IllegalMessageError)
    assert [type(result) for result in results[::2]] == [SendResult, SendResult]


async def test_a_failure_is_that_of_all_and_a_cancelled_one_does_not_leave() -> None:
    rig = rig_of(lambda address, command: command.answer(ResponseCode.MESSAGE_ILLEGAL), delay_ms=5)
    async with rig.producer as producer:
        sends = [asyncio.create_task(producer.send(Message(TOPIC, b"%d" % n))) for n in range(3)]
        await asyncio.sleep(0.001)
        sends[1].cancel()
        results = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(result) for result in results] == [
        SendFailedError, asyncio.CancelledError, SendFailedError,
    ]  # fmt: skip
    assert bodies(rig.sends[0][1]) == [b"0", b"2"]
    assert producer._batcher is not None
    assert producer._batcher.held_bytes == 0


async def test_a_batch_never_outgrows_a_request() -> None:
    """Large messages do not wait with others if they would be too much together."""
    settings = SendSettings(
        body_bytes_max=1_000, batches=BatchSettings(delay_ms=5, bytes_max=100_000)
    )
    rig = SendRig(lambda address, command: stored(command, batchUniqId="whole"), settings)
    async with rig.producer as producer:
        results = await asyncio.gather(
            *(producer.send(Message(TOPIC, b"x" * 300)) for _ in range(4))
        )
    assert [len(bodies(command)) for _, command in rig.sends] == [2, 2]
    assert [result.message_id for result in results] == ["whole"] * 4


async def test_closing_sends_what_waits_and_waits_for_it() -> None:
    sent: list[int] = []

    async def send(items: list[object], queue: MessageQueue | None) -> SendResult:
        await asyncio.sleep(0)
        sent.append(len(items))
        return SendResult(SendStatus.SEND_OK, "one", QUEUE, 0)

    prepare = SendRig().producer._preparation
    batcher = Batcher(send, BatchSettings(delay_ms=30_000), 10_000)  # type: ignore[arg-type]  # items are not looked at
    futures = [batcher.add(prepare.item(HELLO)) for _ in range(2)]
    await batcher.close()
    assert sent == [2]
    assert [future.result().message_id for future in futures] == ["one", "one"]


def test_results_are_split_or_shared_or_wrong() -> None:
    whole = SendResult(SendStatus.SEND_OK, "a,b", QUEUE, 5, "x,y", region_id="cn")
    first, second = split_result(whole, 2)
    assert (first.message_id, first.offset_id, first.queue_offset) == ("a", "x", 5)
    assert (second.message_id, second.offset_id, second.queue_offset) == ("b", "y", 6)
    assert second.region_id == "cn"
    shared = msgspec.structs.replace(whole, message_id="u")
    assert split_result(shared, 3) == [shared] * 3
    with pytest.raises(ClientError, match="names 2 ids of messages and 2"):
        split_result(whole, 3)
