"""Our lite pull consumer with Java's brokers and with ours, and in one group with Java's."""

import pytest

from interop.client.sites import Site, aside, queue_of
from interop.client.waiting import until
from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.lite_pull import LitePullConsumer
from roketto.client.message import Message
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.received import ReceivedMessage
from roketto.client.subscription import Sql


async def fill(site: Site, topic: str) -> None:
    """Make a topic of two queues; nine messages go to the first of them and one to the second."""
    await site.topic(topic, 2)
    async with Producer("lite", site.names) as producer:
        for n in range(10):
            await producer.send(
                Message(topic, f"{n}".encode(), f"T{n % 2}", properties={"number": f"{n}"}),
                queue=queue_of(topic, n // 9),
            )


async def polled(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Poll until there are so many."""
    found: list[ReceivedMessage] = []
    while len(found) < count:
        some = await consumer.poll(20_000)
        assert some, f"only {len(found)} of {count} messages came"
        found += some
    return found


def lite(site: Site, group: str) -> LitePullConsumer:
    return LitePullConsumer(group, site.names, from_where=FromWhere.FIRST, auto_commit=False)


async def test_a_lite_consumer_reads_the_queues_it_is_assigned(site: Site) -> None:
    """In order, from the begin; from wherever it seeks then."""
    topic, queue = "PyLiteSeeks", queue_of("PyLiteSeeks")
    await fill(site, topic)
    async with lite(site, "pyLiteSeeks") as consumer:
        consumer.assign([queue])
        assert [one.queue_offset for one in await polled(consumer, 9)] == list(range(9))
        await consumer.seek(queue, 6)
        assert [one.queue_offset for one in await polled(consumer, 3)] == [6, 7, 8]
        await consumer.seek_to_begin(queue)
        assert [one.queue_offset for one in await polled(consumer, 9)] == list(range(9))
        await consumer.seek(queue, 2)
        await consumer.seek_to_end(queue)
        await aside(
            site.java.send, topic, [{"body": "new", "broker": "broker-a", "queue": 0}], "queue"
        )
        assert [one.body for one in await polled(consumer, 1)] == [b"new"]
        with pytest.raises(IllegalConsumerError, match="has no offset 100"):
            await consumer.seek(queue, 100)


async def test_lite_consumers_of_java_and_ours_go_on_where_the_other_was(site: Site) -> None:
    topic, queue = "PyLiteCommits", queue_of("PyLiteCommits")
    await fill(site, topic)
    async with lite(site, "pyLiteCommits") as first:
        first.assign([queue])
        assert len(await first.poll(20_000, max_messages=4)) == 4
        await first.commit()
    java = await aside(site.java.lite, "pyLiteCommits", topic, assign=[0])
    with java:
        assert [one.offset for one in await aside(java.poll, 5)] == [4, 5, 6, 7, 8]
        assert await aside(java.commit) == {"broker-a:0": 9}
    await aside(
        site.java.send, topic, [{"body": "next", "broker": "broker-a", "queue": 0}], "queue"
    )
    async with lite(site, "pyLiteCommits") as second:
        second.assign([queue])
        assert [one.body for one in await polled(second, 1)] == [b"next"]


async def test_lite_consumers_of_java_and_ours_share_what_they_subscribe_to(site: Site) -> None:
    """All queues for one, one queue each for two; the one that stays has both again."""
    topic = "PyLiteShared"
    await fill(site, topic)
    async with lite(site, "pyLiteShared") as ours:
        ours.subscribe(topic)
        assert sorted(one.body for one in await polled(ours, 10)) == [b"%d" % n for n in range(10)]
        java = await aside(site.java.lite, "pyLiteShared", topic)
        with java:

            async def is_shared() -> bool:
                mine = {f"broker-a:{queue.queue_id}" for queue in ours.assignment()}
                others = set(await aside(java.queues))
                return len(mine) == len(others) == 1 and not mine & others

            await until(is_shared, "a queue for each")

        async def has_all() -> bool:
            return len(ours.assignment()) == 2

        await until(has_all, "the queue that the other left")


async def test_lite_consumers_filter_by_tags_and_sql(site: Site) -> None:
    topic = "PyLiteFilters"
    await fill(site, topic)
    async with lite(site, "pyLiteTags") as tagged:
        tagged.subscribe(topic, "T0")
        found = await polled(tagged, 5)
    assert sorted(one.body for one in found) == [b"0", b"2", b"4", b"6", b"8"]
    async with lite(site, "pyLiteSql") as chosen:
        chosen.subscribe(topic, Sql("number BETWEEN 7 AND 9"))
        found = await polled(chosen, 3)
    assert sorted(one.body for one in found) == [b"7", b"8", b"9"]
