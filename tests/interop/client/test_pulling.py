"""Our pull consumer gets what Java's producers have sent, from wherever it is told to."""

import asyncio
import random
from typing import Any

import pytest

from interop.broker.clients import Sent, eventually_equal
from interop.client.sites import Site, aside, queue_of
from roketto.client.positions import BoundaryType
from roketto.client.pull import PullConsumer, Pulled, PullStatus
from roketto.client.received import ReceivedMessage
from roketto.client.subscription import Sql

FOUND, NO_NEW, NO_MATCHED, ILLEGAL = (
    PullStatus.FOUND, PullStatus.NO_NEW, PullStatus.NO_MATCHED, PullStatus.OFFSET_ILLEGAL,
)  # fmt: skip


async def fill(site: Site, topic: str, count: int = 9) -> list[Sent]:
    """Let Java send messages to the first queue of a new topic."""
    await site.topic(topic)
    messages = [
        {"body": f"pull {n}", "tags": f"T{n % 2}", "properties": {"number": str(n)}}
        for n in range(count)
    ]
    return await sent_by_java(site, topic, messages)


async def sent_by_java(
    site: Site, topic: str, messages: list[dict[str, Any]], how: str = "sync", **options: Any
) -> list[Sent]:
    """What Java was told, once all can be pulled: what was sent last may not be there yet."""
    sent = await aside(site.java.send, topic, messages, how, **options)
    ends = {"broker-a:0": [0, len(messages), 0]}
    await aside(eventually_equal, lambda: site.java.bounds(topic), ends, "the ends of the queue")
    return sent


def ends(pulled: Pulled) -> tuple[PullStatus, int, int, int]:
    return pulled.status, pulled.next_offset, pulled.min_offset, pulled.max_offset


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    return [message.body.decode() for message in messages]


async def test_a_pull_gives_what_is_asked_for(site: Site) -> None:
    """From an offset on, so many, each as Java was told that it is stored."""
    topic = "JavaPull"
    sent = await fill(site, topic)
    queue = queue_of(topic)
    async with PullConsumer("javaPull", site.names) as consumer:
        assert await consumer.fetch_subscribe_queues(topic) == [queue]
        pulled = await consumer.pull(queue, 0)
        assert ends(pulled) == (FOUND, 9, 0, 9)
        for n, (one, told) in enumerate(zip(pulled.messages, sent, strict=True)):
            assert one.body == f"pull {n}".encode()
            assert (one.message_id, one.offset_id) == (told.id, told.offset_id)
            assert (one.topic, one.queue, one.queue_offset) == (topic, queue, told.offset)
            assert (one.reconsume_times, one.max_offset) == (0, 9)
            assert 0 < one.born_time_ms <= one.store_time_ms
            assert one.store_host == site.cluster.main.address
        some = await consumer.pull(queue, 4, 3)
        assert ends(some) == (FOUND, 7, 0, 9)
        assert bodies(some.messages) == ["pull 4", "pull 5", "pull 6"]
        assert ends(await consumer.pull(queue, 9)) == (NO_NEW, 9, 0, 9)
        assert ends(await consumer.pull(queue, 100)) == (ILLEGAL, 9, 0, 9)


async def test_a_pull_is_filtered_by_tags_and_sql(site: Site) -> None:
    """What does not match is passed over, and the next offset says so."""
    topic = "JavaPullFiltered"
    await fill(site, topic)
    queue = queue_of(topic)
    async with PullConsumer("javaPullFiltered", site.names) as consumer:
        tagged = await consumer.pull(queue, 0, expression="T1 || T7")
        assert bodies(tagged.messages) == [f"pull {n}" for n in (1, 3, 5, 7)]
        chosen = await consumer.pull(queue, 0, expression=Sql("number > 6"))
        assert bodies(chosen.messages) == ["pull 7", "pull 8"]
        assert ends(await consumer.pull(queue, 0, expression="Other")) == (NO_MATCHED, 9, 0, 9)


async def test_a_pull_that_waits_gets_the_next_message(site: Site) -> None:
    """The broker holds it until there is something."""
    topic = "JavaPullWaits"
    await fill(site, topic, 1)
    async with PullConsumer("javaPullWaits", site.names) as consumer:
        waiting = asyncio.create_task(consumer.pull(queue_of(topic), 1, block=True))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await aside(site.java.send, topic, ["late"])
        async with asyncio.timeout(5):
            assert bodies((await waiting).messages) == ["late"]


async def test_messages_of_a_time_are_found(site: Site) -> None:
    """Before all, at each message and after all; 4.9 gives the nearest to a time between two."""
    topic = await site.topic("JavaTimes")
    for n in range(3):
        await aside(site.java.send, topic, [f"{n}"])
        await asyncio.sleep(0.02)  # so that no two have the same time
    stored = [one.stored_ms for one in await aside(site.java.drain, topic, 3)]
    queue = queue_of(topic)
    async with PullConsumer("javaTimes", site.names) as consumer:
        assert [await consumer.min_offset(queue), await consumer.max_offset(queue)] == [0, 3]
        assert await consumer.earliest_time_ms(queue) == stored[0]
        assert await consumer.offset_for_timestamp(queue, stored[0] - 10_000) == 0
        for n, time_ms in enumerate(stored):
            for boundary in BoundaryType:
                assert await consumer.offset_for_timestamp(queue, time_ms, boundary) == n
            between = await consumer.offset_for_timestamp(queue, time_ms + 1)
            assert between in ((n, n + 1) if site.is_old else (n + 1,))


async def test_properties_of_every_kind_come_from_java(site: Site) -> None:
    """Tags, keys and properties in Chinese, with blanks and emoji, empty and long ones."""
    topic = await site.topic("JavaProperties")
    properties = {
        "城市": "北京市", "mixed 键": "Grüße, 你好 🚀", "blank": " ", "long": "x" * 8_000,
        "number": "-42",
    }  # fmt: skip
    asked: list[dict[str, Any]] = [
        {
            "body": "消息 body", "tags": "标签", "keys": "键一 key2 键三", "flag": 7,
            "properties": properties,
        },
        {"body": "no properties"},
        {"body": "empty tags and keys", "tags": "", "keys": ""},
        {"body": "an empty property", "properties": {"empty": "", "full": "value"}},
    ]  # fmt: skip
    await sent_by_java(site, topic, asked)
    async with PullConsumer("javaProperties", site.names) as consumer:
        messages = (await consumer.pull(queue_of(topic), 0)).messages
    assert bodies(messages) == [one["body"] for one in asked]
    first = messages[0]
    assert (first.tags, first.keys, first.flag) == ("标签", ["键一", "key2", "键三"], 7)
    assert first.properties.items() >= properties.items()
    assert (messages[1].tags, messages[1].keys) == (None, [])
    assert not messages[2].tags
    assert messages[2].keys == []
    assert messages[3].properties["full"] == "value"
    assert not messages[3].properties.get("empty")  # Java's own clients do not show it at all


@pytest.mark.parametrize("codec", ["ZLIB", "LZ4", "ZSTD"])
async def test_we_unpack_what_java_has_packed(site: Site, codec: str) -> None:
    topic = await site.topic(f"JavaPacked{codec}")
    letters = "".join(random.Random(7).choices("0123456789abcdef", k=100_000))
    texts = ["a body that repeats itself; " * 10_000, letters, "消息" * 2_000, "short"]
    messages = [{"body": text} for text in texts]
    await sent_by_java(site, topic, messages, compress=codec)
    found: list[ReceivedMessage] = []
    async with PullConsumer("javaPacked", site.names) as consumer:
        while len(found) < 4:
            pulled = await consumer.pull(queue_of(topic), len(found))
            assert pulled.status is FOUND
            found += pulled.messages
    assert [one.body.decode() for one in found] == texts
    for one in (found[0], found[2]):
        assert one.record.size < len(one.body), "it was not packed"


async def test_a_batch_of_java_comes_as_single_messages(site: Site) -> None:
    topic = await site.topic("JavaBatch")
    asked = [{"body": f"batch {n}", "keys": f"k{n}", "tags": f"T{n}"} for n in range(10)]
    (sent,) = await sent_by_java(site, topic, asked, "batch")
    async with PullConsumer("javaBatch", site.names) as consumer:
        messages = (await consumer.pull(queue_of(topic), 0)).messages
    assert [(one.tags, one.keys) for one in messages] == [(f"T{n}", [f"k{n}"]) for n in range(10)]
    assert [one.message_id for one in messages] == sent.id.split(",")
    assert [one.offset_id for one in messages] == sent.offset_id.split(",")


async def test_a_message_that_is_sent_back_comes_to_its_group_again(site: Site) -> None:
    """From the retry topic, under its own topic and id; a Java consumer of the group gets it."""
    topic = "JavaSentBack"
    (sent,) = await fill(site, topic, 1)
    async with PullConsumer("javaSentBack", site.names, topics=[topic]) as consumer:
        (message,) = (await consumer.pull(queue_of(topic), 0)).messages
        await consumer.send_back(message, delay_level=1)
        await consumer.commit(queue_of(topic), 1)
        assert await consumer.committed(queue_of(topic)) == 1
    java = await aside(site.java.push, "javaSentBack", topic)
    with java:
        (again,) = await aside(java.received, 1)
    assert (again.topic, again.id, again.times) == (topic, sent.id, 1)
    assert again.properties["ORIGIN_MESSAGE_ID"] == sent.offset_id
