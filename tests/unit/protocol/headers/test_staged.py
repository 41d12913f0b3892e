"""Proves that the headers of staged batches travel under the names that docs/staged.md gives."""

import pytest

from roketto.protocol.errors import HeaderFieldError
from roketto.protocol.headers.base import Header, decode_header, encode_header
from roketto.protocol.headers.staged import (
    DecideStagedRequest,
    DecideStagedResponse,
    PublishStagedRequest,
    PublishStagedResponse,
    SinkStateRequest,
    SinkStateResponse,
    StageBatchRequest,
    StageBatchResponse,
)

WIRE: dict[type[Header], dict[str, str]] = {
    StageBatchRequest: {"sinkId": "s", "batchId": "7", "topic": "T", "queueId": "3"},
    StageBatchResponse: {
        "logOffset": "4096", "size": "512", "messageCount": "9", "queueId": "3",
    },
    SinkStateRequest: {"sinkId": "s"},
    SinkStateResponse: {
        "batchId": "7", "queryId": "q", "publishedBatchId": "6", "isPublished": "false",
    },
    DecideStagedRequest: {"sinkId": "s", "batchId": "7", "queryId": "q"},
    DecideStagedResponse: {
        "batchId": "7", "queryId": "q", "publishedBatchId": "7", "isPublished": "true",
        "isNew": "false",
    },
    PublishStagedRequest: {"sinkId": "s", "batchId": "7", "queryId": "q"},
    PublishStagedResponse: {"messageCount": "1000000", "isNew": "true"},
}  # fmt: skip


@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: str(kind.__name__))
def test_each_header_has_the_fields_of_the_page(kind: type[Header]) -> None:
    assert encode_header(decode_header(kind, WIRE[kind])) == WIRE[kind]


@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: str(kind.__name__))
def test_every_field_is_required_but_whose_query_it_is(kind: type[Header]) -> None:
    for name in WIRE[kind].keys() - {"queryId"}:
        with pytest.raises(HeaderFieldError, match=f"lacks {name}"):
            decode_header(kind, {key: text for key, text in WIRE[kind].items() if key != name})


def test_a_sink_that_nobody_knows_has_no_query() -> None:
    answer = SinkStateResponse(batch_id=-1, published_batch_id=-1, is_published=False)
    assert encode_header(answer) == {
        "batchId": "-1", "publishedBatchId": "-1", "isPublished": "false",
    }  # fmt: skip
