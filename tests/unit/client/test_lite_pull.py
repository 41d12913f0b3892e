"""What a lite pull consumer asks of brokers, old ones too, and what it says when they fail."""

import asyncio
from collections.abc import Callable

import pytest

from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    NoNameServerError,
    NotStartedError,
)
from roketto.client.lite_pull import LitePullConsumer
from roketto.client.message import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.offsets import QueryConsumerOffsetResponse
from roketto.protocol.headers.pull import encode_pull_answer
from unit.client.core_rig import GROUP, TOPIC, Rig

QUEUE = MessageQueue("broker-a", 0, TOPIC)
NOTHING = encode_pull_answer(0, 7, 0, 7, 0, 0)


class Brokers:
    """Brokers without messages, whose groups are at offset 7; ``refused`` are codes they refuse."""

    def __init__(self) -> None:
        self.refused: dict[int, int] = {}
        self.rig = Rig(self.answer)

    def answer(self, address: str, command: Command) -> Command:
        if command.code in self.refused:
            return command.answer(self.refused[command.code], remark="not here")
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return command.answer(ext=encode_header(QueryConsumerOffsetResponse(consume_offset=7)))
        if command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return command.answer(ResponseCode.PULL_NOT_FOUND, NOTHING)
        return command.answer()

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(2_000):
            if is_so():
                return
            await asyncio.sleep(0.001)
        raise AssertionError("it never was so")


async def test_a_pull_says_what_is_wanted_and_commits_nothing() -> None:
    """Flags of Java's: lite, expression and suspend; tags have no version."""
    brokers = Brokers()
    consumer = LitePullConsumer(GROUP, client=brokers.rig.client)
    consumer.assign([QUEUE], "a || b")
    async with consumer:
        await brokers.until(lambda: bool(brokers.rig.sent(RequestCode.LITE_PULL_MESSAGE)))
        _, fields = brokers.rig.sent(RequestCode.LITE_PULL_MESSAGE)[0]
        assert (fields["sysFlag"], fields["subVersion"]) == (str(16 | 4 | 2), "0")
        assert (fields["queueOffset"], fields["maxMsgNums"]) == ("7", "256")
        assert (fields["subscription"], fields["suspendTimeoutMillis"]) == ("a || b", "20000")
        assert consumer.describe().subscription_data_set == []


async def test_brokers_of_before_5_are_pulled_from_as_they_know_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They refuse the code of lite pulls; they are asked with it once."""
    brokers = Brokers()
    brokers.refused[RequestCode.LITE_PULL_MESSAGE] = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    consumer = LitePullConsumer(GROUP, client=brokers.rig.client)
    consumer.assign([QUEUE])
    async with consumer:
        await brokers.until(lambda: len(brokers.rig.sent(RequestCode.PULL_MESSAGE)) > 1)
    assert len(brokers.rig.sent(RequestCode.LITE_PULL_MESSAGE)) == 1
    assert {fields["sysFlag"] for _, fields in brokers.rig.sent(RequestCode.PULL_MESSAGE)} == {"6"}
    assert "failed" not in caplog.text


async def test_a_commit_that_is_not_kept_is_an_error() -> None:
    """It says of which queue, and why."""
    brokers = Brokers()
    brokers.refused[RequestCode.UPDATE_CONSUMER_OFFSET] = ResponseCode.NO_PERMISSION
    consumer = LitePullConsumer(GROUP, client=brokers.rig.client, auto_commit=False)
    consumer.assign([QUEUE])
    async with consumer:
        await brokers.until(lambda: consumer.position(QUEUE) == 7)
        await consumer.commit({QUEUE: 8}, persist=False)
        with pytest.raises(ClientError, match=r"of 1 of 1 queues are not kept yet.*not here"):
            await consumer.commit({QUEUE: 9})
        assert await consumer.committed(QUEUE) == 9
        del brokers.refused[RequestCode.UPDATE_CONSUMER_OFFSET]
        await consumer.commit([QUEUE])
    sent = brokers.rig.sent(RequestCode.UPDATE_CONSUMER_OFFSET)
    assert sent[-1][1]["commitOffset"] == "7"


async def test_what_cannot_be_meant_is_refused() -> None:
    """Before anything is sent."""
    consumer = LitePullConsumer(GROUP, client=Brokers().rig.client)
    with pytest.raises(NotStartedError, match="async with"):
        await consumer.poll()
    with pytest.raises(IllegalConsumerError, match="illegal characters"):
        consumer.subscribe("a topic")
    consumer.subscribe(TOPIC)
    with pytest.raises(IllegalConsumerError, match=f"subscribes to {TOPIC}, and cannot"):
        consumer.assign([QUEUE])
    async with consumer:
        with pytest.raises(IllegalConsumerError, match="poll for 0 messages and 5000 ms"):
            await consumer.poll(max_messages=0)
        with pytest.raises(IllegalConsumerError, match="poll for 256 messages and -1 ms"):
            await consumer.poll(-1)
        assert await consumer.poll(0) == []


async def test_a_start_without_name_servers_fails_and_leaves_nothing() -> None:
    """An address that is wrong is seen at once, and not in a log."""
    consumer = LitePullConsumer(GROUP, "127.0.0.1:1")
    consumer.subscribe(TOPIC)
    with pytest.raises(NoNameServerError, match=r"127\.0\.0\.1:1"):
        await consumer.start()
    with pytest.raises(ClientClosedError):
        await consumer.poll()
    assert len(asyncio.all_tasks()) == 1
