"""Requests and replies: a message that asks, and the message that answers it.

The one who asks marks a message with an id and with its own client id. Whoever consumes it sends
``make_reply(received, body)`` with any producer, and the broker hands that to the client that has
asked, over the connection that this one's heartbeats came by.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final, Self

from roketto.client.client import Client
from roketto.client.errors import ClientError, IllegalMessageError, ReplyTimeoutError
from roketto.client.marked import REPLY, MarkedMessage
from roketto.client.received import ReceivedMessage
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.errors import ProtocolError
from roketto.protocol.headers.pushes import ReplyMessageRequest
from roketto.protocol.hosts import NO_HOST, encode_host
from roketto.protocol.names import REPLY_TOPIC_SUFFIX
from roketto.protocol.record import Record
from roketto.protocol.utf8 import encode_utf8

__all__ = ["Replies", "Waiting", "make_reply", "replies_of", "request_marks"]

log = logging.getLogger(__name__)

_WAITING_MAX: Final = 65_536
"""Requests without a reply, of one client."""


def make_reply(received: ReceivedMessage, body: bytes) -> MarkedMessage:
    """The reply to a message that was received; send it with any producer.

    IllegalMessageError if the message is no request.
    """
    properties = received.properties
    cluster = properties.get(names.CLUSTER)
    marks: dict[str, str] = {
        name: properties[name]
        for name in (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)
        if name in properties
    }
    if not cluster or names.REPLY_TO_CLIENT not in marks or names.CORRELATION_ID not in marks:
        raise IllegalMessageError(
            f"message {received.message_id} of {received.topic} asks for no reply: it lacks one of"
            f" {names.CLUSTER}, {names.CORRELATION_ID}, {names.REPLY_TO_CLIENT}; it was not sent"
            " with request()"
        )
    marks[names.MSG_TYPE] = REPLY
    # Its broker knows the client that asks; others may not, and refuse what it waits for.
    return MarkedMessage(
        cluster + REPLY_TOPIC_SUFFIX, body, marks=marks, broker_name=received.broker_name
    )


def request_marks(client_id: str, timeout_ms: int) -> dict[str, str]:
    """What makes a message a request."""
    return {
        names.CORRELATION_ID: str(uuid.uuid4()),
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(timeout_ms),
    }


def replies_of(client: Client) -> "Replies":
    """The replies of a client; its producers share them."""
    found = client.inbound.on_reply
    if isinstance(found, Replies):
        return found
    replies = Replies(client.unwrap)
    client.inbound.on_reply = replies
    return replies


class Waiting:
    """One request, from before it is sent until its reply, or the end of its time.

    with replies.expect(correlation_id) as waiting:
        ...     # send it
        reply = await waiting.reply(timeout_s)
    """

    __slots__ = ("_future", "_id", "_replies")

    def __init__(self, replies: "Replies", correlation_id: str) -> None:
        self._replies = replies
        self._id = correlation_id
        self._future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        self._replies.add(self._id, self)
        return self

    def __exit__(self, *error: object) -> None:
        self._replies.remove(self._id)
        self._future.cancel()

    def take(self, message: ReceivedMessage) -> None:
        if not self._future.done():
            self._future.set_result(message)

    async def reply(self, timeout_s: float) -> ReceivedMessage:
        """The reply; ReplyTimeoutError if none comes in time."""
        done, _ = await asyncio.wait((self._future,), timeout=max(0.0, timeout_s))
        if not done:
            raise ReplyTimeoutError(
                f"the request {self._id} was stored, and nobody has replied to it in time; is there"
                " a consumer that does?"
            )
        return self._future.result()


class Replies:
    """Finds who waits for a reply; a broker's push of one comes as a call.

    ``replies_of(client)`` makes it, once.
    """

    def __init__(self, unwrap: Callable[[str], str]) -> None:
        self._unwrap = unwrap
        self._waiting: dict[str, Waiting] = {}

    def expect(self, correlation_id: str) -> Waiting:
        """Wait for the reply to a request that is sent after this."""
        return Waiting(self, correlation_id)

    def add(self, correlation_id: str, waiting: Waiting) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            raise ClientError(
                f"{len(self._waiting)} requests wait for a reply, the bound; wait for some of them"
            )
        self._waiting[correlation_id] = waiting

    def remove(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def __call__(self, header: ReplyMessageRequest, body: bytes) -> bool:
        """A reply has come; whether somebody waits for it."""
        record = _record(header, body)
        waiting = self._waiting.get(record.get_property(names.CORRELATION_ID) or "")
        if waiting is None:
            return False
        try:
            record.decompress()
        except ProtocolError as error:
            log.warning("a reply for topic %s cannot be read: %s", record.topic, error)
            return False
        waiting.take(ReceivedMessage(record, "", self._unwrap(record.topic)))
        return True


def _record(header: ReplyMessageRequest, body: bytes) -> Record:
    """A reply as if it had been read from a log."""
    record = Record(
        header.topic,
        body,
        encode_utf8(header.properties or ""),
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_time_ms=header.born_timestamp,
        born_host=_host(header.born_host),
        store_time_ms=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )
    record.set_property(names.ARRIVE_TIME, str(wall_ms()))
    return record


def _host(text: str) -> bytes:
    """The bytes of ``ip:port``, before which Java may write a slash; of nobody if it is neither."""
    ip, _, port = text.rpartition("/")[2].rpartition(":")
    try:
        return encode_host(ip.strip("[]"), int(port))
    except (ValueError, ProtocolError):
        return NO_HOST
