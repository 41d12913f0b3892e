"""What became of a message follows from where a group stands and what it subscribes to."""

import pytest

from roketto.admin.clients import Clients
from roketto.admin.groups import Groups
from roketto.admin.kv import Kv
from roketto.admin.topics import Topics
from roketto.admin.tracks import Tracks, TrackType
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.connections import Connection, ConsumerConnection
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from roketto.protocol.codes import RequestCode
from roketto.protocol.record import Record
from unit.admin.fake_servers import A, FakeServers, refusal, success

MESSAGE = ReceivedMessage(Record("T", b"", b"TAGS\x01red\x02", queue_offset=4), "a")
PUSH, PULL = ConsumeType.CONSUME_PASSIVELY, ConsumeType.CONSUME_ACTIVELY


def people(kind: ConsumeType, *tags: str) -> ConsumerConnection:
    return ConsumerConnection(
        connection_set=[Connection(client_id="x")],
        consume_type=kind,
        message_model=MessageModel.BROADCASTING,
        subscription_table={"T": SubscriptionData(tags_set=list(tags), topic="T")},
    )


@pytest.mark.parametrize(
    ("connected", "offset", "expected"),
    [
        (None, 5, TrackType.NOT_ONLINE),
        (people(PULL), 5, TrackType.PULL),
        (people(ConsumeType.CONSUME_POP), 5, TrackType.UNKNOWN),
        (people(PUSH), 4, TrackType.NOT_CONSUME_YET),
        (people(PUSH), 5, TrackType.CONSUMED),
        (people(PUSH, "red", "blue"), 5, TrackType.CONSUMED),
        (people(PUSH, "blue"), 5, TrackType.CONSUMED_BUT_FILTERED),
        (people(PUSH), None, TrackType.CONSUME_BROADCASTING),
    ],
)
async def test_each_group_has_done_one_thing_with_a_message(
    connected: ConsumerConnection | None, offset: int | None, expected: TrackType
) -> None:
    servers = FakeServers(T=[("a", A)], _RETRY_g=[("a", A)])
    fleet = servers.fleet
    clients, topics = Clients(fleet), Topics(fleet, Kv(fleet))
    servers.on(A, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, success(GroupList(["g"])))
    answer = refusal(206) if connected is None else success(connected)
    servers.on(A, RequestCode.GET_CONSUMER_CONNECTION_LIST, answer)
    queue = MessageQueue("a", 0, "T")
    table = {} if offset is None else {queue: OffsetWrapper(9, offset)}
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(ConsumeStats(0.0, table)))
    (track,) = await Tracks(topics, Groups(fleet, topics, clients), clients).of(MESSAGE)
    assert (track.group, track.type) == ("g", expected)
