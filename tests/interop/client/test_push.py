"""Our push consumer gets what Java sends: all of it, what it wants of it, from where it begins."""

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from interop.broker.clients import Finder, eventually
from interop.client.members import Listener, consumer
from interop.client.sites import Site, aside
from roketto.client.errors import RefusedError
from roketto.client.positions import FromWhere
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.settings import ClientSettings
from roketto.client.subscription import Sql
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import ResponseCode


async def test_every_message_comes_once_as_it_was_sent(site: Site) -> None:
    """All of four queues, with keys and tags; also those that come while it waits, at once."""
    topic = await site.topic("JavaPush", 4)
    asked = [{"body": f"push {n}", "tags": f"T{n % 5}", "keys": f"k{n}"} for n in range(60)]
    sent = await aside(site.java.send, topic, asked)
    listener = Listener("ours")
    async with consumer(site, "javaPush", listener, [topic]):
        received = await listener.received(60)
        assert sorted(
            (one.message_id, one.queue_id, one.queue_offset, one.body.decode(), one.tags, one.keys)
            for one in received
        ) == sorted(
            (one.id, one.queue, one.offset, f"push {n}", f"T{n % 5}", [f"k{n}"])
            for n, one in enumerate(sent)
        )
        assert {(one.topic, one.reconsume_times) for one in received} == {(topic, 0)}
        for n in range(60, 64):
            await aside(site.java.send, topic, [f"push {n}"])
            await listener.received(n + 1, wait_s=5)
    assert len(listener.messages) == 64


async def test_a_group_passes_from_java_to_us_and_back(site: Site) -> None:
    """Each goes on where the other has stopped: nothing is missing, and nothing comes twice."""
    topic = await site.topic("PyPassed", 2)
    first = Listener("first")
    await aside(site.java.send, topic, [f"one {n}" for n in range(8)])
    async with consumer(site, "pyPassed", first, [topic]):
        await first.received(8)
    await aside(site.java.send, topic, [f"two {n}" for n in range(8)])
    with await aside(site.java.push, "pyPassed", topic) as java:
        await aside(java.received, 8)
        # A listener has noted a message before its consumer counts it as consumed.
        await aside(eventually, lambda: sum(java.offsets().values()) == 16, "Java's offsets")
        found = [one.body for one in await aside(java.stop)]
    assert sorted(found) == [f"two {n}" for n in range(8)]
    await aside(site.java.send, topic, ["three"])
    last = Listener("last")
    async with consumer(site, "pyPassed", last, [topic]):
        await last.received(1)
    assert (sorted(first.bodies), last.bodies) == ([f"one {n}" for n in range(8)], ["three"])


TAGS = ["TagA", "TagB", "Aa", "BB", "标签", ""]
"""The third and the fourth have the same hash, which is all that a broker compares."""


@pytest.mark.parametrize(
    ("name", "expression", "wanted"),
    [
        ("Many", "TagA || TagC||标签", ["TagA", "标签"]),
        ("Collision", "Aa", ["Aa"]),
        ("All", "*", TAGS),
    ],
)
async def test_tags_choose_messages(
    site: Site, name: str, expression: str, wanted: list[str]
) -> None:
    """Exactly the messages of these tags, also where another tag has the same hash."""
    topic = await site.topic(f"PyTags{name}")
    asked = [{"body": f"{tag} {n}", "tags": tag} for n in range(3) for tag in TAGS]
    await aside(site.java.send, topic, [*asked, {"body": "end", "tags": wanted[0]}])
    listener = Listener("ours")
    async with consumer(site, topic, listener, {topic: expression}):
        await listener.until(lambda: "end" in listener.bodies, "the last one")
        await listener.received(3 * len(wanted) + 1)
    assert sorted(listener.bodies) == sorted(
        [*(f"{tag} {n}" for n in range(3) for tag in wanted), "end"]
    )


async def test_sql_chooses_messages_and_wrong_sql_is_refused(site: Site) -> None:
    topic = await site.topic("PySql")
    asked = [
        {"body": f"{n}", "tags": f"T{n % 3}", "properties": {"price": str(n * 5), "城市": "北京"}}
        for n in range(24)
    ]
    await aside(site.java.send, topic, asked)
    listener = Listener("ours")
    wanted = Sql("price BETWEEN 50 AND 80 AND TAGS IN ('T0', 'T1')")
    async with consumer(site, "pySql", listener, {topic: wanted}):
        await listener.received(5)
        await aside(site.java.send, topic, [asked[23], asked[10]])
        await listener.received(6)
    assert sorted(map(int, listener.bodies)) == [10, 10, 12, 13, 15, 16]
    with pytest.raises(RefusedError) as refused:
        await consumer(site, "pySqlWrong", listener, {topic: Sql("price >> 5")}).start()
    assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_what_is_wanted_can_be_changed_while_it_runs(site: Site) -> None:
    """Brokers learn it, tags and SQL; a filter that they refuse changes nothing."""
    topic, other = await site.topic("PyChanged"), await site.topic("PyChangedToo")
    listener = Listener("ours")
    async with consumer(site, "pyChanged", listener, {topic: "A"}) as changing:

        async def hears(sent_to: str, body: str, tags: str) -> None:
            first = {"body": f"not {body}", "tags": f"not {tags}", "properties": {"n": "0"}}
            wanted = {"body": body, "tags": tags, "properties": {"n": "1"}}
            await aside(site.java.send, sent_to, [first, wanted])
            await listener.until(lambda: body in listener.bodies, body)

        await hears(topic, "of A", "A")
        await changing.subscribe(topic, "B || C")
        await hears(topic, "of B", "B")
        await changing.subscribe(other, Sql("n = '1'"))
        await hears(other, "by SQL", "A")
        with pytest.raises(RefusedError):
            await changing.subscribe(await site.topic("PyNotChanged"), Sql("n = = 1"))
        await hears(topic, "of C", "C")
        await changing.unsubscribe(topic)
        await aside(site.java.send, topic, [{"body": "unheard", "tags": "B"}])
        await hears(other, "still by SQL", "A")
    assert listener.bodies == ["of A", "of B", "by SQL", "of C", "still by SQL"]


async def test_a_consumer_waits_for_a_topic_that_is_not_there_yet(site: Site) -> None:
    listener = Listener("ours")
    async with consumer(site, "pyAwaited", listener, ["PyAwaited"]):
        await aside(site.java.send, "PyAwaited", [f"{n}" for n in range(4)])
        await listener.received(4)
    assert sorted(listener.bodies) == ["0", "1", "2", "3"]


async def test_calls_with_many_messages_have_them_in_order(site: Site) -> None:
    topic = await site.topic("PyCalls")
    await aside(site.java.send, topic, [f"{n}" for n in range(32)])
    listener = Listener("ours")
    tuning = PushTuning(batch_max=8, concurrency=1)
    async with consumer(site, "pyCalls", listener, [topic], tuning=tuning):
        await listener.received(32)
    assert [int(body) for body in listener.bodies] == list(range(32))
    assert max(listener.calls) == 8


async def test_order_is_kept_and_a_failure_holds_up_its_own_queue_only(site: Site) -> None:
    """A message that fails twice is tried again in its place."""
    topic = await site.topic("PyOrderly", 4)
    asked = [
        {"body": f"{'fail' if (order, n) == ('a', 3) else 'pass'} {order} {n}", "hash": order}
        for n in range(10)
        for order in "abcd"
    ]
    await aside(site.java.send, topic, asked, "selector")
    listener = Listener("ours", fails=2)
    async with consumer(site, "pyOrderly", listener, [topic], in_order=True):
        await listener.received(42)
    in_order = defaultdict(list)
    for one in listener.got:
        state, order, n = one.body.split()
        in_order[order].append((state, int(n), one.times))
    plain = [("pass", n, 0) for n in range(10)]
    assert in_order["b"] == in_order["c"] == in_order["d"] == plain
    tried = [("fail", 3, times) for times in range(3)]
    assert in_order["a"] == [*plain[:3], *tried, *plain[4:]]


async def test_a_new_group_gets_all_of_a_young_topic(site: Site) -> None:
    """Brokers answer 0 to the question how far it is, whatever it asks for."""
    topic = await site.topic("PyYoung", 2)
    await aside(site.java.send, topic, [f"{n}" for n in range(8)])
    listener = Listener("ours")
    async with consumer(site, "pyYoung", listener, [topic], from_where=FromWhere.LAST):
        await listener.received(8)
    assert sorted(listener.bodies) == [f"{n}" for n in range(8)]


async def test_namespaces_are_hidden_from_the_listener(site: Site) -> None:
    """Of topic and group, which Java sees with them, and of the topic of a retry."""
    await site.topic("space%PySpaced")
    await aside(site.java.send, "space%PySpaced", ["fail"])
    listener = Listener("ours", fails=1, delay_level=1)
    settings = ClientSettings(name_servers=site.names, namespace="space")
    async with PushConsumer(
        "pySpaced", settings=settings, topics={"PySpaced": "*"}, listener=listener,
        from_where=FromWhere.FIRST,
    ):  # fmt: skip
        first, second = await listener.received(2)
        ids = await aside(Finder(site.java).do, "ids", group="space%pySpaced")
        assert len(ids) == 1
    assert (first.topic, second.topic) == ("PySpaced", "PySpaced")
    assert second.queue.topic == "%RETRY%space%pySpaced"


async def test_broadcasting_begins_where_it_is_told(site: Site, tmp_path: Path) -> None:
    """It asks no broker how far it is: LAST passes over what is old, TIMESTAMP begins between."""
    topic = await site.topic("PyBegins")
    await aside(site.java.send, topic, ["0", "1"])
    await asyncio.sleep(0.3)
    await aside(site.java.send, topic, ["2", "3"])
    stored = await aside(site.java.drain, topic, 4)
    listeners = {where: Listener(where.name) for where in FromWhere}
    consumers = [
        consumer(
            site, f"pyBegins{where.name}", listener, [topic], from_where=where,
            from_time_ms=stored[2].stored_ms - 20, model=MessageModel.BROADCASTING,
            offsets_folder=tmp_path,
        )
        for where, listener in listeners.items()
    ]  # fmt: skip
    first, last, timed = listeners.values()
    sent = 4
    async with consumers[0], consumers[1], consumers[2]:
        while not last.bodies:  # when it has begun, nobody sees
            assert sent < 100, "the consumer that begins at the end gets nothing"
            await aside(site.java.send, topic, [f"{sent}"])
            sent += 1
            await asyncio.sleep(0.1)
        await first.received(sent)
        await timed.received(sent - 2)
    assert first.bodies == [f"{n}" for n in range(sent)]
    assert timed.bodies == first.bodies[2:]
    assert last.bodies == first.bodies[sent - len(last.bodies) :]
    assert len(last.bodies) <= sent - 4
