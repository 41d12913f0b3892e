"""Proves that the headers of offsets are the peer's."""

import pytest

from roketto.protocol.headers import offsets
from roketto.protocol.headers.base import BoundaryType, Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = offsets


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


@pytest.mark.parametrize(
    ("text", "boundary"),
    [("UPPER", BoundaryType.UPPER), ("upper", BoundaryType.UPPER), ("none", BoundaryType.LOWER)],
)
def test_a_boundary_is_read_in_any_case_and_lower_by_default(
    text: str, boundary: BoundaryType
) -> None:
    ext = {"topic": "T", "queueId": "0", "timestamp": "5", "boundaryType": text}
    assert decode_header(offsets.SearchOffsetRequest, ext).boundary_type is boundary


def test_a_boundary_is_written_by_its_name() -> None:
    request = offsets.SearchOffsetRequest(
        topic="T", queue_id=0, timestamp=5, boundary_type=BoundaryType.UPPER
    )
    assert encode_header(request)["boundaryType"] == "UPPER"


def test_setting_zero_can_be_refused_or_left_open() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    cls = offsets.QueryConsumerOffsetRequest
    assert decode_header(cls, ext).set_zero_if_not_found is None
    assert decode_header(cls, {**ext, "setZeroIfNotFound": "false"}).set_zero_if_not_found is False


def test_a_reset_is_for_all_queues_unless_it_names_one() -> None:
    request = decode_header(offsets.ResetOffsetRequest, {"group": "g", "topic": "T"})
    assert (request.queue_id, request.queue_offset, request.is_force) == (-1, None, False)
    assert encode_header(request) == {
        "group": "g",
        "topic": "T",
        "queueId": "-1",
        "timestamp": "0",
        "isForce": "false",
    }
