"""A pull asks what Java's clients ask, and gives of the answer exactly what is wanted, whole."""

import zlib
from dataclasses import replace

import pytest

from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.pulling import PullRequest, PullStatus, pull
from roketto.client.subscription import Sql, make_subscription
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, encode_record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_ZLIB, UNWRAP_BITS
from unit.client.core_rig import GROUP, MASTER, SLAVE, TOPIC, Rig, route_data, unreachable

QUEUE = MessageQueue("broker-a", 1, TOPIC)
ALL = make_subscription(TOPIC, "*", 7)
REQUEST = PullRequest(QUEUE, GROUP, ALL, 100)
PULL = RequestCode.PULL_MESSAGE
ENDS = {"suggestWhichBrokerId": "1", "nextBeginOffset": "103", "minOffset": "5", "maxOffset": "109"}


def record(offset: int, body: bytes = b"x", tag: str | None = None, sys_flag: int = 0) -> Record:
    properties = encode_properties({"TAGS": tag, "UNIQ_KEY": f"id-{offset}"})
    return Record(TOPIC, body, properties, queue_id=1, queue_offset=offset, sys_flag=sys_flag)


def broker(
    *records: Record | bytes, code: int = ResponseCode.SUCCESS, namespace: str = "", **more: str
) -> Rig:
    """A broker that gives these."""
    body = b"".join(one if isinstance(one, bytes) else encode_record(one) for one in records)
    answer = {**ENDS, **more}
    return Rig(lambda address, command: command.answer(code, ext=answer, body=body), namespace)


async def test_messages_come_with_where_they_are_from() -> None:
    """And the answer says where to go on."""
    rig = broker(record(100, b"a"), record(102, b"b"))
    pulled = await pull(rig.client, REQUEST)
    assert (pulled.status, pulled.next_offset, pulled.broker_id) == (PullStatus.FOUND, 103, 1)
    assert (pulled.min_offset, pulled.max_offset) == (5, 109)
    first, second = pulled.messages
    assert (first.body, first.queue, first.queue_offset, first.topic) == (b"a", QUEUE, 100, TOPIC)
    assert (second.body, second.message_id, second.max_offset) == (b"b", "id-102", 109)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL),
    ],
)
async def test_an_answer_without_messages_says_why(code: int, status: PullStatus) -> None:
    """Each has its own offset to go on at."""
    pulled = await pull(broker(code=code).client, REQUEST)
    assert (pulled.status, pulled.next_offset, pulled.messages) == (status, 103, [])


async def test_the_request_is_that_of_a_java_client() -> None:
    """A push consumer's, which commits on the way and waits, and a lite one's."""
    rig = broker(code=ResponseCode.PULL_NOT_FOUND)
    push = replace(REQUEST, suspend_ms=15_000, consume_offset=99)
    await pull(rig.client, push)
    expected = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "1", "queueOffset": "100",
        "maxMsgNums": "32", "sysFlag": "3", "commitOffset": "99", "suspendTimeoutMillis": "15000",
        "subVersion": "7", "expressionType": "TAG", "maxMsgBytes": "262144", "bname": "broker-a",
    }  # fmt: skip
    assert rig.sent(PULL) == [(MASTER, expected)]
    lite = replace(REQUEST, suspend_ms=20_000, is_lite=True, sends_expression=True)
    await pull(rig.client, lite)
    changed = {"sysFlag": "22", "commitOffset": "0", "suspendTimeoutMillis": "20000"}
    sends = {"subscription": "*", "subVersion": "0"}
    assert rig.sent(RequestCode.LITE_PULL_MESSAGE) == [(MASTER, {**expected, **changed, **sends})]
    await pull(rig.client, replace(lite, subscription=make_subscription(TOPIC, Sql("a > 1"), 8)))
    fields = rig.sent(RequestCode.LITE_PULL_MESSAGE)[1][1]
    assert (fields["expressionType"], fields["subVersion"]) == ("SQL92", "8")


async def test_a_slave_is_asked_without_a_commit_and_its_master_in_its_place() -> None:
    """Slaves do not keep offsets of groups; one that is away or unknown is passed over."""
    is_up = True

    def answer(address: str, command: Command) -> Command:
        if address == SLAVE and not is_up:
            raise unreachable(address)
        return command.answer(ResponseCode.PULL_NOT_FOUND, ext=dict(ENDS))

    rig = Rig(answer)
    from_slave = replace(REQUEST, consume_offset=99, broker_id=1)
    await pull(rig.client, from_slave)
    is_up = False
    await pull(rig.client, from_slave)
    is_up = True
    await pull(rig.client, replace(from_slave, broker_id=5))
    asked = [(address, fields["sysFlag"]) for address, fields in rig.sent(PULL)]
    assert asked == [(SLAVE, "0"), (SLAVE, "0"), (MASTER, "1"), (MASTER, "1")]
    rig.routes[TOPIC] = route_data({"broker-a": {1: SLAVE}})
    await rig.client.routes.refresh(TOPIC)
    is_up = False
    with pytest.raises(UnreachableError):
        await pull(rig.client, from_slave)


async def test_a_tag_of_the_same_hash_is_left_out() -> None:
    """If only such were found, nothing was: the consumer goes on behind them."""
    wanted = replace(REQUEST, subscription=make_subscription(TOPIC, "AaAa", 7))
    both = broker(record(100, tag="BBBB"), record(101, tag="AaAa"), record(102))
    pulled = await pull(both.client, wanted)
    assert [one.queue_offset for one in pulled.messages] == [101]
    pulled = await pull(broker(record(100, tag="BBBB")).client, wanted)
    assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED, 103)


async def test_bodies_are_unpacked_and_damaged_ones_do_not_vanish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A body that cannot be unpacked is given as it was stored."""
    flag = COMPRESSED | COMPRESSION_ZLIB
    good = record(100, zlib.compress(b"y" * 5_000), sys_flag=flag)
    bad = record(101, b"no zlib", sys_flag=flag)
    pulled = await pull(broker(good, bad, record(102)).client, REQUEST)
    assert [one.body for one in pulled.messages] == [b"y" * 5_000, b"no zlib", b"x"]
    assert "is given as it is" in caplog.text


async def test_an_inner_batch_is_taken_apart() -> None:
    """Each message at its own offset and with its own tag; what is none is given as it is."""
    items = [
        BatchItem(b"one", encode_properties({"TAGS": "a"})),
        BatchItem(b"two", encode_properties({"TAGS": "b"})),
    ]
    batch = record(100, encode_batch(items), sys_flag=UNWRAP_BITS)
    broken = record(102, b"no batch", sys_flag=UNWRAP_BITS)
    pulled = await pull(broker(batch, broken).client, REQUEST)
    assert [(one.body, one.queue_offset) for one in pulled.messages] == [
        (b"one", 100), (b"two", 101), (b"no batch", 102),
    ]  # fmt: skip
    wanted = replace(REQUEST, subscription=make_subscription(TOPIC, "b", 7))
    assert [one.body for one in (await pull(broker(batch).client, wanted)).messages] == [b"two"]


async def test_a_retry_has_the_topic_of_its_producer() -> None:
    """Without the namespace, and only if it is a retry of this group."""
    stored = Record(
        f"%RETRY%ns%{GROUP}", b"x", encode_properties({"RETRY_TOPIC": "ns%Orders"}), queue_offset=1
    )
    rig = broker(stored, namespace="ns")
    topic = f"%RETRY%ns%{GROUP}"
    rig.routes[topic] = rig.routes[TOPIC]
    queue = MessageQueue("broker-a", 0, topic)
    request = PullRequest(queue, f"ns%{GROUP}", make_subscription(topic, "*", 1), 0)
    (message,) = (await pull(rig.client, request)).messages
    assert (message.topic, message.queue) == ("Orders", queue)
    (message,) = (await pull(rig.client, replace(request, group="ns%other"))).messages
    assert message.topic == f"%RETRY%{GROUP}"


async def test_a_static_topic_has_its_own_numbers() -> None:
    """The broker knows the queue as another one, which begins elsewhere."""
    rig = broker(record(3), offsetDelta="1000")
    queue = MessageQueue("broker-a", 7, TOPIC)
    (message,) = (await pull(rig.client, replace(REQUEST, queue=queue))).messages
    assert (message.queue_id, message.queue_offset) == (7, 1_003)


async def test_what_is_damaged_is_asked_for_again() -> None:
    """The offset to go on at does not pass what was not read; without any it is an error."""
    whole = encode_record(record(100))
    pulled = await pull(broker(whole, whole[:-1]).client, REQUEST)
    assert (len(pulled.messages), pulled.next_offset) == (1, 101)
    pulled = await pull(broker(whole, b"\0" * 200, offsetDelta="50").client, REQUEST)
    assert pulled.next_offset == 151
    with pytest.raises(ClientError, match="no message, from offset 100 of MessageQueue"):
        await pull(broker(whole[:-1]).client, REQUEST)


async def test_a_broker_that_will_not_is_an_error_with_its_code() -> None:
    """So that the consumer knows what to do: wait, renew its subscription, or give up."""
    with pytest.raises(RefusedError) as raised:
        await pull(broker(code=ResponseCode.SUBSCRIPTION_NOT_LATEST).client, REQUEST)
    assert raised.value.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    with pytest.raises(ClientError, match="nextBeginOffset is 'x'"):
        await pull(broker(record(1), nextBeginOffset="x").client, REQUEST)


async def test_sql_is_not_asked_of_brokers_that_have_none() -> None:
    """Those before 4.1, whose version a heartbeat has told."""
    rig = broker()
    sql = replace(REQUEST, subscription=make_subscription(TOPIC, Sql("a > 1"), 1))
    assert (await pull(rig.client, sql)).status is PullStatus.NO_MATCHED
    rig.client.heartbeats._versions[MASTER] = 200
    with pytest.raises(ClientError, match="is of version 200, which has no SQL92"):
        await pull(rig.client, sql)
