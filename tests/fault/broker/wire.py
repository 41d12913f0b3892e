"""What a client says to a broker over the wire: sends, reads of whole queues, queries by key."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from checker import Found, QueueRead
from fault.appender import queue_name, value_of
from roketto.clock import wall_ms
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.headers.query import QueryMessageRequest
from roketto.protocol.headers.range_read import ReadRangeRequest, ReadRangeResponse
from roketto.protocol.headers.send import SendMessageResponse, SendMessageV2Request
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.protocol.sysflags import PULL_SUBSCRIPTION
from roketto.remoting.client import connect
from roketto.remoting.connection import Connection, Handler, refuse_requests

TIMEOUT_MS: Final = 15_000
"""Longer than anything takes, also on a machine that does much else."""
_QUERIES_UNDER_WAY: Final = 32


class Queue(NamedTuple):
    """A queue of the one broker that these tests have."""

    topic: str
    queue_id: int

    def __str__(self) -> str:
        return queue_name(self.topic, self.queue_id)


@asynccontextmanager
async def connected(address: str, handler: Handler = refuse_requests) -> AsyncIterator[Connection]:
    connection = await connect(address, handler=handler)
    try:
        yield connection
    finally:
        connection.close("the test is done")


def send_request(
    queue: Queue,
    body: bytes,
    properties: dict[str, str],
    *,
    sys_flag: int = 0,
    is_batch: bool = False,
    queues: int = 8,
) -> Command:
    """SEND_MESSAGE_V2, or SEND_BATCH_MESSAGE; a topic that is new gets so many ``queues``."""
    header = SendMessageV2Request(
        producer_group="producers", topic=queue.topic, default_topic="TBW102",
        default_topic_queue_nums=queues, queue_id=queue.queue_id, sys_flag=sys_flag,
        born_timestamp=wall_ms(), flag=0, properties=encode_properties(properties).decode(),
        reconsume_times=0, unit_mode=False, batch=is_batch,
    )  # fmt: skip
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return Command(code, encode_header(header), body)


def batch_request(queue: Queue, items: Sequence[BatchItem]) -> Command:
    return send_request(queue, encode_batch(list(items)), {}, is_batch=True)


def stored_at(answer: Command) -> SendMessageResponse:
    return decode_header(SendMessageResponse, answer.ext)


async def ask(connection: Connection, request: Command) -> Command:
    return await connection.request(request, TIMEOUT_MS)


async def send(
    connection: Connection, queue: Queue, body: bytes, properties: dict[str, str]
) -> SendMessageResponse:
    """Send one message, which must be taken."""
    answer = await ask(connection, send_request(queue, body, properties))
    assert answer.code == 0, answer.remark
    return stored_at(answer)


async def read_queue(connection: Connection, queue: Queue, first: int = 0) -> list[Record]:
    """All messages of a queue from an offset on; none if there is no such queue."""
    records: list[Record] = []
    offset = first
    while True:
        header = ReadRangeRequest(topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset)
        answer = await ask(connection, Command(RequestCode.READ_RANGE, encode_header(header)))
        if answer.code in _NOTHING:
            return records
        assert answer.code == 0, f"{queue}@{offset}: {answer.code} {answer.remark}"
        records += decode_records(memoryview(answer.body), strict=True)
        offset = decode_header(ReadRangeResponse, answer.ext).next_begin_offset


_NOTHING: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.INVALID_PARAMETER,
)
"""Nothing behind this offset, or never so much, or no topic or queue of this name."""


async def found_in(
    connection: Connection, queue: Queue, first: int = 0, reader: str = "broker"
) -> QueueRead:
    """The same for the checker."""
    records = await read_queue(connection, queue, first)
    found = [
        Found(record.queue_offset, value_of(bytes(record.body)), record.offset_id)
        for record in records
    ]
    return QueueRead(reader, str(queue), found, first)


async def pull(connection: Connection, queue: Queue, first: int = 0) -> list[Record]:
    """What an ordinary pull gets from an offset on, which must be something."""
    header = PullMessageRequest(
        consumer_group="pulling", topic=queue.topic, queue_id=queue.queue_id, queue_offset=first,
        max_msg_nums=32, sys_flag=PULL_SUBSCRIPTION, consume_offset=0, suspend_timeout_ms=0,
        subscription="*", sub_version=0, expression_type="TAG",
    )  # fmt: skip
    answer = await ask(connection, Command(RequestCode.PULL_MESSAGE, encode_header(header)))
    assert answer.code == 0, answer.remark
    return decode_records(memoryview(answer.body), strict=True)


# --- keys -----------------------------------------------------------------------------------------


async def find_by_key(connection: Connection, topic: str, key: str) -> list[Record]:
    """The messages of a topic that a broker finds by a key."""
    header = QueryMessageRequest(
        topic=topic, key=key, max_num=9, begin_timestamp=0, end_timestamp=2**63 - 1
    )
    answer = await ask(connection, Command(RequestCode.QUERY_MESSAGE, encode_header(header)))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    assert answer.code == 0, answer.remark
    return decode_records(memoryview(answer.body), strict=True)


async def check_keys(connection: Connection, topic: str, values: Iterable[str]) -> None:
    """AssertionError unless each key that these values were sent with finds its message.

    How often a message is there is for the checker to say.
    """
    missing, wanted = [], [(key, value) for value in values for key in (f"K{value}", f"U{value}")]

    async def find(key: str, value: str) -> None:
        found = await find_by_key(connection, topic, key)
        if value not in {value_of(bytes(record.body)) for record in found}:
            missing.append(key)

    for start in range(0, len(wanted), _QUERIES_UNDER_WAY):
        batch = wanted[start : start + _QUERIES_UNDER_WAY]
        await asyncio.gather(*(find(key, value) for key, value in batch))
    assert wanted, "there is no key"
    assert not missing, f"{len(missing)} of {len(wanted)} keys find nothing, such as {missing[:3]}"
