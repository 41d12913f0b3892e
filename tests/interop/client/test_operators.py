"""Operators see and move our clients with Java's tools: mqadmin, and DefaultMQAdminExt."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from interop.broker.clients import Finder
from interop.client.members import Listener
from interop.client.sites import Site, aside
from interop.client.waiting import until_equal
from roketto.client.message import Message, SendResult
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.push import PushConsumer
from roketto.client.settings import ClientSettings

QUICK_OFFSETS = 0.2


@dataclass(frozen=True, slots=True)
class Watched:
    """A consumer of ours with two queues, that has consumed four messages."""

    consumer: PushConsumer
    listener: Listener
    producer: Producer
    topic: str
    group: str
    sent: list[SendResult]


@pytest.fixture
async def watched(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    name = request.node.originalname.removeprefix("test_")[:40]
    topic, group = await site.topic(f"T-{name}", 2), f"g-{name}"
    listener = Listener("ours", fails=1, delay_level=1)
    settings = ClientSettings(name_servers=site.names, offsets_interval_s=QUICK_OFFSETS)
    made = PushConsumer(
        group, settings=settings, topics={topic: "*"}, listener=listener,
        from_where=FromWhere.FIRST,
    )  # fmt: skip
    async with Producer(f"p-{name}", site.names) as producer, made:
        sent = [await producer.send(Message(topic, f"{n}".encode(), keys="k")) for n in range(4)]
        await listener.received(4)
        yield Watched(made, listener, producer, topic, group, sent)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


async def test_mqadmin_shows_who_consumes(site: Site, watched: Watched) -> None:
    """consumerConnection: the id, the language and the subscription."""
    text = await aside(site.mqadmin, "consumerConnection", "-g", watched.group)
    (row,) = [row for row in rows(text) if watched.consumer.client.id in row]
    assert "PYTHON" in row
    assert [watched.topic, "*"] in rows(text)
    for line in (
        "ConsumeType: CONSUME_PASSIVELY",
        "MessageModel: CLUSTERING",
        "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET",
    ):
        assert line in text


async def test_mqadmin_shows_who_produces(site: Site, watched: Watched) -> None:
    """producerConnection, after the heartbeat that follows half a minute after the first send."""
    await watched.producer.client.send_heartbeats()
    text = await aside(
        site.mqadmin, "producerConnection", "-g", watched.producer.group, "-t", watched.topic
    )
    (row,) = [row for row in rows(text) if watched.producer.client.id in row]
    assert "PYTHON" in row


async def test_mqadmin_shows_how_far_our_group_is(site: Site, watched: Watched) -> None:
    """consumerProgress: broker and consumer offset of each queue, whose it is, and the lag."""

    async def shown() -> object:
        text = await aside(site.mqadmin, "consumerProgress", "-g", watched.group, "-s", "true")
        found = [row for row in rows(text) if row[0] == watched.topic]
        return sorted((row[2], row[3], row[4], row[5], row[6]) for row in found)

    ip = watched.consumer.client.ip
    expected = [(f"{n}", "2", "2", ip, "0") for n in range(2)]
    await until_equal(shown, expected, "offsets and lag")


async def test_mqadmin_shows_the_state_of_our_consumer(site: Site, watched: Watched) -> None:
    """consumerStatus with the client's id: settings, subscriptions, queues, rates."""
    client_id = watched.consumer.client.id
    text = await aside(site.mqadmin, "consumerStatus", "-g", watched.group, "-i", client_id)
    assert re.search(r"^consumeThreadMin +: 20$", text, re.MULTILINE), text
    assert re.search(r"^PROP_CONSUME_TYPE +: CONSUME_PASSIVELY$", text, re.MULTILINE), text
    wanted = rf"Topic: {watched.topic} +ClassFilter: false +SubExpression: \*"
    assert re.search(wanted, text), text
    offsets = [row for row in rows(text) if row[0] == watched.topic and len(row) == 4]
    assert sorted(offsets) == [[watched.topic, "broker-a", f"{n}", "2"] for n in range(2)]
    infos = re.findall(rf"^{watched.topic} .*(ProcessQueueInfo \[.*)$", text, re.MULTILINE)
    assert len(infos) == 2
    assert all("cachedMsgCount=0" in info and "droped=false" in info for info in infos)


async def test_our_consumer_tells_java_how_it_is_and_where_it_stands(
    site: Site, watched: Watched
) -> None:
    finder, client_id = Finder(site.java), watched.consumer.client.id
    info = await aside(finder.do, "running", group=watched.group, id=client_id, jstack=False)
    assert {watched.topic, f"%RETRY%{watched.group}"} == set(info["topics"])
    assert {"broker-a:0", "broker-a:1"} <= set(info["queues"])
    assert info["type"] == "CONSUME_PASSIVELY"
    stands = await aside(finder.do, "stands", group=watched.group, topic=watched.topic)
    assert stands == {client_id: {"broker-a:0": 2, "broker-a:1": 2}}


async def test_our_consumer_is_given_one_message_now(site: Site, watched: Watched) -> None:
    """Again, and says how that went; one that it fails is not tried again for that."""
    failing = await watched.producer.send(Message(watched.topic, b"fail"))
    await watched.listener.until(lambda: watched.listener.bodies.count("fail") == 2, "a retry")
    finder = Finder(site.java)
    for sent, result in ((watched.sent[0], "CR_SUCCESS"), (failing, "CR_LATER")):
        before = len(watched.listener.messages)
        answer = await aside(
            finder.do, "directly", group=watched.group, id=watched.consumer.client.id,
            topic=watched.topic, message=sent.message_id,
        )  # fmt: skip
        assert answer == {"result": result, "orderly": False}
        assert len(watched.listener.messages) == before + 1
        assert watched.listener.messages[-1].message_id == sent.message_id


async def test_our_group_goes_on_where_it_is_reset_to(site: Site, watched: Watched) -> None:
    """By a time; the consumer gets from there on again, and commits from there."""
    await asyncio.sleep(0.3)  # 4.9 takes what is nearest to the time
    for n in range(4, 8):
        await watched.producer.send(Message(watched.topic, f"{n}".encode()))
    messages = await watched.listener.received(8)
    late_ms = min(one.store_time_ms for one in messages if int(one.body) >= 4)

    finder = Finder(site.java)

    async def stands() -> object:
        found = await aside(finder.do, "stands", group=watched.group, topic=watched.topic)
        return found[watched.consumer.client.id]

    await until_equal(stands, {"broker-a:0": 4, "broker-a:1": 4}, "where it stands")
    await asyncio.sleep(2 * QUICK_OFFSETS)  # the broker has it, too
    answer = await aside(finder.reset, watched.group, watched.topic, late_ms)
    assert answer == {"broker-a:0": 2, "broker-a:1": 2}
    # Pulls that wait with Java's broker hear of a reset when something arrives.
    for n in (8, 9):
        await watched.producer.send(Message(watched.topic, f"{n}".encode()))

    def is_done() -> bool:
        return {"4", "5", "6", "7", "8", "9"} <= set(watched.listener.bodies[8:])

    await watched.listener.until(is_done, "the messages since the time")
    assert not {"0", "1", "2", "3"} & set(watched.listener.bodies[8:])
    await until_equal(stands, {"broker-a:0": 5, "broker-a:1": 5}, "where it stands then")
