"""Proves that the headers of the name server are the peer's."""

import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers import namesrv
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = namesrv


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_registration_and_heartbeat_spell_the_timeout_differently() -> None:
    names = {"clusterName": "c", "brokerAddr": "a", "brokerName": "b"}
    heartbeat = namesrv.BrokerHeartbeatRequest(
        cluster_name="c", broker_addr="a", broker_name="b", heartbeat_timeout_ms=5
    )
    assert encode_header(heartbeat) == {**names, "heartbeatTimeoutMills": "5"}
    registration = decode_header(
        namesrv.RegisterBrokerRequest,
        {**names, "haServerAddr": "h", "brokerId": "0", "heartbeatTimeoutMillis": "5"},
    )
    assert registration.heartbeat_timeout_ms == 5


def test_zones_travel_beside_the_peers_header() -> None:
    request = namesrv.GetRouteInfoRequest(topic="T", zone_name="z", zone_mode="true")
    assert encode_header(request) == {"topic": "T", "__ZONE_NAME": "z", "__ZONE_MODE": "true"}


def test_a_registration_without_a_broker_id_is_refused() -> None:
    ext = {"clusterName": "c", "brokerAddr": "a", "brokerName": "b", "haServerAddr": "h"}
    with pytest.raises(HeaderFieldError, match="RegisterBrokerRequest lacks brokerId"):
        decode_header(namesrv.RegisterBrokerRequest, ext)
