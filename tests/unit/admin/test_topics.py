"""Topics change on all masters or the failure is told, and keep what nobody asked to change."""

import pytest

from roketto.admin.errors import PartlyFailedError
from roketto.admin.kv import ORDER_TOPICS, Kv
from roketto.admin.topics import Topics, format_attributes
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.namesrv import GetKvConfigResponse
from roketto.protocol.versions import V4_9_7
from unit.admin.fake_servers import NAMES, A, B, FakeServers, refusal, success


def make_topics(servers: FakeServers) -> Topics:
    return Topics(servers.fleet, Kv(servers.fleet))


def make_servers() -> FakeServers:
    servers = FakeServers(T=[("a", A), ("b", B)])
    for address in A, B:
        servers.on(address, RequestCode.UPDATE_AND_CREATE_TOPIC, success())
    for code in RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG:
        servers.on(NAMES, code, success())
    servers.on(NAMES, RequestCode.GET_KV_CONFIG, refusal(22))
    return servers


def put_fields(servers: FakeServers, code: int = RequestCode.UPDATE_AND_CREATE_TOPIC) -> list[str]:
    fields = ("readQueueNums", "writeQueueNums", "perm", "order", "attributes")
    return [
        " ".join(ext.get(name, "-") for name in fields)
        for _, asked, ext in servers.asked
        if asked == code
    ]


async def test_an_ordered_topic_gets_the_order_of_all_brokers() -> None:
    servers = make_servers()
    where = await make_topics(servers).create("T", write_queues=3, is_ordered=True)
    assert [broker.name for broker in where] == ["a", "b"]
    assert put_fields(servers) == ["8 3 6 true -", "8 3 6 true -"]
    _, _, ext = servers.asked[-1]
    assert ext == {"namespace": ORDER_TOPICS, "key": "T", "value": "a:3;b:3"}


async def test_an_order_on_one_broker_is_merged_with_that_of_others() -> None:
    servers = make_servers()
    servers.on(
        NAMES, RequestCode.GET_KV_CONFIG, success(header=GetKvConfigResponse(value="a:9;x:1"))
    )
    await make_topics(servers).create("T", broker="a", write_queues=3, is_ordered=True)
    assert servers.asked[-1][2]["value"] == "a:3;x:1"


async def test_an_update_keeps_what_it_is_not_given() -> None:
    """On each broker as it is there, be it one that tells of single topics or not."""
    servers = make_servers()
    one = TopicConfigAndQueueMapping(
        attributes={"x": "y"}, perm=6, read_queue_nums=5, topic_name="T", write_queue_nums=7
    )
    servers.on(A, RequestCode.GET_TOPIC_CONFIG, success(one))
    old = TopicConfig(perm=6, read_queue_nums=2, topic_name="T", write_queue_nums=3)
    servers.on(B, RequestCode.GET_TOPIC_CONFIG, refusal(3))
    table = TopicConfigAndMappingSerializeWrapper(topic_config_table={"T": old})
    servers.on(B, RequestCode.GET_ALL_TOPIC_CONFIG, success(table))
    await make_topics(servers).update("T", perm=4, attributes={"p": "q", "r": None})
    assert sorted(put_fields(servers)) == ["2 3 4 false +p=q,-r", "5 7 4 false +p=q,-r"]


async def test_a_broker_that_ignores_attributes_is_a_failure() -> None:
    servers = make_servers()
    servers.on(B, RequestCode.UPDATE_AND_CREATE_TOPIC, success(version=V4_9_7))
    with pytest.raises(PartlyFailedError, match="V4_9_7 and knows no attributes") as e:
        await make_topics(servers).create("T", attributes={"message.type": "FIFO"})
    assert [str(broker) for broker in e.value.failures] == [f"b (master) at {B}"]


async def test_routes_stay_while_a_broker_still_has_the_topic() -> None:
    servers = make_servers()
    servers.on(A, RequestCode.DELETE_TOPIC_IN_BROKER, success())
    with pytest.raises(PartlyFailedError):
        await make_topics(servers).delete("T")
    assert RequestCode.DELETE_TOPIC_IN_NAMESRV not in servers.codes(NAMES)
    servers.on(B, RequestCode.DELETE_TOPIC_IN_BROKER, success())
    servers.on(NAMES, RequestCode.DELETE_TOPIC_IN_NAMESRV, success())
    await make_topics(servers).delete("T")
    assert servers.codes(NAMES)[-2:] == [
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.DELETE_KV_CONFIG,
    ]


async def test_groups_of_all_brokers_are_listed_once() -> None:
    servers = make_servers()
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    servers.on(A, code, success(GroupList(["g", "h"])))
    servers.on(B, code, success(GroupList(["f", "g"])))
    assert await make_topics(servers).groups("T") == ["f", "g", "h"]


def test_attributes_that_the_wire_cannot_carry_are_refused() -> None:
    assert format_attributes({}) is None
    assert format_attributes({"a": "b", "c": None}) == "+a=b,-c"
    for changes in {"a": "b,c"}, {"a=b": "c"}, {"": "a"}:
        with pytest.raises(ValueError, match="attribute"):
            format_attributes(changes)
