"""Requests and replies: ours ask and Java replies, Java asks and ours reply."""

import asyncio

import pytest

from integration.client.push_rig import Heard
from interop.broker.cluster import CLUSTER_NAME
from interop.client.sites import Site, aside
from roketto.client.errors import ReplyTimeoutError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.message import Message
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.push import PushConsumer
from roketto.client.received import ReceivedMessage
from roketto.client.replies import make_reply

COPIED = ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")


async def test_java_replies_to_what_we_ask(site: Site) -> None:
    """The reply comes to the one that asked, also of several at the same time."""
    topic = await site.topic("PyAsks")
    java = await aside(site.java.push, "pyAsks", topic, replies=True)
    questions = [f"question {n} 问题" for n in range(4)]
    with java:
        async with Producer("pyAsks", site.names) as producer:
            replies = await asyncio.gather(
                *(producer.request(Message(topic, one.encode()), 20_000) for one in questions)
            )
            assert [one.body.decode() for one in replies] == [f"reply to {q}" for q in questions]
            asked = {one.body: one for one in await aside(java.received, 4)}
            for question, reply in zip(questions, replies, strict=True):
                assert reply.topic == f"{CLUSTER_NAME}_REPLY_TOPIC"
                assert reply.properties["MSG_TYPE"] == "reply"
                for key in COPIED:
                    assert reply.properties[key] == asked[question].properties[key]
            assert asked[questions[0]].properties["REPLY_TO_CLIENT"] == producer.client.id


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_we_reply_to_what_java_asks(site: Site, how: str) -> None:
    topic = await site.topic(f"JavaAsks-{how}")
    heard = Heard()
    async with Producer("replier", site.names) as producer:

        async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
            await heard(messages, context)
            for message in messages:
                await producer.send(make_reply(message, b"reply to " + message.body))
            return ConsumeResult.SUCCESS

        async with PushConsumer(
            f"javaAsks-{how}", site.names, topics={topic: "*"}, listener=listen,
            from_where=FromWhere.FIRST,
        ):  # fmt: skip
            for n in range(2):
                reply = await aside(site.java.request, topic, f"question {n} 问题", how)
                assert reply.body == f"reply to question {n} 问题"
                assert reply.topic == f"{CLUSTER_NAME}_REPLY_TOPIC"
                for key in COPIED:
                    assert reply.properties[key] == heard.messages[n].properties[key]


async def test_a_request_that_nobody_replies_to_times_out(site: Site) -> None:
    """It is stored, and its sender is told that no reply came."""
    topic = await site.topic("PyNotAsked")
    async with Producer("pyNotAsked", site.names) as producer:
        with pytest.raises(ReplyTimeoutError):
            await producer.request(Message(topic, b"anybody?"), 300)
    assert [one.body for one in await aside(site.java.drain, topic, 1)] == ["anybody?"]
