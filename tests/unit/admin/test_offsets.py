"""Groups are moved in the way that each broker needs, and never farther than was asked."""

import pytest

from roketto.admin.errors import PartlyFailedError
from roketto.admin.offsets import END, Offsets
from roketto.client.errors import BrokerNotFoundError, ClientError
from roketto.protocol.bodies.connections import Connection, ConsumerConnection
from roketto.protocol.bodies.offsets import ResetOffsetBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import (
    ConsumeStats,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.offsets import GetMaxOffsetResponse, SearchOffsetResponse
from unit.admin.fake_servers import A, B, FakeServers, refusal, success

A0, B0 = MessageQueue("a", 0, "T"), MessageQueue("b", 0, "T")
COMMIT, RESET = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
PEOPLE = RequestCode.GET_CONSUMER_CONNECTION_LIST
ONLINE = ConsumerConnection(connection_set=[Connection(client_id="x")])


def make_servers() -> FakeServers:
    servers = FakeServers(T=[("a", A), ("b", B)])
    servers.on(A, COMMIT, success())
    servers.on(A, PEOPLE, refusal(206))
    return servers


def configured(text: bytes) -> Command:
    return Command(0, {"version": "{}"}, text)


async def test_the_offset_of_a_group_that_is_offline_is_written() -> None:
    """Nothing else is sent: brokers of old would take a reset of one queue for one of all."""
    servers = make_servers()
    await Offsets(servers.fleet).set("g", A0, 0)
    assert servers.codes(A) == [PEOPLE, COMMIT]
    assert servers.asked[-1][2]["commitOffset"] == "0"


async def test_consumers_online_hear_of_an_offset_from_their_broker() -> None:
    servers = make_servers()
    servers.on(A, PEOPLE, success(ONLINE))
    servers.on(A, RequestCode.GET_BROKER_CONFIG, configured(b"useServerSideResetOffset=true\n"))
    servers.on(A, RESET, success(ResetOffsetBody({A0: 7})))
    await Offsets(servers.fleet).set("g", A0, 7)
    ext = servers.asked[-1][2]
    assert (ext["queueId"], ext["offset"], ext["topic"], ext["group"]) == ("0", "7", "T", "g")
    assert COMMIT not in servers.codes(A)


@pytest.mark.parametrize("config", [b"", b"useServerSideResetOffset=false\n"])
async def test_an_offset_that_consumers_would_not_hear_of_is_refused(config: bytes) -> None:
    servers = make_servers()
    servers.on(A, PEOPLE, success(ONLINE))
    servers.on(A, RequestCode.GET_BROKER_CONFIG, configured(config))
    with pytest.raises(ClientError, match="stop them first, or reset by time"):
        await Offsets(servers.fleet).set("g", A0, 7)
    assert {COMMIT, RESET}.isdisjoint(servers.codes(A))


async def test_an_offset_behind_a_reset_that_nobody_heard_of_replaces_it() -> None:
    servers = make_servers()
    servers.on(A, COMMIT, Command(0, remark="Offset has been previously reset"))
    servers.on(A, RESET, success(ResetOffsetBody({A0: 7})))
    await Offsets(servers.fleet).set("g", A0, 7)
    assert servers.codes(A)[-2:] == [COMMIT, RESET]
    assert servers.asked[-1][2]["offset"] == "7"


async def test_each_broker_is_reset_in_the_way_it_needs() -> None:
    """One does it by itself; the other has nobody to tell, so its offsets are written."""
    servers = make_servers()
    servers.on(B, RESET, success(ResetOffsetBody({B0: 3})))
    servers.on(A, RESET, refusal(206, "Consumer not online"))
    stats = ConsumeStats(0.0, {A0: OffsetWrapper(9, 5), MessageQueue("a", 0, "U"): OffsetWrapper()})
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(stats))
    found = success(header=SearchOffsetResponse(queue_offset=4))
    servers.on(A, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, found)
    assert await Offsets(servers.fleet).reset("g", "T", 1_000) == {A0: 4, B0: 3}
    assert servers.fields(A, COMMIT)["commitOffset"] == "4"


async def test_a_group_that_never_consumed_is_placed_by_the_ends_of_queues() -> None:
    servers = make_servers()
    servers.on(B, RESET, success(ResetOffsetBody({B0: 3})))
    servers.on(A, RESET, refusal(1, "THe consumer group <g> not exist"))
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(ConsumeStats()))
    ends = TopicStatsTable({A0: TopicOffset(0, 9, 2), MessageQueue("a", 1, "T"): TopicOffset()})
    servers.on(A, RequestCode.GET_TOPIC_STATS_INFO, success(ends))
    servers.on(A, RequestCode.GET_MAX_OFFSET, success(header=GetMaxOffsetResponse(queue_offset=9)))
    assert await Offsets(servers.fleet).reset("g", "T", END) == {A0: 9, B0: 3}


async def test_a_group_that_is_online_is_never_written_behind_its_back() -> None:
    servers = make_servers()
    servers.on(B, RESET, success(ResetOffsetBody({B0: 3})))
    servers.on(A, RESET, refusal(1, "THe consumer group <g> not exist"))
    servers.on(A, PEOPLE, success(ONLINE))
    with pytest.raises(PartlyFailedError, match="1 of 2 failed") as e:
        await Offsets(servers.fleet).reset("g", "T", 1_000)
    assert e.value.partial == {B0: 3}
    assert COMMIT not in servers.codes(A)


@pytest.mark.parametrize(("is_forced", "rollback"), [(False, 5), (True, 8)])
async def test_only_force_takes_a_group_forward(is_forced: bool, rollback: int) -> None:
    servers = FakeServers(T=[("a", A)])
    servers.on(A, COMMIT, success())
    stats = ConsumeStats(0.0, {A0: OffsetWrapper(9, 5)})
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(stats))
    found = success(header=SearchOffsetResponse(queue_offset=8))
    servers.on(A, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, found)
    offsets = Offsets(servers.fleet)
    (one,) = await offsets.reset_offline("g", "T", 1_000, is_forced=is_forced)
    assert (one.consumer_offset, one.timestamp_offset, one.rollback_offset) == (5, 8, rollback)
    assert (COMMIT in servers.codes(A)) is is_forced


async def test_a_clone_has_the_offsets_of_its_source() -> None:
    servers = FakeServers(T=[("a", A)], _RETRY_g=[("a", A)])
    servers.on(A, COMMIT, success())
    servers.on(
        A, RequestCode.GET_CONSUME_STATS, success(ConsumeStats(0.0, {A0: OffsetWrapper(9, 5)}))
    )
    assert await Offsets(servers.fleet).clone("g", "h", "T") == {A0: 5}
    ext = servers.asked[-1][2]
    assert (ext["consumerGroup"], ext["commitOffset"]) == ("h", "5")


async def test_a_queue_without_a_master_is_named() -> None:
    servers = FakeServers(T=[("a", f"-{A}")])
    with pytest.raises(BrokerNotFoundError, match="broker a has no master with topic T"):
        await Offsets(servers.fleet).max(A0)
