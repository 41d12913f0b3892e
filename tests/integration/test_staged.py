"""Staged batches over the wire: a broker that publishes much serves others, and knows it later."""

import asyncio
from pathlib import Path
from typing import Final

from fault.broker.wire import Queue, ask, connected, read_queue, send
from roketto.clock import monotonic_s
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.staged import StagedDecision, StagedPieces
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.staged import (
    PublishStagedResponse,
    SinkStateResponse,
    StageBatchResponse,
)
from roketto.protocol.record import decode_records
from roketto.protocol.sysflags import PULL_SUBSCRIPTION, PULL_SUSPEND
from roketto.remoting.connection import Connection
from servers import broker

QUEUE: Final = Queue("Staged", 0)
OTHER: Final = Queue("Other", 0)
SINK: Final = {"sinkId": "sink", "batchId": "0", "queryId": "query"}
PIECES: Final = 20
MESSAGES: Final = 3_000


async def stage(connection: Connection, bodies: list[bytes]) -> list[int]:
    ext = {**SINK, "topic": QUEUE.topic, "queueId": str(QUEUE.queue_id)}
    body = encode_batch(BatchItem(body) for body in bodies)
    answer = await ask(connection, Command(RequestCode.STAGE_BATCH, ext, body))
    assert answer.code == 0, answer.remark
    where = decode_header(StageBatchResponse, answer.ext)
    return [where.log_offset, where.size]


async def wait_for_messages(connection: Connection) -> list[bytes]:
    """The messages that a consumer gets which was there before them."""
    header = PullMessageRequest(
        consumer_group="waiting", topic=QUEUE.topic, queue_id=QUEUE.queue_id, queue_offset=0,
        max_msg_nums=32, sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION, consume_offset=0,
        suspend_timeout_ms=15_000,
        subscription="*", sub_version=1, expression_type="TAG",
    )  # fmt: skip
    answer = await ask(connection, Command(RequestCode.PULL_MESSAGE, encode_header(header)))
    assert answer.code == 0, answer.remark
    return [bytes(record.body) for record in decode_records(memoryview(answer.body), strict=True)]


async def test_others_are_served_while_much_is_published(tmp_path: Path) -> None:
    """Sends to another topic are answered in between, and a consumer that waits is woken."""
    expected = [b"%d" % n * 8 for n in range(PIECES * MESSAGES)]
    with broker(tmp_path, []) as server:
        async with (
            connected(server.address) as sink,
            connected(server.address) as other,
            connected(server.address) as waiting,
        ):
            pieces = [
                await stage(sink, expected[begin : begin + MESSAGES])
                for begin in range(0, len(expected), MESSAGES)
            ]
            await send(other, OTHER, b"first", {})
            woken = asyncio.create_task(wait_for_messages(waiting))
            decision = encode_body(StagedDecision({"broker-a": pieces}))
            answer = await ask(sink, Command(RequestCode.DECIDE_STAGED, SINK, decision))
            assert answer.code == 0, answer.remark
            body = encode_body(StagedPieces(pieces))
            publishing = asyncio.create_task(
                ask(sink, Command(RequestCode.PUBLISH_STAGED, SINK, body))
            )
            taken_s = []
            while not publishing.done():
                begun_s = monotonic_s()
                await send(other, OTHER, b"in between", {})
                taken_s.append(monotonic_s() - begun_s)
            published = decode_header(PublishStagedResponse, (await publishing).ext)
            assert published.message_count == len(expected)
            assert len(taken_s) > PIECES, "one turn after the other"
            assert (await woken)[0] == expected[0]
            found = [bytes(record.body) for record in await read_queue(sink, QUEUE)]
    assert found == expected
    print(f"{len(taken_s)} sends in between, at worst {max(taken_s) * 1000:.0f} ms")


async def test_a_stop_and_a_start_change_nothing_of_what_sinks_know(tmp_path: Path) -> None:
    """Also when the file of sinks is lost: the log has all of it."""
    for life in range(3):
        with broker(tmp_path, []) as server:
            async with connected(server.address) as connection:
                if life == 0:
                    pieces = [await stage(connection, [b"a", b"b"])]
                    decision = encode_body(StagedDecision({"broker-a": pieces}))
                    await ask(connection, Command(RequestCode.DECIDE_STAGED, SINK, decision))
                answer = await ask(connection, Command(RequestCode.SINK_STATE, SINK))
                state = decode_header(SinkStateResponse, answer.ext)
                assert (state.batch_id, state.query_id) == (0, "query")
                assert state.is_published == (life == 2)
                assert bytes(answer.body) == decision
                if life == 1:
                    body = encode_body(StagedPieces(pieces))
                    answer = await ask(connection, Command(RequestCode.PUBLISH_STAGED, SINK, body))
                    assert answer.code == 0, answer.remark
        table = tmp_path / "store" / "config" / "sinks.json"
        assert table.exists()
        if life == 1:
            table.unlink()
            table.with_name("sinks.json.bak").unlink(missing_ok=True)
