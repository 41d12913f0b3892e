"""Proves that the headers of subscription groups are the peer's."""

from roketto.protocol.headers import groups
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = groups


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_an_old_slave_asks_for_all_groups_with_no_field_at_all() -> None:
    assert decode_header(groups.GetAllSubscriptionGroupRequest, None).group_seq is None


def test_a_deletion_speaks_to_brokers_of_4_x_and_5_x() -> None:
    request = groups.DeleteSubscriptionGroupRequest(
        group_name="g", clean_offset=True, remove_offset=True
    )
    assert encode_header(request) == {
        "groupName": "g",
        "cleanOffset": "true",
        "removeOffset": "true",
    }
