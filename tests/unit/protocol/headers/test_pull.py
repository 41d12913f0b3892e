"""Proves that the headers of pulling are the peer's."""

import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers import pull
from roketto.protocol.headers.base import Header, decode_header, encode_header
from unit.protocol.headers.peer import check_ext, check_fields, check_fields_of_4, check_fresh

FAMILY = pull


def test_fields_are_those_of_the_peer(header_class: type[Header]) -> None:
    check_fields(header_class)
    check_fields_of_4(header_class)


def test_ext_fields_travel_as_the_peer_writes_them(header_class: type[Header]) -> None:
    check_ext(header_class)
    check_fresh(header_class)


EXT = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "3",
    "queueOffset": "17",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
}


def test_a_pull_of_a_4_x_client_is_complete() -> None:
    request = decode_header(pull.PullMessageRequest, EXT)
    assert (request.queue_id, request.queue_offset, request.consume_offset) == (3, 17, 0)
    assert request.suspend_timeout_ms == 15000
    assert request.max_msg_bytes is None
    assert encode_header(request) == EXT


def test_the_forwarded_client_has_the_misspelt_name() -> None:
    request = decode_header(pull.PullMessageRequest, {**EXT, "proxyFrowardClientId": "c"})
    assert request.proxy_forward_client_id == "c"


@pytest.mark.parametrize("name", EXT)
def test_a_pull_without_one_of_its_fields_is_refused(name: str) -> None:
    ext = {key: text for key, text in EXT.items() if key != name}
    with pytest.raises(HeaderFieldError, match=f"PullMessageRequest lacks {name}, which is"):
        decode_header(pull.PullMessageRequest, ext)


def test_the_quick_ways_to_write_an_answer_give_the_same_fields() -> None:
    answer = pull.PullMessageResponse(
        suggest_which_broker_id=1,
        next_begin_offset=2,
        min_offset=-3,
        max_offset=2**62,
        topic_sys_flag=5,
        group_sys_flag=6,
    )
    ext = pull.encode_pull_answer(1, 2, -3, 2**62, 5, 6)
    assert list(ext.items()) == list(encode_header(answer).items())
    answer.forbidden_type = 4
    assert encode_header(answer).items() >= pull.encode_pull_refusal(4).items()
