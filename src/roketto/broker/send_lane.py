"""The quick lane: a plain send, from the bytes of its frame to the bytes of its answer.

A send that only waits, for a time of its own or for the end of its transaction, takes it, too. It
reads and writes what ``handlers.send.send_v2`` does, without a command in between. Whatever is not
as plain as that it leaves to the ordinary way, untouched: other requests, headers that are not JSON
as FastJSON writes it, and the first header of each kind.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from roketto.broker.aside_send import aside_key, store_aside
from roketto.broker.context import Context
from roketto.broker.plain_send import NOT_PLAIN, store_plain, unique_key
from roketto.broker.sending import Sending
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.send_frame import SEND_V2_START
from roketto.protocol.headers.send_kinds import Send, SendKinds
from roketto.protocol.json_header import encode_json_text
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError

_MARK_BYTES: Final = 4
_START_BYTES: Final = len(SEND_V2_START)
_WAITS: Final = b"WAIT\x01true"
_BODY_COPIED_MAX: Final = 16_384
"""Up to this size a copy of a body is cheaper than a view of it."""
_NUMBERS_MAX: Final = 1_024
"""Queue ids are mostly less."""
_LAST_BITS: Final = 12
"""Of log offsets, which differ in not much more from one message to the next."""
_OFFSET_DIGITS: Final = 16
_QUEUE: Final = b'","queueId":"'
_OFFSET: Final = b'","queueOffset":"'
_KEY: Final = b'","transactionId":"'


class SendLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"
        self._kinds: SendKinds = SendKinds()
        self._start: bytes = SEND_V2_START
        self._numbers: list[bytes] = [b"%d" % number for number in range(_NUMBERS_MAX)]
        # The digits of log offsets: how those of the last one began, and how they may end.
        self._high: i64 = -1
        self._first_digits: bytes = b""
        self._last_digits: list[bytes] = [b"%03X" % number for number in range(1 << _LAST_BITS)]
        # The parts of an answer that do not change, and what they were made from.
        self._region: str | None = None
        self._trace: str = ""
        self._begin: bytes = b""
        self._middle: bytes = b""
        self._end: bytes = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % CURRENT_VERSION
        self._fixed_bytes: i64 = 0

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
                text = properties.decode()
                waiting_key = aside_key(text)
                if waiting_key:
                    place, handle = store_aside(
                        context, connection, send.topic, send.queue_id, send.sys_flag,
                        send.born_time_ms, send.flag, text, body, waiting_key,
                    )  # fmt: skip
                    key = waiting_key.encode()
        except (RequestError, PutRefusedError):
            return False  # nothing was stored: the ordinary way will be refused, too, and say why
        if place[0] < 0:
            return False
        context.stats.plain_sends += 1
        if send.is_one_way:
            return True
        answer = self._encode_answer(send, key, place[0], place[1], handle)
        if self._is_sync:
            context.durability.write_when_safe(connection, answer, place[1] + place[2])
        else:
            connection.put(answer)
        return True

    def _encode_answer(
        self, send: Send, key: bytes, queue_offset: int, log_offset: i64, handle: str
    ) -> bytes:
        """The frame that says where a message is, and how it can be recalled."""
        sending = self._context.sending
        if sending.region is not self._region or sending.trace is not self._trace:
            self._prepare(sending)
        high = log_offset >> _LAST_BITS
        if high != self._high:
            self._high = high
            self._first_digits = b"%013X" % high
        queue_id = send.queue_id
        queue = self._numbers[queue_id] if queue_id < _NUMBERS_MAX else str(queue_id).encode()
        place = str(queue_offset).encode()
        told_key = key if key.isalnum() else _escaped(key.decode())
        middle = self._middle if not handle else self._with_handle(handle)
        header_bytes: i64 = (
            self._fixed_bytes + len(middle) + len(queue) + len(place) + len(told_key)
            + len(send.opaque)
        )  # fmt: skip
        frame = BytesWriter()
        write_i32_be(frame, i32(_MARK_BYTES + header_bytes))
        write_i32_be(frame, i32(header_bytes))
        frame.write(self._begin)
        frame.write(self._first_digits)
        frame.write(self._last_digits[log_offset & (1 << _LAST_BITS) - 1])
        frame.write(_QUEUE)
        frame.write(queue)
        frame.write(_OFFSET)
        frame.write(place)
        frame.write(_KEY)
        frame.write(told_key)
        frame.write(middle)
        frame.write(send.opaque)
        frame.write(self._end)
        return frame.getvalue()

    def _prepare(self, sending: Sending) -> None:
        """Write down what answers have in common."""
        self._region = sending.region
        self._trace = sending.trace
        self._begin = b'{"code":0,"extFields":{"msgId":"' + sending.id_prefix.encode()
        self._middle = (
            b'","MSG_REGION":"' + _escaped(sending.region) + b'","TRACE_ON":"'
            + sending.trace.encode() + b'"},"flag":1,"language":"PYTHON","opaque":'
        )  # fmt: skip
        self._fixed_bytes = (
            len(self._begin) + _OFFSET_DIGITS + len(_QUEUE) + len(_OFFSET) + len(_KEY)
            + len(self._end)
        )  # fmt: skip

    def _with_handle(self, handle: str) -> bytes:
        return b'","recallHandle":"' + handle.encode() + self._middle


def _escaped(text: str) -> bytes:
    """A text as it stands between the quotes of a JSON string."""
    return encode_json_text(text)[1:-1]
