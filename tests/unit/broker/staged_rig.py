"""A broker with sinks, without sockets: pieces, decisions and publications by their requests."""

from collections.abc import Sequence

from roketto.broker.dispatch import Dispatcher
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.staged import StagedDecision, StagedPieces
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import H, decode_header
from roketto.protocol.headers.staged import StageBatchResponse
from roketto.protocol.properties import encode_properties
from unit.broker.send_rig import SendRig

SINK = "sink"
QUERY = "query"


def batch_of(bodies: Sequence[str]) -> bytes:
    return encode_batch(
        BatchItem(body.encode(), encode_properties({"UNIQ_KEY": f"U{body[:20]}", "TAGS": "t"}))
        for body in bodies
    )


class StagedRig(SendRig):
    """What a sink does, request by request; ``told`` is a successful answer's header."""

    def open(self) -> None:
        super().open()
        self.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        self.sinks.start()

    async def tell(self, code: RequestCode, ext: dict[str, str], body: bytes = b"") -> Command:
        """The answer to a request, whenever it comes."""
        request = Command(code, ext, memoryview(body), opaque=9)
        reply = Dispatcher(self.context).handle(self.connection.as_connection, request)
        if reply is not None and not isinstance(reply, Command):
            reply = await reply
        assert reply is not None
        return reply

    async def stage(
        self, *bodies: str, batch: int = 0, queue_id: int = 1, sink: str = SINK, topic: str = "T"
    ) -> list[int]:
        """Stage messages; the piece."""
        ext = {"sinkId": sink, "batchId": str(batch), "topic": topic, "queueId": str(queue_id)}
        answer = await self.tell(RequestCode.STAGE_BATCH, ext, batch_of(bodies))
        where = told(StageBatchResponse, answer)
        assert where.message_count == len(bodies)
        return [where.log_offset, where.size]

    async def state(self, sink: str = SINK) -> Command:
        return await self.tell(RequestCode.SINK_STATE, {"sinkId": sink})

    async def decide(
        self, pieces: list[list[int]], *, batch: int = 0, sink: str = SINK, query: str = QUERY
    ) -> Command:
        ext = {"sinkId": sink, "batchId": str(batch), "queryId": query}
        body = encode_body(StagedDecision({self.config.broker_name: pieces}))
        return await self.tell(RequestCode.DECIDE_STAGED, ext, body)

    async def publish(
        self, pieces: list[list[int]], *, batch: int = 0, sink: str = SINK, query: str = QUERY
    ) -> Command:
        ext = {"sinkId": sink, "batchId": str(batch), "queryId": query}
        return await self.tell(RequestCode.PUBLISH_STAGED, ext, encode_body(StagedPieces(pieces)))

    def bodies(self, queue_id: int = 1, topic: str = "T") -> list[str]:
        """What consumers of a queue get."""
        return [bytes(record.body).decode() for record in self.records(topic, queue_id)]


def told(kind: type[H], answer: Command) -> H:
    assert answer.code == 0, answer.remark
    return decode_header(kind, answer.ext)
