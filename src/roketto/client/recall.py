"""Taking back a delayed message before it is delivered, with the handle that its send gave."""

import binascii
from base64 import b64decode
from typing import Final, NamedTuple

from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import IllegalMessageError
from roketto.client.sendable import check_sendable
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.send import RecallMessageRequest, RecallMessageResponse
from roketto.protocol.names import DLQ_PREFIX, RETRY_PREFIX

__all__ = ["RecallHandle", "parse_handle", "recall"]

_VERSION: Final = "v1"
_FIELDS: Final = 5
_HANDLE_CHARS_MAX: Final = 4_096


class RecallHandle(NamedTuple):
    """What a handle says: URL-safe base64 of ``v1 topic broker time id``."""

    topic: str
    broker_name: str
    deliver_ms: str
    message_id: str


def parse_handle(text: str) -> RecallHandle:
    """What a handle says; IllegalMessageError if it is none."""
    try:
        if len(text) > _HANDLE_CHARS_MAX:
            raise ValueError(f"{len(text)} characters")
        padded = text + "=" * (-len(text) % 4)
        items = b64decode(padded, altchars=b"-_", validate=True).decode().split(" ")
    except (ValueError, binascii.Error):
        items = []
    if len(items) < _FIELDS or items[0] != _VERSION:
        raise IllegalMessageError(
            f"recall handle {text[:64]!r} is none; use the recall_handle of the SendResult"
        )
    return RecallHandle(*items[1:_FIELDS])


async def recall(client: Client, group: str, topic: str, handle: str, timeout_ms: int) -> str:
    """Let the broker that keeps a message forget it; its id.

    RefusedError if the broker will not: it has none of it any more, or no recall
    (recallMessageEnable).
    """
    check_sendable(topic)
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise IllegalMessageError(f"messages of {topic} cannot be recalled; they are the system's")
    name = client.wrap(topic)
    broker_name = parse_handle(handle).broker_name
    await client.routes.get(name)
    address = await client.routes.master_of(broker_name, name)
    request = RecallMessageRequest(
        producer_group=group, topic=name, recall_handle=handle, target_broker_name=broker_name
    )
    answer = await client.calls.ask(
        address, RequestCode.RECALL_MESSAGE, request, timeout_ms=timeout_ms
    )
    return decode_header(RecallMessageResponse, dict(expect_success(address, answer))).msg_id
