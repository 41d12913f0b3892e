"""What consumers are made of works with a real broker: pulls, offsets, positions and shares."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path

import pytest

from roketto.client.allocation import Averagely
from roketto.client.client import Client
from roketto.client.errors import RefusedError
from roketto.client.offset_store import BrokerOffsets
from roketto.client.positions import BoundaryType, FromWhere, Positions, start_offset
from roketto.client.pulling import Pulled, PullRequest, PullStatus, pull
from roketto.client.rebalance import Rebalance
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import Sql, Subscription, make_subscription
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.send import (
    ConsumerSendMsgBackRequest,
    SendMessageResponse,
    SendMessageV2Request,
)
from roketto.protocol.names import DEFAULT_TOPIC, retry_topic
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_ZLIB
from servers import broker, name_server

BROKER = "broker-a"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a name server with one broker."""
    folder: Path = tmp_path_factory.mktemp("servers")
    config = {"enablePropertyFilter": "true"}
    with name_server(folder) as server, broker(folder, [server.address], config):
        yield server.address


@pytest.fixture
async def client(names: str) -> AsyncIterator[Client]:
    async with Client(ClientSettings(name_servers=names, client_ip="127.0.0.1")) as started:
        yield started


class Member:
    """As much of a consumer as brokers need to see."""

    def __init__(self, group: str, *wanted: Subscription) -> None:
        self.group = group
        self.wanted = wanted
        self.rebalances = 0

    @property
    def topics(self) -> Collection[str]:
        return [one.topic for one in self.wanted]

    def describe(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=FromWhere.LAST.value,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            group_name=self.group,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=[one.data() for one in self.wanted],
        )

    def rebalance_soon(self) -> None:
        self.rebalances += 1

    def disconnected(self, broker_name: str) -> None:
        """It has no locks."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        raise NotImplementedError

    def offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        raise NotImplementedError

    def running_info(self) -> ConsumerRunningInfo:
        raise NotImplementedError

    async def consume_directly(
        self, record: Record, broker_name: str
    ) -> ConsumeMessageDirectlyResult:
        raise NotImplementedError


async def send(
    client: Client, topic: str, body: bytes, tag: str = "", *, queue_id: int = 0, sys_flag: int = 0
) -> int:
    """The queue offset of a message that is stored now."""
    await client.routes.for_sending(topic)
    request = SendMessageV2Request(
        producer_group="p", topic=topic, default_topic=DEFAULT_TOPIC, default_topic_queue_nums=4,
        queue_id=queue_id, sys_flag=sys_flag, born_timestamp=wall_ms(), flag=0,
        properties=f"TAGS\x01{tag}\x02" if tag else "",
    )  # fmt: skip
    answer = await client.calls.ask_for(
        SendMessageResponse,
        await client.routes.master_of(BROKER),
        RequestCode.SEND_MESSAGE_V2,
        request,
        body,
    )
    return answer.queue_offset


async def join(client: Client, group: str, *wanted: Subscription) -> Member:
    """A member of a group that a broker knows."""
    member = Member(group, *wanted)
    for one in wanted:
        await client.routes.for_sending(one.topic)
    await client.add_consumer(member)
    return member


async def pull_at(
    client: Client,
    group: str,
    wanted: Subscription,
    offset: int,
    suspend_ms: int = 0,
    broker_id: int = 0,
    consume_offset: int | None = None,
    sends_expression: bool = False,
) -> Pulled:
    queue = MessageQueue(BROKER, 0, wanted.topic)
    request = PullRequest(
        queue, group, wanted, offset, suspend_ms=suspend_ms, timeout_ms=10_000,
        consume_offset=consume_offset, broker_id=broker_id, sends_expression=sends_expression,
    )  # fmt: skip
    return await pull(client, request)


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    return [one.body for one in messages]


async def test_messages_are_pulled_whole_and_in_order(client: Client) -> None:
    """Also packed ones, also by the id of a slave that there is not."""
    wanted = make_subscription("Found", "*", wall_ms())
    packed = zlib.compress(b"y" * 5_000)
    sent = [await send(client, "Found", b"%d" % number) for number in range(3)]
    await send(client, "Found", packed, sys_flag=COMPRESSED | COMPRESSION_ZLIB)
    assert sent == [0, 1, 2]
    await join(client, "found", wanted)
    for broker_id in (0, 1):
        pulled = await pull_at(client, "found", wanted, 1, broker_id=broker_id)
        assert pulled.status is PullStatus.FOUND
        assert bodies(pulled.messages) == [b"1", b"2", b"y" * 5_000]
        assert [one.queue_offset for one in pulled.messages] == [1, 2, 3]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (4, 0, 4)
        assert pulled.broker_id == 0
    assert pulled.messages[0].topic == "Found"


async def test_a_pull_waits_for_a_message_if_it_may(client: Client) -> None:
    """Without a wait the answer comes at once; with one, when something arrives."""
    wanted = make_subscription("Waiting", "*", wall_ms())
    await send(client, "Waiting", b"old")
    await join(client, "waiting", wanted)
    begun_s = monotonic_s()
    pulled = await pull_at(client, "waiting", wanted, 1)
    assert (pulled.status, pulled.next_offset) == (PullStatus.NO_NEW, 1)
    assert monotonic_s() - begun_s < 1
    pulling = asyncio.create_task(pull_at(client, "waiting", wanted, 1, suspend_ms=5_000))
    await asyncio.sleep(0.1)
    assert not pulling.done()
    begun_s = monotonic_s()
    await send(client, "Waiting", b"new")
    pulled = await pulling
    assert (pulled.status, bodies(pulled.messages)) == (PullStatus.FOUND, [b"new"])
    assert monotonic_s() - begun_s < 1


async def test_what_is_not_wanted_is_passed_over(client: Client) -> None:
    """By the broker, which cannot tell AaAa from BBBB, and by the client, which can."""
    wanted = make_subscription("Tagged", "AaAa", wall_ms())
    for tag in ("x", "y", "", "BBBB", "AaAa", "BBBB"):
        await send(client, "Tagged", tag.encode() or b"-", tag)
    await join(client, "tagged", wanted)
    pulled = await pull_at(client, "tagged", wanted, 0)
    assert (bodies(pulled.messages), pulled.next_offset) == ([b"AaAa"], 6)
    pulled = await pull_at(client, "tagged", wanted, 5)
    assert (pulled.status, pulled.messages, pulled.next_offset) == (PullStatus.NO_MATCHED, [], 6)
    other = make_subscription("Tagged", "z", wall_ms())
    pulled = await pull_at(client, "tagged", other, 0, sends_expression=True)
    assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED, 6)


async def test_a_filter_goes_with_the_pull_or_with_heartbeats(client: Client) -> None:
    """A newer one than heartbeats have told is refused with its own code until they do."""
    wanted = make_subscription("Filtered", Sql("TAGS IN ('a')"), wall_ms())
    for tag in ("a", "b"):
        await send(client, "Filtered", tag.encode(), tag)
    member = await join(client, "filtered", wanted)
    pulled = await pull_at(client, "filtered", wanted, 0, sends_expression=True)
    assert bodies(pulled.messages) == [b"a"]
    newer = wanted.renewed(wanted.version_ms + 1)
    with pytest.raises(RefusedError) as raised:
        await pull_at(client, "filtered", newer, 0)
    assert raised.value.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    member.wanted = (newer,)
    await client.send_heartbeats()
    assert bodies((await pull_at(client, "filtered", newer, 0)).messages) == [b"a"]


async def test_an_offset_that_is_not_there_is_put_right(client: Client) -> None:
    """Beyond the end: the answer names the end."""
    wanted = make_subscription("Illegal", "*", wall_ms())
    for _ in range(3):
        await send(client, "Illegal", b"x")
    await join(client, "illegal", wanted)
    pulled = await pull_at(client, "illegal", wanted, 100)
    assert (pulled.status, pulled.next_offset) == (PullStatus.OFFSET_ILLEGAL, 3)


async def test_what_was_given_back_comes_with_its_topic(client: Client) -> None:
    """By way of the group's retry topic, a second later."""
    group = "giving-back"
    wanted = make_subscription("GivenBack", "*", wall_ms())
    await send(client, "GivenBack", b"again", "t")
    retries = make_subscription(retry_topic(group), "*", wall_ms())
    await join(client, group, wanted)
    (message,) = (await pull_at(client, group, wanted, 0)).messages
    back = ConsumerSendMsgBackRequest(
        group=group, log_offset=message.log_offset, delay_level=1, origin_msg_id=message.message_id,
        origin_topic="GivenBack", max_reconsume_times=16,
    )  # fmt: skip
    address = await client.routes.master_of(BROKER)
    answer = await client.calls.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert answer.code == ResponseCode.SUCCESS
    member = next(iter(client.inbound.consumers))
    assert isinstance(member, Member)
    member.wanted = (wanted, retries)
    await client.send_heartbeats()
    (again,) = (await pull_at(client, group, retries, 0, suspend_ms=8_000)).messages
    assert (again.topic, again.body, again.tags) == ("GivenBack", b"again", "t")
    assert (again.queue, again.reconsume_times) == (MessageQueue(BROKER, 0, retries.topic), 1)


async def test_a_broker_keeps_the_offsets_of_a_group(client: Client) -> None:
    """Told on their own, or on the way of a pull; asked for by another member."""
    wanted = make_subscription("Kept", "*", wall_ms())
    queue = MessageQueue(BROKER, 0, "Kept")
    for _ in range(5):
        await send(client, "Kept", b"x")
    await join(client, "keeping", wanted)
    store = BrokerOffsets(client, "keeping")
    assert await start_offset(client, store, queue, FromWhere.LAST, 0) == 0  # the topic is young
    store.update(queue, 2, increase_only=True)
    assert await store.persist([queue]) == {}
    assert await BrokerOffsets(client, "keeping").read(queue) == 2
    await pull_at(client, "keeping", wanted, 4, consume_offset=4)
    assert await store.read(queue) == 2
    assert await store.read(queue, memory_first=False) == 4
    unknown = MessageQueue(BROKER, 3, "NoSuchTopic")
    assert await BrokerOffsets(client, "keeping").read(unknown) is None


async def test_positions_are_those_of_the_broker(client: Client) -> None:
    """Both ends, and the offset at a time between them."""
    queue = MessageQueue(BROKER, 0, "Positions")
    began_ms = wall_ms()
    await send(client, "Positions", b"x")
    await asyncio.sleep(0.02)
    between_ms = wall_ms()
    await asyncio.sleep(0.02)
    await send(client, "Positions", b"x")
    positions = Positions(client)
    assert (await positions.min_offset(queue), await positions.max_offset(queue)) == (0, 2)
    assert await positions.search(queue, between_ms) == 1
    assert await positions.search(queue, between_ms, BoundaryType.UPPER) == 0
    assert began_ms <= await positions.earliest_time_ms(queue) < between_ms
    store = BrokerOffsets(client, "nobody")
    await join(client, "nobody", make_subscription("Positions", "*", 1))
    assert await start_offset(client, store, queue, FromWhere.TIMESTAMP, between_ms) in (0, 1)


async def test_members_of_a_group_share_its_queues(client: Client, names: str) -> None:
    """Each computes its own share; the broker tells them when somebody comes."""
    wanted = make_subscription("Shared", "*", wall_ms())
    await send(client, "Shared", b"x")
    member = await join(client, "sharing", wanted)
    mine = Rebalance(client, "sharing", Averagely(), MessageModel.CLUSTERING)
    await client.routes.refresh("Shared")
    all_queues = [MessageQueue(BROKER, number, "Shared") for number in range(4)]
    assert await mine.assign("Shared") == all_queues
    async with Client(ClientSettings(name_servers=names, client_ip="127.0.0.1")) as second:
        other = await join(second, "sharing", wanted)
        theirs = Rebalance(second, "sharing", Averagely(), MessageModel.CLUSTERING)
        assert sorted(await mine.members("Shared")) == sorted([client.id, second.id])
        shares = (await mine.assign("Shared"), await theirs.assign("Shared"))
        assert sorted(shares, key=str) == [all_queues[:2], all_queues[2:]]
        await second.remove_consumer(other)
    assert await mine.assign("Shared") == all_queues
    assert member.rebalances >= 1
