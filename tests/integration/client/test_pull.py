"""The pull consumer with our servers: the caller says where, and gets what is there."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, bodies, name, queue
from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.errors import NotStartedError, RefusedError, TopicNotFoundError
from roketto.client.pull import PullConsumer, PullStatus
from roketto.client.subscription import Sql
from roketto.clock import monotonic_s
from roketto.protocol.bodies.connections import ConsumerConnection
from roketto.protocol.bodies.heartbeat import MessageModel
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.clients import GetConsumerConnectionListRequest
from roketto.protocol.names import retry_topic
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


async def test_a_pull_gives_what_is_there_and_where_to_go_on(rig: PullRig) -> None:
    """From any offset, at most so many; a filter passes over the rest."""
    topic = await rig.topic(queues=2)
    for number in range(6):
        await rig.send(topic, [number], TAGS="ab"[number % 2], price=str(number))
    async with PullConsumer(name(), rig.names) as consumer:
        assert await consumer.fetch_subscribe_queues(topic) == [queue(topic, 0), queue(topic, 1)]
        pulled = await consumer.pull(queue(topic), 1, 2)
        assert (pulled.status, bodies(pulled.messages)) == (PullStatus.FOUND, ["1", "2"])
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 6)
        assert bodies((await consumer.pull(queue(topic), 0, 32, "b")).messages) == ["1", "3", "5"]
        by_sql = await consumer.pull(queue(topic), 0, 32, Sql("price >= 4"))
        assert bodies(by_sql.messages) == ["4", "5"]
        unmatched = await consumer.pull(queue(topic), 0, 32, "c")
        assert (unmatched.status, unmatched.next_offset) == (PullStatus.NO_MATCHED, 6)
        beyond = await consumer.pull(queue(topic), 70)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 6)
        with pytest.raises(IllegalConsumerError, match="offset -1"):
            await consumer.pull(queue(topic), -1)
        with pytest.raises(RefusedError, match="illegal"):
            await consumer.pull(queue(topic, 9), 0)


async def test_a_pull_waits_only_if_it_is_told_to(rig: PullRig) -> None:
    """At the end of a queue: an answer at once, or with the message that comes."""
    topic = await rig.topic()
    async with PullConsumer(name(), rig.names) as consumer:
        began_s = monotonic_s()
        assert (await consumer.pull(queue(topic), 0)).status is PullStatus.NO_NEW
        assert monotonic_s() - began_s < 1.0
        waiting = asyncio.create_task(consumer.pull(queue(topic), 0, block=True))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await rig.send(topic, ["new"])
        assert bodies((await waiting).messages) == ["new"]


async def test_offsets_are_kept_for_the_group(rig: PullRig) -> None:
    """Another member sees what was committed, also if it is less than before."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, range(5))
    async with PullConsumer(group, rig.names) as consumer, PullConsumer(group, rig.names) as other:
        for offset in (4, 2):
            await consumer.commit(queue(topic), offset)
            assert await other.committed(queue(topic)) == offset
            assert await consumer.committed(queue(topic), memory_first=True) == offset
        assert (await other.min_offset(queue(topic)), await other.max_offset(queue(topic))) == (
            0,
            5,
        )
        with pytest.raises(TopicNotFoundError):
            await other.fetch_subscribe_queues("Unknown")
        with pytest.raises(IllegalConsumerError, match="-1"):
            await consumer.commit(queue(topic), -1)


async def test_a_message_that_is_sent_back_comes_again(rig: PullRig) -> None:
    """From the retry topic of the group, with the name of its own topic."""
    topic, group = await rig.topic(), name()
    await rig.send(topic, ["hard"])
    async with PullConsumer(group, rig.names) as consumer:
        [message] = (await consumer.pull(queue(topic), 0)).messages
        await consumer.send_back(message, delay_level=1)
        retries = queue(retry_topic(group))
        again = await consumer.pull(retries, 0, block=True)
        [message] = again.messages
        assert (message.body, message.topic, message.reconsume_times) == (b"hard", topic, 1)
        assert message.queue == retries


async def test_members_know_each_other_by_registered_topics(rig: PullRig) -> None:
    """Brokers are told of the topics; the members of the group share their queues."""
    topic, group = await rig.topic(queues=4), name()
    async with PullConsumer(group, rig.names, topics=[topic]) as one:
        assert len(await one.fetch_own_queues(topic)) == 4
        async with PullConsumer(group, rig.names, topics=[topic]) as other:
            mine, others = await one.fetch_own_queues(topic), await other.fetch_own_queues(topic)
            assert sorted(mine + others) == [queue(topic, number) for number in range(4)]
            assert len(mine) == len(others) == 2
        shown = await rig.client.calls.ask_for_body(
            ConsumerConnection, rig.address, RequestCode.GET_CONSUMER_CONNECTION_LIST,
            GetConsumerConnectionListRequest(consumer_group=group),
        )  # fmt: skip
        assert shown.consume_type is not None
        assert shown.consume_type.value == "CONSUME_ACTIVELY"
        assert list(shown.subscription_table) == [topic]
        assert [connection.client_id for connection in shown.connection_set] == [one.client.id]


async def test_one_that_gets_everything_keeps_its_offsets_here(
    rig: PullRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file of its own, which the next one with its name reads."""
    monkeypatch.setenv("HOME", str(tmp_path))
    topic, group = await rig.topic(), name()
    for offset in (None, 3):
        async with PullConsumer(group, rig.names, model=MessageModel.BROADCASTING) as consumer:
            assert await consumer.committed(queue(topic)) == offset
            await consumer.commit(queue(topic), 3)
    async with PullConsumer(group, rig.names) as consumer:
        assert await consumer.committed(queue(topic)) in (None, 0)


async def test_a_consumer_is_started_once_and_before_it_is_used(rig: PullRig) -> None:
    """Its errors say what to do."""
    consumer = PullConsumer(name(), rig.names)
    with pytest.raises(NotStartedError, match="async with"):
        await consumer.pull(queue("T"), 0)
    await consumer.stop()
    async with consumer:
        with pytest.raises(IllegalConsumerError, match="was started before"):
            await consumer.start()
    with pytest.raises(IllegalConsumerError, match="DEFAULT_CONSUMER"):
        PullConsumer("DEFAULT_CONSUMER", rig.names)
    with pytest.raises(IllegalConsumerError, match="illegal characters"):
        PullConsumer("a group", rig.names)
    with pytest.raises(IllegalConsumerError, match="one of them"):
        PullConsumer("g", rig.names, client=rig.client)


async def test_two_consumers_share_a_client_but_no_group(rig: PullRig) -> None:
    """A second one of the same group is refused, and leaves the first as it is."""
    topic, group = await rig.topic(), name()
    async with PullConsumer(group, client=rig.client) as consumer:
        second = PullConsumer(group, client=rig.client)
        with pytest.raises(Exception, match="is here already"):
            await second.start()
        assert list(rig.client.inbound.consumers) == [consumer]
        assert (await consumer.pull(queue(topic), 0)).status is PullStatus.NO_NEW
        async with PullConsumer(name(), client=rig.client):
            assert len(rig.client.inbound.consumers) == 2
    assert not rig.client.inbound.consumers
