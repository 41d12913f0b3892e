"""A group begins where Java's would: at what is stored, else by its setting and the topic."""

import pytest

from roketto.client.errors import ClientError
from roketto.client.offset_store import BrokerOffsets
from roketto.client.positions import BoundaryType, FromWhere, Positions, start_offset
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from unit.client.core_rig import GROUP, MASTER, TOPIC, Rig, unreachable

QUEUE = MessageQueue("broker-a", 1, TOPIC)
ANSWERS = {
    RequestCode.GET_MIN_OFFSET: {"offset": "10"},
    RequestCode.GET_MAX_OFFSET: {"offset": "90"},
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: {"offset": "50"},
    RequestCode.GET_EARLIEST_MSG_STORETIME: {"timestamp": "1700000000000"},
}


def answer(address: str, command: Command) -> Command:
    """A broker that has messages, and nothing of the group."""
    if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
        return command.answer(ResponseCode.QUERY_NOT_FOUND)
    return command.answer(ext=dict(ANSWERS[RequestCode(command.code)]))


async def test_a_master_knows_the_ends_of_its_queues() -> None:
    """And what lies between them."""
    rig = Rig(answer)
    positions = Positions(rig.client)
    assert await positions.min_offset(QUEUE) == 10
    assert await positions.max_offset(QUEUE) == 90
    assert await positions.search(QUEUE, 17, BoundaryType.UPPER) == 50
    assert await positions.earliest_time_ms(QUEUE) == 1_700_000_000_000
    queue = {"topic": TOPIC, "queueId": "1", "bname": "broker-a"}
    assert rig.sent(RequestCode.GET_MIN_OFFSET) == [(MASTER, queue)]
    assert rig.sent(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP) == [
        (MASTER, {**queue, "timestamp": "17", "boundaryType": "UPPER"})
    ]


@pytest.mark.parametrize(
    ("from_where", "normal", "retry"),
    [(FromWhere.LAST, 90, 0), (FromWhere.FIRST, 0, 0), (FromWhere.TIMESTAMP, 50, 90)],
)
async def test_a_new_group_begins_where_it_is_told_to(
    from_where: FromWhere, normal: int, retry: int
) -> None:
    """The table of the reference, for topics and for the group's own retries."""
    rig = Rig(answer)
    rig.routes[f"%RETRY%{GROUP}"] = rig.routes[TOPIC]
    store = BrokerOffsets(rig.client, GROUP)
    for topic, expected in ((TOPIC, normal), (f"%RETRY%{GROUP}", retry)):
        queue = MessageQueue("broker-a", 0, topic)
        assert await start_offset(rig.client, store, queue, from_where, 17) == expected


@pytest.mark.parametrize("from_where", FromWhere)
async def test_what_is_stored_always_counts(from_where: FromWhere) -> None:
    """What brokers have rather than what is in memory, unless the caller wants that."""
    rig = Rig(lambda address, command: command.answer(ext={"offset": "33"}))
    store = BrokerOffsets(rig.client, GROUP)
    store.update(QUEUE, 70, increase_only=True)
    assert await start_offset(rig.client, store, QUEUE, from_where, 17, memory_first=True) == 70
    assert await start_offset(rig.client, store, QUEUE, from_where, 17) == 33


@pytest.mark.parametrize("from_where", FromWhere)
async def test_nothing_begins_while_nobody_can_tell_where(from_where: FromWhere) -> None:
    """A broker that is away is no broker that has nothing."""

    def vanish(address: str, command: Command) -> Command:
        raise unreachable(address)

    rig = Rig(vanish)
    store = BrokerOffsets(rig.client, GROUP)
    with pytest.raises(ClientError, match="connection refused"):
        await start_offset(rig.client, store, QUEUE, from_where, 17)
