"""Routes and clusters have Java's bytes, in both forms."""

import msgspec
import pytest
from hypothesis import given

from roketto.protocol.bodies import route
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.route import BrokerData, MessageQueue, QueueData, TopicRouteData
from unit.protocol.bodies.families import (
    bodies,
    check_bytes,
    check_golden,
    check_round_trip,
    golden,
)


def test_bodies_keep_the_bytes_of_java() -> None:
    assert check_golden(route) == 10


@given(bodies(route))
def test_any_value_survives_both_forms(value: msgspec.Struct) -> None:
    check_round_trip(value)


@pytest.mark.parametrize("standard", [False, True])
def test_route_has_the_bytes_of_5_5_in_both_forms(standard: bool) -> None:
    forms = golden("forms-5.5.0.tsv")
    text = forms["route standard" if standard else "route dialect"].encode()
    route_data = decode_body(TopicRouteData, text)
    assert route_data.broker_datas[0].broker_addrs == {
        0: "10.0.0.1:10911",
        2: "10.0.0.2:10911",
        10: "10.0.0.3:10911",
    }
    assert encode_body(route_data, standard=standard) == text


def test_both_forms_of_a_route_mean_the_same_in_4_9() -> None:
    forms = golden("forms-4.9.7.tsv")
    dialect = decode_body(TopicRouteData, forms["route dialect"].encode())
    assert decode_body(TopicRouteData, forms["route standard"].encode()) == dialect
    assert dialect.broker_datas[0].cluster == "café"
    check_bytes(forms["route dialect"].encode(), encode_body(dialect), "4.9.7")


def test_standard_form_sorts_broker_ids_as_numbers() -> None:
    broker = BrokerData({10: "c", 2: "b", 0: "a"}, "b", "c")
    assert b'{"0":"a","2":"b","10":"c"}' in encode_body(broker, standard=True)
    assert b'{10:"c",2:"b",0:"a"}' in encode_body(broker)


def test_absent_members_are_not_written() -> None:
    text = encode_body(TopicRouteData())
    assert text == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'


def test_queues_are_keys_and_have_an_order() -> None:
    first, second = MessageQueue("b", 0, "T"), MessageQueue("b", 1, "T")
    assert {first: 1}[MessageQueue("b", 0, "T")] == 1
    assert sorted([second, first]) == [first, second]


def test_permissions_of_a_queue_can_be_changed_in_a_copy() -> None:
    queue = QueueData("b", perm=6)
    copy = msgspec.structs.replace(queue, perm=4)
    assert (queue.perm, copy.perm, copy.broker_name) == (6, 4, "b")
