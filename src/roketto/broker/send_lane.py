"""The quick lane: a plain send, from the bytes of its frame to the bytes of its answer.

A send that only waits, for a time of its own or for the end of its transaction, takes it, too. It
reads and writes what ``handlers.send.send_v2`` does, without a command in between. Whatever is not
as plain as that it leaves to the ordinary way, untouched: other requests, headers that are not JSON
as FastJSON writes it, and the first header of each kind.
"""

from typing import Final

from mypy_extensions import i64

from roketto.broker.aside_send import find_wait, store_aside
from roketto.broker.context import Context
from roketto.broker.plain_send import NOT_PLAIN, store_plain, unique_key
from roketto.broker.send_answers import SendAnswers
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.send_frame import SEND_V2_CODE, SEND_V2_START
from roketto.protocol.headers.send_kinds import SendKinds
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError

_MARK_BYTES: Final = 4
_START_BYTES: Final = len(SEND_V2_START)
_WAITS: Final = b"WAIT\x01true"
_BODY_COPIED_MAX: Final = 16_384
"""Up to this size a copy of a body is cheaper than a view of it."""


class SendLane:
    """What a server asks about frames that may be sends of one message."""

    def __init__(self, context: Context, answers: SendAnswers) -> None:
        self._context: Context = context
        self._answers: SendAnswers = answers
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"
        self._kinds: SendKinds = SendKinds(SEND_V2_CODE)
        self._start: bytes = SEND_V2_START

    def answer(self, connection: Connection, data: bytes, at: i64, end: i64) -> bool:
        """Store and answer a plain send; False, and nothing done, if the frame is not one."""
        header_at = at + _MARK_BYTES
        if data[at] or data[header_at : header_at + _START_BYTES] != self._start:
            return False
        body_at = header_at + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])
        if body_at >= end:
            return False
        send = self._kinds.read(data, header_at, body_at)
        if send is None:
            return False
        body: bytes | memoryview
        if end - body_at <= _BODY_COPIED_MAX:
            body = data[body_at:end]
        else:
            body = memoryview(data)[body_at:end]
        properties = send.properties
        if self._is_sync and _WAITS not in properties:
            return False
        key = unique_key(properties)
        context = self._context
        place = NOT_PLAIN
        handle = ""
        try:
            if key:
                place = store_plain(
                    context, connection, send.topic, send.queue_id, send.sys_flag,
                    send.born_time_ms, send.flag, properties, body, key,
                )  # fmt: skip
            else:
                wait = find_wait(properties)
                if wait is not None:
                    place, handle = store_aside(
                        context, connection, send.topic, send.queue_id, send.sys_flag,
                        send.born_time_ms, send.flag, properties, body, wait,
                    )  # fmt: skip
                    key = wait.key.encode()
        except (RequestError, PutRefusedError):
            return False  # nothing was stored: the ordinary way will be refused, too, and say why
        if place[0] < 0:
            return False
        context.stats.plain_sends += 1
        if send.is_one_way:
            return True
        answer = self._answers.encode_one(
            place[1], send.queue_id, place[0], key, handle, send.opaque
        )
        if self._is_sync:
            context.durability.write_when_safe(connection, answer, place[1] + place[2])
        else:
            connection.put(answer)
        return True
