"""Requests to a broker as the Java clients of 5.5.0 send them: the same fields in the same order.

A producer that sets neither tag nor key sends two properties, the unique key and WAIT; that is what
is sent here. The generator gives each message a unique key of its own.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.codes import LanguageCode, RequestCode
from roketto.protocol.command import Command, encode_command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.offsets import GetMaxOffsetRequest
from roketto.protocol.headers.topics import CreateTopicRequest
from roketto.protocol.sysflags import TRANSACTION_COMMIT, TRANSACTION_PREPARED

BATCH: Final = 32
PULL: Final = 32
GROUP: Final = "BenchConsumer"
BROKER_NAME: Final = "broker-a"

_PRODUCER: Final = "BenchProducer"
_OPAQUE: Final = 100_000_000
_SUBSCRIBED_MS: Final = 1_700_000_000_000
_JAVA_VERSION: Final = 513
_TEMPLATE_TOPIC: Final = "TBW102"


def java_command(code: int, ext: dict[str, str], body: bytes = b"") -> Command:
    """A command with the language and the version of a Java client."""
    language = int(LanguageCode.JAVA)
    return Command(code, ext, body, _OPAQUE, language=language, version=_JAVA_VERSION)


def unique_key(salt: int) -> str:
    """An id as Java's client makes it for a host of IPv4; the generator counts its last digits."""
    return f"7F000001{salt & 0xFFFF_FFFF_FFFF:012X}" + "0" * 12


def send_frames(
    topics: Sequence[str], queues: int, body_bytes: int, properties: str = ""
) -> list[bytes]:
    """SEND_MESSAGE_V2 to each queue of each topic in turn, with these properties more."""
    body = (b"abcdefghijklmnopqrstuvwxyz" * (body_bytes // 26 + 1))[:body_bytes]
    fields = [_send_fields(topic, queue) for queue in range(queues) for topic in topics]
    for of_one in fields:
        of_one["i"] += properties
    code = RequestCode.SEND_MESSAGE_V2
    return [encode_command(java_command(code, of_one, body)) for of_one in fields]


def transaction_frames(topic: str, queues: int, body_bytes: int) -> list[bytes]:
    """A half message to each queue in turn, and behind each its commit, for the generator to fill.

    A producer sends the end of a transaction one-way. Here an answer is asked for: a transaction
    counts when it is committed, and no more of them are on their way than the load says.
    """
    body = (b"abcdefghijklmnopqrstuvwxyz" * (body_bytes // 26 + 1))[:body_bytes]
    frames = []
    for queue in range(queues):
        half = _send_fields(topic, queue)
        half["f"] = str(TRANSACTION_PREPARED)
        half["i"] = f"TRAN_MSG\x01true\x02{half['i']}PGROUP\x01{_PRODUCER}\x02"
        end = {
            "producerGroup": _PRODUCER,
            "bname": BROKER_NAME,
            "commitLogOffset": "@L",
            "topic": topic,
            "msgId": "@K",
            "tranStateTableOffset": "@Q",
            "commitOrRollback": str(TRANSACTION_COMMIT),
            "transactionId": "@K",
            "fromTransactionCheck": "false",
        }
        frames.append(encode_command(java_command(RequestCode.SEND_MESSAGE_V2, half, body)))
        frames.append(encode_command(java_command(RequestCode.END_TRANSACTION, end)))
    return frames


def batch_frames(topic: str, queues: int, body_bytes: int) -> list[bytes]:
    """SEND_BATCH_MESSAGE with 32 messages to each queue in turn."""
    body = (b"abcdefghijklmnopqrstuvwxyz" * (body_bytes // 26 + 1))[:body_bytes]
    batch = encode_batch([BatchItem(body, _properties().encode())] * BATCH)
    code = RequestCode.SEND_BATCH_MESSAGE
    return [
        encode_command(java_command(code, _send_fields(topic, queue, batch=True), batch))
        for queue in range(queues)
    ]


def pull_frames(topic: str, ends: Sequence[int]) -> list[bytes]:
    """PULL_MESSAGE of 32 messages each, all queues in turn, up to the ends of the queues."""
    starts = range(0, min(ends) - PULL + 1, PULL)
    return [
        encode_command(java_command(RequestCode.PULL_MESSAGE, _pull_fields(topic, queue, start)))
        for start in starts
        for queue in range(len(ends))
    ]


def long_poll_frames(topic: str, ends: Sequence[int]) -> Iterator[bytes]:
    """PULL_MESSAGE at the end of each queue."""
    for queue, end in enumerate(ends):
        command = java_command(RequestCode.PULL_MESSAGE, _pull_fields(topic, queue, end))
        yield encode_command(command)


def pull(topic: str, queue: int, offset: int) -> Command:
    """PULL_MESSAGE of 32 messages from an offset on."""
    return java_command(RequestCode.PULL_MESSAGE, _pull_fields(topic, queue, offset))


def heartbeat(topics: Sequence[str]) -> Command:
    """A push consumer says that it lives and what it wants; without it, its pulls are refused."""
    subscriptions = [
        SubscriptionData(topic=topic, sub_string="*", sub_version=_SUBSCRIBED_MS)
        for topic in topics
    ]
    consumer = ConsumerData(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        group_name=GROUP,
        message_model=MessageModel.CLUSTERING,
        subscription_data_set=subscriptions,
    )
    body = encode_body(HeartbeatData(client_id="127.0.0.1@bench", consumer_data_set=[consumer]))
    return java_command(RequestCode.HEART_BEAT, {}, body)


def create_topic(topic: str, queues: int, attributes: str | None = None) -> Command:
    """A topic with so many queues and these attributes, as mqadmin makes it."""
    header = CreateTopicRequest(
        topic=topic,
        default_topic=_TEMPLATE_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        attributes=attributes,
    )
    return java_command(RequestCode.UPDATE_AND_CREATE_TOPIC, encode_header(header))


def max_offset(topic: str, queue: int) -> Command:
    header = GetMaxOffsetRequest(topic=topic, queue_id=queue)
    return java_command(RequestCode.GET_MAX_OFFSET, encode_header(header))


def _properties() -> str:
    return f"UNIQ_KEY\x01{unique_key(time.time_ns())}\x02WAIT\x01true\x02"


def _send_fields(topic: str, queue: int, *, batch: bool = False) -> dict[str, str]:
    return {
        "a": _PRODUCER,
        "b": topic,
        "c": _TEMPLATE_TOPIC,
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": _properties(),
        "j": "0",
        "k": "false",
        "m": "true" if batch else "false",
        "n": BROKER_NAME,
    }


def _pull_fields(topic: str, queue: int, offset: int) -> dict[str, str]:
    return {
        "queueId": str(queue),
        "maxMsgBytes": "262144",
        "maxMsgNums": str(PULL),
        "sysFlag": "2",
        "suspendTimeoutMillis": "15000",
        "commitOffset": "0",
        "bname": BROKER_NAME,
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": "TAG",
        "subVersion": str(_SUBSCRIBED_MS),
        "consumerGroup": GROUP,
    }
