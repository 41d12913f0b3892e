"""A route has the queues that Java's clients would see, in the same order, within bounds."""

import pytest

from roketto.client.errors import UnreadableError
from roketto.client.message import MessageQueue
from roketto.client.routes import NO_HOST, QUEUES_MAX, make_route, route_like
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from roketto.protocol.bodies.topics import TopicQueueMappingInfo
from unit.client.core_rig import route_data

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


def places(queues: tuple[MessageQueue, ...]) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_queues_are_written_where_there_is_a_master_and_read_everywhere() -> None:
    data = route_data({"broker-b": {0: B}, "broker-a": {1: A}, "broker-c": {0: "c"}}, queues=2)
    data.queue_datas[2].perm = 4  # may only be read
    data.queue_datas.append(QueueData(broker_name="gone", perm=6, write_queue_nums=1))
    route = make_route("T", data, "names")
    assert places(route.publish_queues) == [("broker-b", 0), ("broker-b", 1)]
    assert places(route.subscribe_queues) == [
        (name, number) for name in ("broker-a", "broker-b", "broker-c") for number in (0, 1)
    ]
    assert route.brokers == {"broker-a": {1: A}, "broker-b": {0: B}, "broker-c": {0: "c"}}
    assert (route.clusters["broker-a"], route.hosts, route.is_ordered) == ("c", {}, False)


def test_an_order_that_an_operator_fixed_is_kept() -> None:
    """Also for brokers that are down: messages of a key must not go elsewhere."""
    data = route_data({"broker-a": {0: A}}, queues=8)
    data.order_topic_conf = "broker-b:2;broker-a:1"
    route = make_route("T", data, "names")
    assert places(route.publish_queues) == [("broker-b", 0), ("broker-b", 1), ("broker-a", 0)]
    assert route.is_ordered
    assert len(route.subscribe_queues) == 8
    data.order_topic_conf = "nonsense;:3;broker-a:x"
    assert len(make_route("T", data, "names").publish_queues) == 8


def test_a_route_is_the_same_whoever_tells_it() -> None:
    """A change of the name server is no reason to share queues anew; one of an address is."""
    first = make_route("T", route_data({"broker-a": {0: A}}), "names-1")
    assert first == make_route("T", route_data({"broker-a": {0: A}}), "names-2")
    assert first != make_route("T", route_data({"broker-a": {0: B}}), "names-1")
    assert first != make_route("T", route_data({"broker-a": {0: A}}, queues=5), "names-1")


def mapping(broker: str, total: int, ids: dict[int, int], epoch: int = 1) -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo(
        bname=broker, curr_id_map=ids, epoch=epoch, scope="__global__", topic="T",
        total_queues=total,
    )  # fmt: skip


def test_a_static_topic_has_its_logical_queues_wherever_they_are() -> None:
    """In the order of their numbers; the newest mapping says who has one that has moved."""
    data = route_data({"broker-a": {0: A}, "broker-b": {0: B}}, queues=9)
    data.topic_queue_mapping_by_broker = {
        "broker-b": mapping("broker-b", 5, {2: 0, 1: 1}, epoch=7),
        "broker-a": mapping("broker-a", 4, {0: 0, 1: 3, 3: 2}, epoch=6),
    }
    route = make_route("T", decode_body(TopicRouteData, encode_body(data)), "names")
    logical = [MessageQueue("__syslo__global__", number, "T") for number in range(5)]
    assert list(route.publish_queues) == list(route.subscribe_queues) == logical
    assert [route.hosts[queue] for queue in logical] == [
        "broker-a", "broker-b", "broker-b", "broker-a", NO_HOST,
    ]  # fmt: skip
    data.order_topic_conf = "broker-a:1"  # wins for producers, as in Java
    assert places(make_route("T", data, "names").publish_queues) == [("broker-a", 0)]


def test_scopes_of_static_topics_are_named_as_java_does() -> None:
    data = route_data({"broker-a": {0: A}})
    info = mapping("broker-a", 1, {0: 0})
    info.scope = "room1"
    no_scope = mapping("broker-a", 3, {0: 0})
    no_scope.scope = None
    data.topic_queue_mapping_by_broker = {"broker-a": info, "broker-b": no_scope}
    assert places(make_route("T", data, "n").publish_queues) == [("__syslo__room1", 0)]


@pytest.mark.parametrize("kind", ["queues", "order", "mapping"])
def test_no_answer_of_a_name_server_fills_the_memory(kind: str) -> None:
    data = route_data({"broker-a": {0: A}})
    if kind == "queues":
        data.queue_datas[0].write_queue_nums = 2**31 - 1
    elif kind == "order":
        data.order_topic_conf = "broker-a:99999999999"
    else:
        data.topic_queue_mapping_by_broker = {"broker-a": mapping("broker-a", QUEUES_MAX + 1, {})}
    with pytest.raises(UnreadableError, match=r"^names has .* topic T has \d+ queues, and clients"):
        make_route("T", data, "names")


def test_a_topic_to_be_made_is_like_its_template_but_not_larger() -> None:
    template = make_route(
        "TBW102",
        TopicRouteData(
            broker_datas=[BrokerData(broker_addrs={0: A}, broker_name="broker-a")],
            queue_datas=[
                QueueData(
                    broker_name="broker-a", perm=6, read_queue_nums=3, write_queue_nums=8,
                    topic_sys_flag=1,
                )
            ],
        ),
        "names",
    )  # fmt: skip
    route = route_like("New", template, 4)
    assert places(route.publish_queues) == [("broker-a", number) for number in range(3)]
    assert {queue.topic for queue in route.publish_queues} == {"New"}
    assert route_like("New", template, 1).data.queue_datas[0].topic_sys_flag == 1
