"""Proves that the headers of connected clients are the peer's."""

from roketto.protocol.headers import clients
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = clients


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_the_client_id_of_a_leaving_client_is_spelt_in_capitals() -> None:
    request = clients.UnregisterClientRequest(client_id="c", producer_group="p")
    assert encode_header(request) == {"clientID": "c", "producerGroup": "p"}


def test_a_heartbeat_answer_tells_what_the_peer_tells() -> None:
    answer = clients.HeartbeatResponse(supports_heartbeat_v2=True, subscription_changed=False)
    ext = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    assert encode_header(answer) == ext
    assert decode_header(clients.HeartbeatResponse, ext) == answer
