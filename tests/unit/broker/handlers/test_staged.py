"""The four requests of staged batches do what docs/staged.md says, and refuse the rest by name."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers.staged import PROPERTIES_MAX, ROUTES
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.staged import StagedDecision
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import ONE_WAY_FLAG, Command
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.staged import (
    DecideStagedResponse,
    PublishStagedResponse,
    SinkStateResponse,
    StageBatchResponse,
)
from roketto.protocol.names import SINKS_TOPIC, STAGED_TOPIC
from roketto.store.diskgate import DiskGate
from unit.broker.staged_rig import SINK, StagedRig, batch_of, told

STAGE = {"sinkId": SINK, "batchId": "0", "topic": "T", "queueId": "1"}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StagedRig]:
    rig = StagedRig(tmp_path)
    yield rig
    rig.close()


async def test_a_batch_is_staged_decided_and_published(rig: StagedRig) -> None:
    """The whole way of one, and what each answer says."""
    piece = await rig.stage("a", "b")
    assert rig.bodies() == [], "nobody consumes it yet"
    decided = told(DecideStagedResponse, await rig.decide([piece]))
    assert (decided.batch_id, decided.is_new, decided.is_published) == (0, True, False)
    state = await rig.state()
    assert told(SinkStateResponse, state) == SinkStateResponse(
        batch_id=0, query_id="query", published_batch_id=-1, is_published=False
    )
    decision = decode_body(StagedDecision, state.body)
    assert decision.pieces == {rig.config.broker_name: [piece]}
    published = told(PublishStagedResponse, await rig.publish([piece]))
    assert (published.message_count, published.is_new) == (2, True)
    assert rig.bodies() == ["a", "b"]
    assert told(SinkStateResponse, await rig.state()).is_published
    again = told(PublishStagedResponse, await rig.publish([piece]))
    assert (again.message_count, again.is_new) == (0, False)
    assert rig.bodies() == ["a", "b"]


async def test_a_sink_that_nobody_knows_has_decided_nothing(rig: StagedRig) -> None:
    answer = await rig.state("nobody")
    assert answer.ext == {"batchId": "-1", "publishedBatchId": "-1", "isPublished": "false"}
    assert not answer.body
    assert rig.sinks.find("nobody") is None


async def test_a_decision_that_was_made_before_comes_with_the_answer(rig: StagedRig) -> None:
    piece = await rig.stage("a")
    other = await rig.stage("b")
    await rig.decide([piece])
    answer = await rig.decide([other])
    assert not told(DecideStagedResponse, answer).is_new
    assert decode_body(StagedDecision, answer.body).pieces == {rig.config.broker_name: [piece]}


async def test_a_decision_that_retention_took_is_told_by_its_number(rig: StagedRig) -> None:
    await rig.decide([])
    sink = rig.sinks.find(SINK)
    assert sink is not None
    sink.decided_at = 1 << 40
    answer = await rig.state()
    assert (told(SinkStateResponse, answer).batch_id, bytes(answer.body)) == (0, b"")
    assert "retention has removed it" in (answer.remark or "")


async def test_topics_of_our_own_are_made_on_first_use(rig: StagedRig) -> None:
    topics = rig.context.topics
    assert (topics.get(STAGED_TOPIC), topics.get(SINKS_TOPIC)) == (None, None)
    piece = await rig.stage("a")
    staged, sinks = topics.get(STAGED_TOPIC), topics.get(SINKS_TOPIC)
    assert staged is not None
    assert (staged.write_queue_nums, sinks) == (1, None)
    await rig.decide([piece])
    assert topics.get(SINKS_TOPIC) is not None


@pytest.mark.parametrize("topic", [STAGED_TOPIC, SINKS_TOPIC])
async def test_nobody_sends_or_stages_to_the_topics_of_our_own(rig: StagedRig, topic: str) -> None:
    """Whoever could, could decide for others."""
    answer = await rig.tell(RequestCode.STAGE_BATCH, {**STAGE, "topic": topic}, batch_of("a"))
    assert answer.code == ResponseCode.NO_PERMISSION
    sent = rig.request(topic=topic)
    assert (await rig.tell(RequestCode.SEND_MESSAGE_V2, sent.ext or {}, b"x")).code == (
        ResponseCode.NO_PERMISSION
    )


REFUSED = [
    ({"topic": "No such"}, batch_of("a"), ResponseCode.INVALID_PARAMETER, "illegal characters"),
    ({"queueId": "4"}, batch_of("a"), ResponseCode.INVALID_PARAMETER, "is illegal"),
    ({"topic": "%RETRY%g"}, batch_of("a"), ResponseCode.MESSAGE_ILLEGAL, "retry group"),
    ({"sinkId": "a b"}, batch_of("a"), ResponseCode.INVALID_PARAMETER, "sinkId is"),
    ({"batchId": "-1"}, batch_of("a"), ResponseCode.INVALID_PARAMETER, "batches count from 0"),
    ({}, b"", ResponseCode.MESSAGE_ILLEGAL, "has no messages"),
    ({}, batch_of("a")[:-1], ResponseCode.MESSAGE_ILLEGAL, "batch item at 0"),
    ({}, batch_of("a") + b"x", ResponseCode.MESSAGE_ILLEGAL, "ends within the item"),
    (
        {},
        encode_batch([BatchItem(b"a", b"x" * (PROPERTIES_MAX + 1))]),
        ResponseCode.MESSAGE_ILLEGAL,
        "32746 are taken",
    ),
    (
        {},
        encode_batch([BatchItem(bytes(4_194_304))]),
        ResponseCode.MESSAGE_ILLEGAL,
        "maxMessageSize",
    ),
]


@pytest.mark.parametrize(("fields", "body", "code", "reason"), REFUSED)
async def test_what_could_not_be_published_is_not_staged(
    rig: StagedRig, fields: dict[str, str], body: bytes, code: int, reason: str
) -> None:
    answer = await rig.tell(RequestCode.STAGE_BATCH, {**STAGE, **fields}, body)
    assert (answer.code, reason in (answer.remark or "")) == (code, True), answer.remark
    assert rig.records(STAGED_TOPIC, 0) == []


async def test_properties_of_the_largest_size_that_is_taken_are_published(rig: StagedRig) -> None:
    """With the checksum that the store adds, and what it needs before that."""
    body = encode_batch([BatchItem(b"a", b"x" * PROPERTIES_MAX)])
    where = told(StageBatchResponse, await rig.tell(RequestCode.STAGE_BATCH, STAGE, body))
    told(PublishStagedResponse, await rig.publish([[where.log_offset, where.size]]))
    assert rig.bodies() == ["a"]


async def test_the_broker_chooses_a_queue_where_none_is_asked_for(rig: StagedRig) -> None:
    answer = await rig.tell(RequestCode.STAGE_BATCH, {**STAGE, "queueId": "-1"}, batch_of("a"))
    where = told(StageBatchResponse, answer)
    await rig.publish([[where.log_offset, where.size]])
    assert rig.bodies(where.queue_id) == ["a"]


@pytest.mark.parametrize(
    ("code", "ext", "body", "reason"),
    [
        (RequestCode.SINK_STATE, {"sinkId": ""}, b"", "sinkId is"),
        (RequestCode.DECIDE_STAGED, {"queryId": " "}, b'{"pieces":{}}', "queryId is"),
        (RequestCode.DECIDE_STAGED, {"batchId": "-7"}, b'{"pieces":{}}', "batchId is -7"),
        (RequestCode.DECIDE_STAGED, {}, b'{"pieces":{"b":[[1]]}}', "is no piece"),
        (RequestCode.DECIDE_STAGED, {}, b"what?", "JSON"),
        (RequestCode.PUBLISH_STAGED, {"queryId": ""}, b'{"pieces":[]}', "queryId is"),
        (RequestCode.PUBLISH_STAGED, {"batchId": "-7"}, b'{"pieces":[]}', "batchId is -7"),
        (RequestCode.PUBLISH_STAGED, {}, b'{"pieces":[[1,2],[1,2]]}', "is there twice"),
        (RequestCode.PUBLISH_STAGED, {}, b"", "JSON"),
    ],
)
async def test_what_is_not_understood_is_refused_and_nothing_is_stored(
    rig: StagedRig, code: RequestCode, ext: dict[str, str], body: bytes, reason: str
) -> None:
    before = rig.store.log.written
    asked = {"sinkId": SINK, "batchId": "0", "queryId": "q", **ext}
    answer = await rig.tell(code, asked, body)
    assert answer.code != 0
    assert reason in (answer.remark or "")
    assert rig.store.log.written == before


async def test_a_full_disk_refuses_each_of_them_as_a_send(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = await rig.stage("a")
    await rig.decide([piece])
    monkeypatch.setattr(DiskGate, "reason", "the disk is 96 % full", raising=False)
    sent = await rig.tell(RequestCode.SEND_MESSAGE_V2, rig.request().ext or {}, b"x")
    staged = await rig.tell(RequestCode.STAGE_BATCH, STAGE, batch_of("b"))
    decided = await rig.decide([], sink="new")
    published = await rig.publish([piece])
    answers = (sent, staged, decided, published)
    assert {(each.code, each.remark) for each in answers} == {
        (ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is 96 % full")
    }
    assert (await rig.state()).code == 0


async def test_a_disk_that_hangs_refuses_them_before_anything_is_stored(rig: StagedRig) -> None:
    rig.context.durability.is_busy = True
    before = rig.store.log.written
    staged = await rig.tell(RequestCode.STAGE_BATCH, STAGE, batch_of("b"))
    answers = (staged, await rig.decide([]), await rig.publish([]))
    assert {each.code for each in answers} == {ResponseCode.SYSTEM_BUSY}
    assert rig.store.log.written == before


async def test_under_sync_flush_every_answer_waits_for_the_disk(tmp_path: Path) -> None:
    """That to a question, too: what it tells must not be lost with the power."""
    rig = StagedRig(tmp_path, is_sync=True)
    connection = rig.connection
    try:
        ext = {"sinkId": SINK, "batchId": "0", "queryId": "q"}
        asked = [
            Command(RequestCode.STAGE_BATCH, STAGE, memoryview(batch_of("a"))),
            Command(RequestCode.DECIDE_STAGED, ext, memoryview(b'{"pieces":{}}')),
            Command(RequestCode.SINK_STATE, ext),
            Command(RequestCode.PUBLISH_STAGED, ext, memoryview(b'{"pieces":[]}')),
        ]
        for number, request in enumerate(asked, 1):
            rig.store.log.segments.flushed = 0
            reply = ROUTES[RequestCode(request.code)](
                rig.context, connection.as_connection, request
            )
            if reply is not None and not isinstance(reply, Command):
                reply = await reply
            waits = connection.held == number
            # The flushing thread may have been quicker: then nobody needs to wait.
            assert waits or reply is not None
            connection.held = number
        for _ in range(200):
            if rig.store.flushed >= rig.store.log.written:
                break
            await asyncio.sleep(0.01)
        answer = await rig.state()
        assert decode_header(SinkStateResponse, answer.ext).is_published
    finally:
        rig.close()


async def test_who_wants_no_answer_gets_none(rig: StagedRig) -> None:
    request = Command(RequestCode.STAGE_BATCH, STAGE, memoryview(batch_of("a")), flag=ONE_WAY_FLAG)
    assert rig.handle(request, ROUTES[RequestCode.STAGE_BATCH]) is None
    assert len(rig.records(STAGED_TOPIC, 0)) == 1
