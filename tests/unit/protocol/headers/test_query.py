"""Proves that the headers of looking for messages are the peer's."""

from roketto.protocol.headers import query
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = query


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_a_query_says_beside_the_peers_header_that_its_key_is_unique() -> None:
    ext = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
    assert decode_header(query.QueryMessageRequest, ext).is_unique_key is None
    unique = {**ext, "_UNIQUE_KEY_QUERY": "true"}
    assert decode_header(query.QueryMessageRequest, unique).is_unique_key is True
