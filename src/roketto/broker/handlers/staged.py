"""Staged batches: messages that are published once their sink has decided, each exactly once.

docs/staged.md describes the four requests. What they say is answered when it is as safe as a send
would be: the answer to a question, too, for whoever asks relies on it.
"""

from collections.abc import Mapping
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.handlers.send import check_batch_topic, check_send, choose_queue
from roketto.broker.put import put_as_is
from roketto.broker.sinks import NEVER, Sink
from roketto.broker.staged import check_batch_id, check_id, check_pieces, make_piece
from roketto.protocol.batch import check_batch
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.staged import StagedDecision, StagedPieces
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.crc import CRC_PROPERTY_BYTES
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.send import SendMessageRequest
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
from roketto.protocol.limits import PROPERTIES_BYTES_MAX
from roketto.protocol.names import DEFAULT_TOPIC, STAGED_TOPIC
from roketto.remoting.connection import Connection, Reply

PROPERTIES_MAX: Final = PROPERTIES_BYTES_MAX - CRC_PROPERTY_BYTES - 1
"""Of a message: what would not fit its record is refused before it is decided on."""

_GONE: Final = (
    "the decision is known by its number only: retention has removed it (fileReservedTime), and"
    " the pieces that it names as well"
)


def stage_batch(context: Context, connection: Connection, request: Command) -> Reply:
    """20481: keep messages for a queue, where nobody consumes them yet."""
    said = decode_header(StageBatchRequest, request.ext)
    check_id("sinkId", said.sink_id)
    check_batch_id(said.batch_id)
    send = _as_send(context, said)
    target = check_send(context, connection, send)
    check_batch_topic(said.topic)
    queue_id = choose_queue(send, target)
    count = check_batch(request.body, PROPERTIES_MAX)
    if not count:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the batch for topic {said.topic} has no messages; stage at least one",
        )
    context.topics.create_own(STAGED_TOPIC)
    piece = make_piece(said.sink_id, said.batch_id, said.topic, queue_id, request.body, count)
    piece.born_time_ms = context.clock_ms()
    piece.born_host = connection.peer_host
    piece.store_host = context.store_host
    where = put_as_is(context.store, context.stats, piece)
    answer = StageBatchResponse(
        log_offset=where.log_offset, size=where.size, message_count=count, queue_id=queue_id
    )
    return _when_safe(context, connection, request, _answer(request, answer), where.end)


def _as_send(context: Context, said: StageBatchRequest) -> SendMessageRequest:
    """What would be sent if it were sent at once: the same is checked."""
    return SendMessageRequest(
        producer_group=said.sink_id,
        topic=said.topic,
        default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=context.config.default_topic_queue_nums,
        queue_id=said.queue_id,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )


def sink_state(context: Context, connection: Connection, request: Command) -> Reply:
    """20482: say how far a sink is."""
    said = decode_header(SinkStateRequest, request.ext)
    check_id("sinkId", said.sink_id)
    sink = context.sinks.find(said.sink_id)
    if sink is None:
        nothing = SinkStateResponse(batch_id=NEVER, published_batch_id=NEVER, is_published=False)
        return _answer(request, nothing)
    state = SinkStateResponse(
        batch_id=sink.decided,
        query_id=sink.query_id,
        published_batch_id=sink.published,
        is_published=sink.is_published,
    )
    answer = _answer(request, state)
    _add_decision(context, sink, answer)
    return _when_safe(context, connection, request, answer, sink.end)


def decide(context: Context, connection: Connection, request: Command) -> Reply:
    """20483: a batch is to be published, of these pieces."""
    said = decode_header(DecideStagedRequest, request.ext)
    check_id("sinkId", said.sink_id)
    check_id("queryId", said.query_id)
    check_batch_id(said.batch_id)
    for pieces in decode_body(StagedDecision, request.body).pieces.values():
        check_pieces(pieces)
    if context.durability.is_busy:
        context.durability.refuse()
    sink, is_new = context.sinks.decide(
        said.sink_id, said.batch_id, said.query_id, bytes(request.body)
    )
    decided = DecideStagedResponse(
        batch_id=sink.decided,
        query_id=sink.query_id,
        published_batch_id=sink.published,
        is_published=sink.is_published,
        is_new=is_new,
    )
    answer = _answer(request, decided)
    if not is_new:
        _add_decision(context, sink, answer)
    return _when_safe(context, connection, request, answer, sink.end)


def _add_decision(context: Context, sink: Sink, answer: Command) -> None:
    decision = context.sinks.decision_of(sink)
    if decision is not None:
        answer.body = decision
    elif sink.decided != NEVER:
        answer.remark = _GONE


async def publish(context: Context, connection: Connection, request: Command) -> Command | None:
    """20484: let the pieces of a batch be consumed."""
    said = decode_header(PublishStagedRequest, request.ext)
    check_id("sinkId", said.sink_id)
    check_id("queryId", said.query_id)
    check_batch_id(said.batch_id)
    pieces = decode_body(StagedPieces, request.body).pieces
    check_pieces(pieces)
    if context.durability.is_busy:
        context.durability.refuse()
    published = await context.publications.publish(
        said.sink_id, said.batch_id, said.query_id, pieces
    )
    answer = _answer(
        request,
        PublishStagedResponse(message_count=published.messages, is_new=published.is_new),
    )
    safe = _when_safe(context, connection, request, answer, published.end)
    assert safe is None or isinstance(safe, Command), "it is answered now or held"
    return safe


def _answer(
    request: Command,
    header: StageBatchResponse | SinkStateResponse | DecideStagedResponse | PublishStagedResponse,
) -> Command:
    return request.answer(0, encode_header(header))


def _when_safe(
    context: Context, connection: Connection, request: Command, answer: Command, end: int
) -> Reply:
    """The answer, or None if it leaves once the log is on the disk up to ``end``."""
    if request.is_one_way:
        return None
    if end <= context.store.flushed:
        return answer  # nobody would tell of it again
    return context.durability.answer_when_safe(connection, request, answer, end)


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.STAGE_BATCH: stage_batch,
    RequestCode.SINK_STATE: sink_state,
    RequestCode.DECIDE_STAGED: decide,
    RequestCode.PUBLISH_STAGED: publish,
}
