"""Taking back a timer message before its time: the handle that its producer gets, and its rules.

A handle is URL-safe base64 of ``v1 <topic> <broker> <time> <unique key>``, as Java makes it. To
recall the message is to let another one wait for the same slot that names it.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

from librt.base64 import urlsafe_b64encode

from roketto.broker.timer_rules import out_ms
from roketto.protocol import property_names as names
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

__all__ = ["Handle", "make_handle", "make_recall", "parse_handle", "write_handle"]

RECALL_TAG: Final = "_RECALL_TAG_"
HANDLE_CHARS_MAX: Final = 4_096
"""A topic, a broker's name and a key, as base64; more is no handle."""

_VERSION: Final = "v1"
_TIME: Final = re.compile(r"\d{1,18}")
_PLAIN: Final = re.compile(r"[^\x00-\x1f]{1,255}")
"""What may be the value of a property; with other characters it would be several."""


class Handle(NamedTuple):
    """What a handle says."""

    topic: str
    broker_name: str
    deliver_ms: int
    unique_key: str


def make_handle(broker_name: str, record: Record) -> str | None:
    """The handle of a message that waits; None if nobody could name it."""
    topic = record.get_property(names.REAL_TOPIC)
    unique_key = record.get_property(names.UNIQ_KEY)
    slot_ms = out_ms(record)
    if topic is None or unique_key is None or slot_ms is None:
        return None
    return write_handle(topic, broker_name, slot_ms, unique_key)


def write_handle(topic: str, broker_name: str, slot_ms: int, unique_key: str) -> str:
    """The handle of a message that waits for a slot."""
    # The next millisecond belongs to the same slot, whatever the precision.
    text = f"{_VERSION} {topic} {broker_name} {slot_ms + 1} {unique_key}"
    return urlsafe_b64encode(text.encode()).decode()


def parse_handle(text: str) -> Handle:
    """What a handle says; RequestError if it is none."""
    try:
        if len(text) > HANDLE_CHARS_MAX:
            raise Base64Error(f"{len(text)} characters")
        padded = text + "=" * (-len(text) % 4)
        items = b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
    except ValueError:  # of base64, of UTF-8
        items = []
    fields = len(Handle._fields) + 1
    if len(items) < fields or items[0] != _VERSION or not _PLAIN.fullmatch(items[fields - 1]):
        raise RequestError(
            ResponseCode.ILLEGAL_OPERATION,
            f"recall handle is invalid: {text[:64]!a}; use the recallHandle of the send result",
        )
    _, topic, broker_name, deliver, unique_key = items[:fields]
    deliver_ms = int(deliver) if _TIME.fullmatch(deliver) else -1
    return Handle(topic, broker_name, deliver_ms, unique_key)


def make_recall(
    handle: Handle, group: str | None, now_ms: int, born_host: bytes, store_host: bytes
) -> Record:
    """The message that recalls the one of a handle."""
    properties = {
        names.TAGS: RECALL_TAG,
        names.TIMER_DEL_UNIQKEY: handle.unique_key,
        names.UNIQ_KEY: handle.unique_key,
        names.TIMER_DELIVER_MS: str(handle.deliver_ms),
        names.BORN_TIMESTAMP: str(now_ms),
        names.PRODUCER_GROUP: group if group and _PLAIN.fullmatch(group) else None,
    }
    return Record(
        handle.topic,
        b"0",
        encode_properties(properties),
        born_time_ms=now_ms,
        born_host=born_host,
        store_host=store_host,
    )
