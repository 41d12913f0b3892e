"""Proves that the headers of broker configuration are the peer's."""

from roketto.protocol.headers import broker_config
from roketto.protocol.headers.base import Header, decode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = broker_config


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


def test_switches_that_the_peer_reads_by_hand_have_headers_here() -> None:
    mode = decode_header(broker_config.SetCommitLogReadModeRequest, {"READ_AHEAD_MODE": "1"})
    assert mode.read_ahead_mode == 1
    engine = decode_header(broker_config.SwitchTimerEngineRequest, {"E_T": "R"})
    assert engine.engine_type == "R"
