"""Proves that the headers of the controller are the peer's."""

from roketto.protocol.headers import controller
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = controller


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_an_election_without_fields_is_for_no_broker_in_particular() -> None:
    request = decode_header(controller.ElectMasterRequest, {})
    assert (request.cluster_name, request.broker_id, request.designate_elect) == ("", -1, False)


def test_the_leader_flag_keeps_its_prefix() -> None:
    answer = controller.GetMetaDataResponse(is_leader=True)
    assert encode_header(answer) == {"isLeader": "true"}
