"""Proves that the headers of pop consumption are the peer's."""

from roketto.protocol.headers import pop
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = pop


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_a_pop_without_a_birth_time_leaves_it_to_the_broker() -> None:
    request = decode_header(pop.PopMessageRequest, {"consumerGroup": "g", "topic": "T"})
    assert request.born_timestamp == 0
    assert request.order is False


def test_an_acknowledged_offset_is_one_of_a_queue() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "extraInfo": "r", "offset": "9"}
    assert decode_header(pop.AckMessageRequest, ext).queue_offset == 9
