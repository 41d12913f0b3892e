"""The lite pull consumer with our servers: nothing is skipped, what was handled comes once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, bodies, name, queue, until
from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.errors import ClientClosedError, RefusedError
from roketto.client.lite_assignment import NotAssignedError
from roketto.client.lite_pull import LiteLimits, LitePullConsumer
from roketto.client.positions import FromWhere
from roketto.client.settings import ClientSettings
from roketto.client.subscription import Sql
from roketto.clock import wall_ms
from roketto.protocol.bodies.running import ConsumerRunningInfo
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.pushes import GetConsumerRunningInfoRequest
from servers import broker, name_server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"enablePropertyFilter": "true"}
    with name_server(folder) as names, broker(folder, [names.address], config) as server:
        yield names.address, server.address


@pytest.fixture
async def rig(servers: tuple[str, str]) -> AsyncIterator[PullRig]:
    async with PullRig(*servers) as made:
        yield made


def lite(rig: PullRig, group: str | None = None, **options: object) -> LitePullConsumer:
    options.setdefault("from_where", FromWhere.FIRST)
    return LitePullConsumer(group or name(), rig.names, **options)  # type: ignore[arg-type]


async def drain(consumer: LitePullConsumer, count: int) -> list[str]:
    """The next so many messages."""
    got: list[str] = []
    async with asyncio.timeout(10):
        while len(got) < count:
            got += bodies(await consumer.poll(1_000))
    return got


async def test_assigned_queues_are_read_in_order(rig: PullRig) -> None:
    """Each from its first message on, with positions that say what comes next."""
    topic = await rig.topic(queues=3)
    await rig.send(topic, range(25), 0)
    await rig.send(topic, range(100, 125), 1)
    await rig.send(topic, ["unread"], 2)
    consumer = lite(rig)
    consumer.assign([queue(topic, 0), queue(topic, 1)])
    async with consumer:
        got = await drain(consumer, 50)
        assert [body for body in got if int(body) < 100] == [str(n) for n in range(25)]
        assert [body for body in got if int(body) >= 100] == [str(n) for n in range(100, 125)]
        assert consumer.position(queue(topic, 0)) == 25
        assert consumer.assignment() == {queue(topic, 0), queue(topic, 1)}
        assert await consumer.poll(20) == []
        consumer.assign([queue(topic, 2)])
        assert await drain(consumer, 1) == ["unread"]
        with pytest.raises(NotAssignedError, match="queue 0 of"):
            await consumer.seek(queue(topic, 0), 0)
        with pytest.raises(IllegalConsumerError, match="cannot subscribe"):
            consumer.subscribe(topic)


async def test_a_seek_during_a_long_poll_takes_effect_at_once(rig: PullRig) -> None:
    """The broker holds a pull from the end; nothing of it is handed out after the seek."""
    topic = await rig.topic()
    await rig.send(topic, range(5))
    consumer = lite(rig)
    consumer.assign([queue(topic)])
    async with consumer:
        await drain(consumer, 5)
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(consumer.poll(5_000))
        await asyncio.sleep(0.02)
        await consumer.seek(queue(topic), 3)
        assert bodies(await waiting) == ["3", "4"]
        await rig.send(topic, [5])
        assert await drain(consumer, 1) == ["5"]
        await consumer.seek_to_begin(queue(topic))
        assert await drain(consumer, 6) == ["0", "1", "2", "3", "4", "5"]
        await consumer.seek(queue(topic), 2)
        await consumer.seek_to_end(queue(topic))
        await rig.send(topic, [6])
        assert await drain(consumer, 1) == ["6"]
        assert await consumer.poll(20) == []
        with pytest.raises(IllegalConsumerError, match="no offset 8: it takes 0 to 7"):
            await consumer.seek(queue(topic), 8)


async def test_only_what_is_committed_is_not_read_again(rig: PullRig) -> None:
    """Without auto commit: by offset, all that was handed out, and nothing at all."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(10))
    async with lite(rig, group, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        await drain(consumer, 10)
        assert await consumer.committed(queue(topic)) in (None, 0)
        await consumer.commit({queue(topic): 4})
        assert await consumer.committed(queue(topic)) == 4
        with pytest.raises(IllegalConsumerError, match="-1"):
            await consumer.commit({queue(topic): -1})
    async with lite(rig, group, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        first = await consumer.poll(5_000, 3)
        assert bodies(first) == ["4", "5", "6"]
        await consumer.commit()
        assert bodies(await consumer.poll(5_000, 2)) == ["7", "8"]
    async with lite(rig, group, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        assert await drain(consumer, 3) == ["7", "8", "9"]


async def test_auto_commit_covers_earlier_polls_only(rig: PullRig) -> None:
    """What the last poll gave may not be handled when the consumer stops: it comes again."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(10))
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        assert bodies(await consumer.poll(5_000, 4)) == ["0", "1", "2", "3"]
        assert bodies(await consumer.poll(5_000, 3)) == ["4", "5", "6"]
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        assert await drain(consumer, 6) == ["4", "5", "6", "7", "8", "9"]
        assert await consumer.poll(20) == []
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        assert await consumer.poll(300) == []
        assert consumer.position(queue(topic)) == 10


async def test_auto_commit_reaches_the_broker_while_it_runs(rig: PullRig) -> None:
    """A consumer that is killed has committed what polls before the interval gave."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(4))
    settings = ClientSettings(name_servers=rig.names, offsets_interval_s=0.05)
    limits = LiteLimits(auto_commit_interval_ms=1_000)
    consumer = LitePullConsumer(group, settings=settings, limits=limits, from_where=FromWhere.FIRST)
    async with consumer, lite(rig, group) as other:
        consumer.assign([queue(topic)])
        assert bodies(await consumer.poll(5_000, 3)) == ["0", "1", "2"]
        assert await other.committed(queue(topic)) in (None, 0)
        await asyncio.sleep(1.0)
        assert bodies(await consumer.poll(5_000, 3)) == ["3"]
        await until(lambda: committed_is(other, topic, 3))


async def committed_is(consumer: LitePullConsumer, topic: str, offset: int) -> bool:
    return await consumer.committed(queue(topic)) == offset


async def test_iterating_repeats_only_the_message_it_was_left_with(rig: PullRig) -> None:
    """A handler that fails leaves its message for the next time, and none before it."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(6))
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        async for message in consumer:
            if message.body == b"3":
                break  # as a handler that fails would
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        assert await drain(consumer, 3) == ["3", "4", "5"]


async def test_whoever_waits_sees_the_stop(rig: PullRig) -> None:
    """A poll fails, a loop ends, and nothing is left running."""
    topic = await rig.topic()
    consumer = lite(rig)
    consumer.subscribe(topic)
    await consumer.start()

    async def read_all() -> list[str]:
        return [message.body.decode() async for message in consumer]

    polling, reading = asyncio.create_task(consumer.poll()), asyncio.create_task(read_all())
    await asyncio.sleep(0.05)
    await consumer.stop()
    with pytest.raises(ClientClosedError):
        await polling
    assert await reading == []
    with pytest.raises(ClientClosedError):
        await consumer.poll()
    assert len(asyncio.all_tasks()) == 1 + len(rig_tasks(rig))


def rig_tasks(rig: PullRig) -> list[object]:
    return [*rig.client._tasks, *([rig.client.pool._sweeper] if rig.client.pool._sweeper else [])]


async def test_members_share_queues_as_they_come_and_go(rig: PullRig) -> None:
    """Two have half of them each; the one that is left has all, and goes on where the other was."""
    topic, group = await rig.topic(queues=4), name()
    shares: list[int] = []
    first = lite(rig, group)
    first.subscribe(topic, listener=lambda _, queues: shares.append(len(queues)))
    async with first:
        await until(lambda: has_queues(first, 4))
        async with lite(rig, group) as second:
            second.subscribe(topic)
            await until(lambda: has_queues(first, 2))
            await until(lambda: has_queues(second, 2))
            assert not first.assignment() & second.assignment()
            for queue_id in range(4):
                await rig.send(topic, [queue_id], queue_id)
            mine, others = await asyncio.gather(drain(first, 2), drain(second, 2))
            assert sorted(mine + others) == ["0", "1", "2", "3"]
            assert await second.poll(0) == []
        await until(lambda: has_queues(first, 4))
        for queue_id in range(4):
            await rig.send(topic, [10 + queue_id], queue_id)
        assert sorted(await drain(first, 4)) == ["10", "11", "12", "13"]
        assert shares == [4, 2, 4]


async def has_queues(consumer: LitePullConsumer, count: int) -> bool:
    return len(consumer.assignment()) == count


async def test_a_paused_queue_waits_and_the_others_go_on(rig: PullRig) -> None:
    """What was fetched before the pause waits for its end, too."""
    topic = await rig.topic(queues=2)
    await rig.send(topic, range(3), 0)
    await rig.send(topic, range(10, 13), 1)
    consumer = lite(rig)
    consumer.assign([queue(topic, 0), queue(topic, 1)])
    async with consumer:
        await consumer.poll(5_000, 1)
        consumer.pause([queue(topic, 0), queue(topic, 1), queue("Other")])
        assert await consumer.poll(50) == []
        consumer.resume([queue(topic, 1)])
        rest = await drain(consumer, 2)
        assert rest[-2:] == ["11", "12"]
        consumer.resume([queue(topic, 0)])
        assert (await drain(consumer, 2))[-1] == "2"


async def test_offsets_are_found_by_time(rig: PullRig) -> None:
    """Also as the place where a group begins."""
    topic = await rig.topic()
    await rig.send(topic, range(3))
    await asyncio.sleep(0.01)
    between_ms = wall_ms()
    await asyncio.sleep(0.01)
    await rig.send(topic, range(3, 5))
    consumer = lite(rig, from_where=FromWhere.TIMESTAMP, from_time_ms=between_ms)
    async with consumer:
        consumer.assign([queue(topic)])
        assert await consumer.offset_for_timestamp(queue(topic), between_ms) == 3
        assert await consumer.offset_for_timestamp(queue(topic), 0) == 0
        assert await consumer.min_offset(queue(topic)) == 0
        assert await consumer.max_offset(queue(topic)) == 5
        assert await consumer.earliest_time_ms(queue(topic)) < between_ms
        await consumer.seek(queue(topic), 3)
        assert await drain(consumer, 2) == ["3", "4"]


async def test_filters_choose_and_offsets_pass_the_rest(rig: PullRig) -> None:
    """By tags and by SQL92; a filter can be changed while the consumer runs."""
    topic = await rig.topic()
    for number, tag in enumerate(["a", "b", "c"] * 4):
        await rig.send(topic, [number], TAGS=tag, price=str(number))
    consumer = lite(rig)
    consumer.subscribe(topic, "a || b")
    async with consumer:
        assert await drain(consumer, 8) == ["0", "1", "3", "4", "6", "7", "9", "10"]
        await until(lambda: position_is(consumer, topic, 12))
        consumer.subscribe(topic, Sql("price > 8 AND TAGS <> 'a'"))
        await consumer.seek_to_begin(queue(topic))
        assert await drain(consumer, 2) == ["10", "11"]
    async with lite(rig) as changing:
        changing.subscribe(topic)
        assert bodies(await changing.poll(5_000, 1)) == ["0"]
        changing.subscribe(topic, "c")
        assert await drain(changing, 4) == ["2", "5", "8", "11"]
        changing.unsubscribe(topic)
        assert changing.assignment() == set()
    by_sql = lite(rig)
    by_sql.assign([queue(topic)], {topic: Sql("price BETWEEN 3 AND 4")})
    async with by_sql:
        assert await drain(by_sql, 2) == ["3", "4"]


async def position_is(consumer: LitePullConsumer, topic: str, offset: int) -> bool:
    return consumer.position(queue(topic)) == offset


async def test_a_filter_that_no_broker_understands_fails_the_start(rig: PullRig) -> None:
    """And leaves nothing behind."""
    topic = await rig.topic()
    subscribed, assigned = lite(rig), lite(rig)
    subscribed.subscribe(topic, Sql("price >"))
    assigned.assign([queue(topic)], Sql("price >"))
    for consumer in (subscribed, assigned):
        with pytest.raises(RefusedError) as caught:
            await consumer.start()
        assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        with pytest.raises(ClientClosedError):
            consumer.client.check_started()


async def test_an_operator_can_look_and_move_the_group(rig: PullRig) -> None:
    """What was fetched ahead of the move is void, and the move is not undone by a commit."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(6))
    async with lite(rig, group) as consumer:
        consumer.subscribe(topic)
        await drain(consumer, 6)
        info = await rig.client.calls.ask_for_body(
            ConsumerRunningInfo, rig.address, RequestCode.GET_CONSUMER_RUNNING_INFO,
            GetConsumerRunningInfoRequest(consumer_group=group, client_id=consumer.client.id),
        )  # fmt: skip
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert list(info.mq_table) == [queue(topic)]
        assert [data.topic for data in info.subscription_set] == [topic]
        await rig.reset(group, topic, 2)
        await rig.send(topic, [6])
        assert await drain(consumer, 5) == ["2", "3", "4", "5", "6"]
    async with lite(rig, group) as consumer:
        assert (await consumer.committed(queue(topic)) or 0) <= 6
        await consumer.reset_offsets({queue(topic): 0})
        consumer.assign([queue(topic)])
        await consumer.poll(5_000, 1)
        await consumer.reset_offsets({queue(topic): 4})
        assert await drain(consumer, 3) == ["4", "5", "6"]
        assert await consumer.committed(queue(topic)) == 4


async def test_namespaces_are_put_on_and_taken_off(rig: PullRig) -> None:
    """Topics are given without, queues with or without."""
    await rig.topic(name="ns1%Spaced")
    await rig.send("ns1%Spaced", ["here"])
    settings = ClientSettings(name_servers=rig.names, namespace="ns1")
    async with LitePullConsumer("g", settings=settings, from_where=FromWhere.FIRST) as consumer:
        consumer.subscribe("Spaced")
        [message] = await consumer.poll(5_000)
        assert (message.topic, message.queue) == ("Spaced", queue("ns1%Spaced"))
        assert consumer.group == "ns1%g"
        assert consumer.position(queue("Spaced")) == consumer.position(message.queue) == 1
        await consumer.commit({queue("Spaced"): 1})
        assert await consumer.committed(message.queue) == 1


async def test_a_topic_that_is_made_later_is_found(rig: PullRig) -> None:
    """A consumer that was there before its topic needs nobody to start it again."""
    settings = ClientSettings(name_servers=rig.names, route_interval_s=0.2)
    topic = name()
    async with LitePullConsumer(name(), settings=settings, from_where=FromWhere.FIRST) as consumer:
        consumer.subscribe(topic)
        await asyncio.sleep(0.1)
        await rig.topic(name=topic)
        await rig.send(topic, ["late"])
        assert await drain(consumer, 1) == ["late"]
