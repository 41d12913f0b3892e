"""Messages that wait for their time: sent by ours and read by Java, and the other way round."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import pytest

from interop.broker.clients import Message as JavaMessage
from interop.broker.cluster import DELAY_LEVELS_S
from interop.client.sites import Site, aside, not_on_4_9, queue_of
from roketto.client.errors import IllegalMessageError, RefusedError
from roketto.client.message import Message, SendResult
from roketto.client.producer import Producer
from roketto.client.pull import PullConsumer
from roketto.client.received import ReceivedMessage
from roketto.clock import wall_ms
from roketto.protocol.codes import ResponseCode

TOPIC: Final = "PyTimed"
DELAY_MS: Final = 1_500
RECALLED: Final = "recalled"


@dataclass(frozen=True, slots=True)
class Timed:
    """What was sent at one moment, and what came of it."""

    due_ms: dict[str, int]
    """By body, when a message shall come."""
    sent: dict[str, SendResult]
    """Those that we have sent."""
    recalled: str
    """The id of the message that we have taken back."""
    java: list[JavaMessage]
    ours: list[ReceivedMessage]


@pytest.fixture(scope="module")
def timed(site: Site) -> Timed:
    """One wait for all tests."""
    return asyncio.run(wait(site))


async def wait(site: Site) -> Timed:
    await aside(site.java.make_topic, TOPIC, 1, [site.cluster.main.address])
    now_ms = wall_ms()
    messages = [
        *(Message(TOPIC, f"our level {n}".encode(), delay_level=n) for n in (1, 2)),
        Message(TOPIC, b"our time", deliver_at_ms=now_ms + DELAY_MS),
        Message(TOPIC, b"our delay", delay_ms=DELAY_MS, keys="k", properties={"城市": "北京"}),
    ]
    java: list[dict[str, Any]] = [{"body": f"java's level {n}", "delayLevel": n} for n in (1, 2)]
    due_ms = {
        f"{whose} level {n}": now_ms + 1_000 * DELAY_LEVELS_S[n - 1]
        for whose in ("our", "java's")
        for n in (1, 2)
    }
    if site.is_old:
        del messages[2:]
    else:
        java.append(
            {"body": "java's time", "properties": {"TIMER_DELIVER_MS": str(now_ms + DELAY_MS)}}
        )
        due_ms |= dict.fromkeys(("our time", "our delay", "java's time"), now_ms + DELAY_MS)
    recalled = ""
    async with Producer("pyTimed", site.names) as producer:
        sent = {one.body.decode(): await producer.send(one) for one in messages}
        if not site.is_old:
            one = await producer.send(Message(TOPIC, RECALLED.encode(), delay_ms=DELAY_MS))
            sent[RECALLED] = one
            recalled = await producer.recall(TOPIC, one.recall_handle or "")
    await aside(site.java.send, TOPIC, java)
    found = await aside(site.java.drain, TOPIC, len(due_ms))
    async with PullConsumer("pyTimed", site.names) as consumer:
        pulled = await consumer.pull(queue_of(TOPIC), 0)
    return Timed(due_ms, sent, recalled, found, pulled.messages)


def test_messages_come_at_their_times_and_not_before(timed: Timed) -> None:
    """To Java and to us, whoever has sent them, by levels and by times."""
    assert sorted(one.body for one in timed.java) == sorted(timed.due_ms)
    assert [one.body.decode() for one in timed.ours] == [one.body for one in timed.java]
    for one in timed.java:
        assert one.stored_ms >= timed.due_ms[one.body], one.body
    by_body = {one.body: one.id for one in timed.java}
    for body, sent in timed.sent.items():
        assert by_body.get(body) == (None if body == RECALLED else sent.message_id)


def test_messages_that_have_waited_are_in_their_own_topic(timed: Timed) -> None:
    """With their properties; those of the wait say where they have waited for."""
    for java, ours in zip(timed.java, timed.ours, strict=True):
        assert (java.topic, ours.topic) == (TOPIC, TOPIC)
        assert (ours.properties["REAL_TOPIC"], ours.properties["REAL_QID"]) == (TOPIC, "0")
        shown = {
            key: value for key, value in java.properties.items() if not key.endswith("_OFFSET")
        }
        assert ours.properties.items() >= shown.items()
        if java.body == "our delay":
            assert (ours.keys, ours.properties["城市"]) == (["k"], "北京")


@not_on_4_9
def test_a_message_that_was_recalled_does_not_come(timed: Timed) -> None:
    assert timed.recalled == timed.sent[RECALLED].message_id
    assert RECALLED not in {one.body for one in timed.java}
    assert timed.sent["our time"].recall_handle
    assert not timed.sent["our level 1"].recall_handle


@not_on_4_9
async def test_we_recall_what_java_has_sent(site: Site) -> None:
    """Once: then, and with what is no handle of it, we are refused."""
    topic = await site.topic("JavaRecalled")
    java = {"body": "java's", "properties": {"TIMER_DELAY_SEC": "60"}}
    (sent,) = await aside(site.java.send, topic, [java])
    async with Producer("javaRecalled", site.names) as producer:
        assert await producer.recall(topic, sent.recall_handle) == sent.id
        with pytest.raises(IllegalMessageError, match="recall handle 'none' is none"):
            await producer.recall(topic, "none")
        with pytest.raises(RefusedError) as refused:
            await producer.recall(TOPIC, sent.recall_handle)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION


@not_on_4_9
async def test_java_recalls_what_we_have_sent(site: Site) -> None:
    topic = await site.topic("PyRecalled")
    async with Producer("pyRecalled", site.names) as producer:
        sent = await producer.send(Message(topic, b"ours", delay_ms=60_000))
    assert await aside(site.java.recall, topic, sent.recall_handle or "") == sent.message_id


@not_on_4_9
async def test_times_that_cannot_be_had_are_refused(site: Site) -> None:
    """The broker keeps messages for three days at most."""
    async with Producer("pyTooLate", site.names) as producer:
        with pytest.raises(Exception, match="MESSAGE_ILLEGAL"):
            await producer.send(Message(TOPIC, b"never", delay_ms=259_201_000))
