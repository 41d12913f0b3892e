"""Proves that the headers of topics on a broker are the peer's."""

from roketto.protocol.headers import topics
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = topics


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_an_old_slave_asks_for_all_topics_with_no_field_at_all() -> None:
    assert decode_header(topics.GetAllTopicConfigRequest, None).topic_seq is None
