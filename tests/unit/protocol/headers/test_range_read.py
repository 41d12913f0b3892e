"""Proves that the headers of bulk reading travel under the names that docs/range_read.md gives."""

import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.range_read import ReadRangeRequest, ReadRangeResponse


def test_a_request_names_queue_range_and_bounds() -> None:
    ext = {
        "consumerGroup": "spark", "topic": "T", "queueId": "3", "queueOffset": "17",
        "endOffset": "99", "maxBytes": "1048576", "tagCodes": "97,-5",
    }  # fmt: skip
    said = decode_header(ReadRangeRequest, ext)
    assert (said.topic, said.queue_id, said.queue_offset, said.end_offset) == ("T", 3, 17, 99)
    assert (said.consumer_group, said.max_bytes, said.tag_codes) == ("spark", 1_048_576, "97,-5")
    assert encode_header(said) == ext


def test_only_the_queue_and_the_first_offset_are_required() -> None:
    said = decode_header(ReadRangeRequest, {"topic": "T", "queueId": "0", "queueOffset": "0"})
    assert (said.consumer_group, said.end_offset, said.max_bytes, said.tag_codes) == (None,) * 4
    with pytest.raises(HeaderFieldError, match="lacks queueOffset"):
        decode_header(ReadRangeRequest, {"topic": "T", "queueId": "0"})


def test_an_answer_says_where_to_go_on_and_how_many_came() -> None:
    answer = ReadRangeResponse(next_begin_offset=9, min_offset=0, max_offset=20, message_count=9)
    assert encode_header(answer) == {
        "nextBeginOffset": "9", "minOffset": "0", "maxOffset": "20", "messageCount": "9",
    }  # fmt: skip
