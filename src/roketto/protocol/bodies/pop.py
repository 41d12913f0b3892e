"""Acknowledging many popped messages at once."""

import base64
import binascii
from collections.abc import Iterable
from typing import ClassVar

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import excerpt
from roketto.protocol.limits import ACK_BITS_MAX

__all__ = ["BatchAck", "BatchAckMessageRequestBody", "pack_offsets", "unpack_offsets"]


class BatchAck(Body):
    """Messages of one queue that were popped together; ``bits`` says which (unpack_offsets)."""

    ALIASES: ClassVar[dict[str, str]] = {
        "bitSet": "b",
        "consumerGroup": "c",
        "invisibleTime": "it",
        "popTime": "pt",
        "queueId": "q",
        "retry": "r",
        "reviveQueueId": "rq",
        "startOffset": "so",
        "topic": "t",
    }

    bits: str = field(default="", name="b")
    consumer_group: str = field(default="", name="c")
    invisible_time_ms: Long = field(default=0, name="it")
    pop_time_ms: Long = field(default=0, name="pt")
    queue_id: Int = field(default=0, name="q")
    retry: str | None = field(default=None, name="r")
    revive_queue_id: Int = field(default=0, name="rq")
    start_offset: Long = field(default=0, name="so")
    topic: str = field(default="", name="t")


class BatchAckMessageRequestBody(Body):
    """The body of BATCH_ACK_MESSAGE."""

    acks: list[BatchAck] = field(default_factory=list)
    broker_name: str | None = None


def pack_offsets(offsets: Iterable[int]) -> str:
    """Java's BitSet in Base64: bit n of byte n / 8 stands for offset n; trailing zeros are cut.

    Offsets 0, 3 and 9 are bytes 09 02, ``CQI=``.
    """
    bits = 0
    for offset in offsets:
        if not 0 <= offset < ACK_BITS_MAX:
            raise BodyError(f"ack offset {offset} is outside 0..{ACK_BITS_MAX - 1}; ack it alone")
        bits |= 1 << offset
    packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return base64.b64encode(packed).decode("ascii")


def unpack_offsets(text: str) -> list[int]:
    """The offsets, relative to ``start_offset``, that ``pack_offsets`` has packed."""
    if len(text) * 6 > ACK_BITS_MAX + 24:
        raise BodyError(f"bit set of {len(text)} characters holds more than {ACK_BITS_MAX} bits")
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BodyError(f"bit set {excerpt(text)} is no Base64") from None
    return [
        index * 8 + bit for index, byte in enumerate(packed) for bit in range(8) if byte >> bit & 1
    ]
