"""One pull: ask a broker for messages of a queue, and make of its answer what a consumer gets."""

import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from roketto.client.client import Client
from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.received import ReceivedMessage
from roketto.client.routes import MASTER_ID
from roketto.client.subscription import SQL92, Subscription
from roketto.protocol.batch import unwrap_batch
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import CompressionError, HeaderFieldError, RecordError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.pull import PullMessageRequest, PullMessageResponse
from roketto.protocol.names import retry_topic
from roketto.protocol.property_names import RETRY_TOPIC
from roketto.protocol.record import Record, decode_record
from roketto.protocol.sysflags import (
    COMPRESSED,
    PULL_COMMIT_OFFSET,
    PULL_LITE,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    needs_unwrap,
)
from roketto.protocol.versions import V4_1_0_SNAPSHOT

__all__ = ["PullRequest", "PullStatus", "Pulled", "pull"]

log = logging.getLogger(__name__)

COUNT_MAX: Final = 32
"""Java's pullBatchSize; brokers have such a limit of their own, by default the same."""
BYTES_MAX: Final = 262_144
"""Java's pullBatchSizeInBytes."""
TIMEOUT_MS: Final = 30_000
"""Java's consumerTimeoutMillisWhenSuspend: brokers hold a pull for up to 20 s."""


class PullStatus(Enum):
    """What became of a pull."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW = ResponseCode.PULL_NOT_FOUND
    """The queue has nothing more; with ``suspend_ms`` not even after that time."""
    NO_MATCHED = ResponseCode.PULL_RETRY_IMMEDIATELY
    """What there was is not wanted; there may be more behind it."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """The queue has no such offset; ``next_offset`` is the nearest one it has."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to pull. Topic and group are named as brokers know them."""

    queue: MessageQueue
    group: str
    subscription: Subscription
    queue_offset: int
    count_max: int = COUNT_MAX
    bytes_max: int = BYTES_MAX
    suspend_ms: int = 0
    """How long the broker may wait for a message; ``timeout_ms`` is longer than that."""
    timeout_ms: int = TIMEOUT_MS
    consume_offset: int | None = None
    """Committed along the way, if the answer comes from a master."""
    is_lite: bool = False
    sends_expression: bool = False
    """The request says what is wanted; otherwise what heartbeats say counts."""
    broker_id: int = MASTER_ID
    """Whom to ask: what the last answer has suggested."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull has given. Go on at ``next_offset``, and ask ``broker_id`` then."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage] = field(default_factory=list)
    broker_id: int = MASTER_ID


_STATUS: Final[dict[int, PullStatus]] = {status.value: status for status in PullStatus}


async def pull(client: Client, request: PullRequest) -> Pulled:
    """Pull once; RefusedError where the broker will not, UnreachableError where it does not answer.

    A slave that cannot be connected to is passed over for its master.
    """
    queue = request.queue
    routes = client.routes
    host = routes.broker_of(queue)
    address, broker_id = await routes.for_pulling(host, request.broker_id, queue.topic)
    try:
        return await _pull_from(client, request, address, broker_id)
    except UnreachableError as error:
        master = routes.addresses_of(host).get(MASTER_ID)
        if error.is_sent or master is None or master == address:
            raise
        log.debug("pulling %s from the master instead: %s", queue, error)
        return await _pull_from(client, request, master, MASTER_ID)


async def _pull_from(client: Client, request: PullRequest, address: str, broker_id: int) -> Pulled:
    _check_version(client, request, address)
    code = RequestCode.LITE_PULL_MESSAGE if request.is_lite else RequestCode.PULL_MESSAGE
    answer = await client.calls.ask(
        address, code, make_header(request, broker_id), timeout_ms=request.timeout_ms
    )
    status = _STATUS.get(answer.code)
    if status is None:
        raise RefusedError(address, answer.code, answer.remark or "without a reason")
    return read_answer(client, request, address, status, answer)


def _check_version(client: Client, request: PullRequest, address: str) -> None:
    version = client.heartbeats.version_of(address)
    if request.subscription.expression_type == SQL92 and 0 < version < V4_1_0_SNAPSHOT:
        raise ClientError(
            f"{client.calls.describe(address)} is of version {version}, which has no SQL92"
            f" ({V4_1_0_SNAPSHOT} has); subscribe to {request.queue.topic} by tags"
        )


def make_header(request: PullRequest, broker_id: int) -> PullMessageRequest:
    """The request to a broker of that id."""
    queue, wanted = request.queue, request.subscription
    flag = PULL_LITE if request.is_lite else 0
    if request.suspend_ms > 0:
        flag |= PULL_SUSPEND
    if request.consume_offset is not None and broker_id == MASTER_ID:
        flag |= PULL_COMMIT_OFFSET
    if request.sends_expression:
        flag |= PULL_SUBSCRIPTION
    # A version would be compared with that of heartbeats, which may never have told of this one.
    has_version = not request.sends_expression or wanted.expression_type == SQL92
    return PullMessageRequest(
        consumer_group=request.group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=request.queue_offset,
        max_msg_nums=request.count_max,
        sys_flag=flag,
        consume_offset=request.consume_offset or 0,
        suspend_timeout_ms=request.suspend_ms,
        subscription=wanted.expression if request.sends_expression else None,
        sub_version=wanted.version_ms if has_version else 0,
        expression_type=wanted.expression_type,
        max_msg_bytes=request.bytes_max,
        target_broker_name=queue.broker_name,
    )


def read_answer(
    client: Client, request: PullRequest, address: str, status: PullStatus, answer: Command
) -> Pulled:
    """What a consumer gets of an answer.

    Where brokers have found what only has the hash of a tag that is wanted, nothing is FOUND.
    """
    try:
        header = decode_header(PullMessageResponse, answer.ext)
    except HeaderFieldError as error:
        raise ClientError(
            f"{address} answers a pull with what is no answer: {error.reason}"
        ) from error
    next_offset = header.next_begin_offset
    messages: list[ReceivedMessage] = []
    if status is PullStatus.FOUND:
        records, is_whole = _decode(bytes(answer.body), address, request)
        if not is_whole:  # the rest is asked for again
            next_offset = records[-1].queue_offset + 1 + (header.offset_delta or 0)
        messages = _receive(client, request, records, header)
        if not messages:
            status = PullStatus.NO_MATCHED
    return Pulled(
        status, next_offset, header.min_offset, header.max_offset, messages,
        header.suggest_which_broker_id,
    )  # fmt: skip


def _decode(data: bytes, address: str, request: PullRequest) -> tuple[list[Record], bool]:
    """The records of an answer, and whether they are all that it has."""
    records: list[Record] = []
    at = 0
    while at < len(data):
        try:
            record = decode_record(data, at)
        except RecordError as error:
            if not records:
                raise ClientError(
                    f"{address} has answered with what is no message, from offset"
                    f" {request.queue_offset} of {request.queue} on: {error}"
                ) from error
            log.warning("%s has answered with %s messages of %s and then: %s", address,
                        len(records), request.queue, error)  # fmt: skip
            return records, False
        at += record.size
        if needs_unwrap(record.sys_flag):
            records += _unwrap(record)
        else:
            records.append(record)
    return records, True


def _unwrap(record: Record) -> list[Record]:
    try:
        return unwrap_batch(record)
    except RecordError as error:
        log.warning("%r is given as it is: %s", record, error)
        return [record]


def _receive(
    client: Client, request: PullRequest, records: list[Record], header: PullMessageResponse
) -> list[ReceivedMessage]:
    """Those of the records that are wanted, as the consumer sees them."""
    queue, wanted = request.queue, request.subscription
    delta = header.offset_delta or 0
    retries = retry_topic(request.group)
    found: list[ReceivedMessage] = []
    stored_topic = topic = ""
    for record in records:
        if wanted.tags and not wanted.wants(record):
            continue
        if record.sys_flag & COMPRESSED:
            _decompress(record)
        # Of a static topic, brokers know queue and offset by other numbers.
        record.queue_id = queue.queue_id
        record.queue_offset += delta
        if record.topic != stored_topic:
            stored_topic = record.topic
            topic = client.unwrap(stored_topic)
        own_topic = record.get_property(RETRY_TOPIC) if stored_topic == retries else None
        found.append(
            ReceivedMessage(
                record,
                queue.broker_name,
                topic if own_topic is None else client.unwrap(own_topic),
                header.max_offset,
            )
        )
    return found


def _decompress(record: Record) -> None:
    """A body that cannot be unpacked is given as it is: the message must not vanish."""
    try:
        record.decompress()
    except CompressionError as error:
        log.warning("the body of %r is given as it is: %s", record, error)
