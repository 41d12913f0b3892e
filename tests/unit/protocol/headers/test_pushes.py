"""Proves that the headers of what brokers ask of clients are the peer's."""

from roketto.protocol.headers import pushes
from roketto.protocol.headers.base import Header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = pushes


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_a_broker_named_in_the_request_is_not_the_broker_it_is_meant_for() -> None:
    request = pushes.ConsumeMessageDirectlyRequest(
        consumer_group="g", broker_name="a", target_broker_name="b"
    )
    assert encode_header(request) == {"consumerGroup": "g", "brokerName": "a", "bname": "b"}
