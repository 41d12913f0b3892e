"""The quick lane: a plain send, from the bytes of its frame to the bytes of its answer.

A send that only waits, for a time of its own or for the end of its transaction, takes it, too. It
reads and writes what ``handlers.send.send_v2`` does, without a command in between. Whatever is not
as plain as that it leaves to the ordinary way, untouched: other requests, headers that are not JSON
as FastJSON writes it, and the first header of each kind.
"""

import struct
from typing import Final

from roketto.broker.aside_send import aside_key, store_aside
from roketto.broker.context import Context
from roketto.broker.plain_send import NOT_PLAIN, store_plain, unique_key
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.send_frame import SEND_V2_START
from roketto.protocol.headers.send_kinds import Send, SendKinds
from roketto.protocol.json_header import encode_json_text
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError

_MARK_BYTES: Final = 4
_PREFIX: Final = struct.Struct(">II")
_ANSWER_END: Final = f'"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
_WAITS: Final = "WAIT\x01true"
_BODY_COPIED_MAX: Final = 16_384
"""Up to this size a copy of a body is cheaper than a view of it."""
_NUMBERS: Final = {str(number): number for number in range(1_024)}
"""Queue ids and flags are mostly among these."""
_PREFIXES: Final = [_PREFIX.pack(_MARK_BYTES + size, size) for size in range(1_024)]
"""The lengths before a header of so many bytes."""
_LAST_BITS: Final = 12
_LAST_DIGITS: Final = [f"{number:03X}" for number in range(1 << _LAST_BITS)]
"""How log offsets end, which differ in not much more from one message to the next."""


class SendLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"
        self._kinds: SendKinds = SendKinds()
        self._born: str = "0"
        self._born_ms: int = 0
        self._high: int = -1
        self._first_digits: str = ""
        self._region: str = ""
        self._region_text: str = ""

    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        """Store and answer a plain send; False, and nothing done, if the frame is not one."""
        header_at = at + _MARK_BYTES
        if data[at] or not data.startswith(SEND_V2_START, header_at):
            return False
        body_at = header_at + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])
        if body_at >= end:
            return False
        send = self._kinds.read(data[header_at:body_at])
        if send is None:
            return False
        properties = send.properties
        key = unique_key(properties)
        is_plain = bool(key)
        if not is_plain:
            key = aside_key(properties)
        if not key or (self._is_sync and _WAITS not in properties):
            return False
        body: bytes | memoryview
        if end - body_at <= _BODY_COPIED_MAX:
            body = data[body_at:end]
        else:
            body = memoryview(data)[body_at:end]
        context = self._context
        place = NOT_PLAIN
        handle = ""
        try:
            if is_plain:
                place = store_plain(
                    context, connection, send.topic, _number(send.queue), _number(send.bits),
                    self._number_of(send.born), _number(send.flag), properties, body, key,
                )  # fmt: skip
            else:
                place, handle = store_aside(
                    context, connection, send.topic, _number(send.queue), _number(send.bits),
                    self._number_of(send.born), _number(send.flag), properties, body, key,
                )  # fmt: skip
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
        self, send: Send, key: str, queue_offset: int, log_offset: int, handle: str
    ) -> bytes:
        """The frame that says where a message is, and how it can be recalled."""
        sending = self._context.sending
        if sending.region is not self._region:
            self._region = sending.region
            self._region_text = _escaped(sending.region)
        more = f'"recallHandle":"{handle}",' if handle else ""
        header = (
            f'{{"code":0,"extFields":{{"msgId":"{sending.id_prefix}{self._digits(log_offset)}",'
            f'"queueId":"{send.queue}","queueOffset":"{queue_offset}","transactionId":"'
            f'{key if key.isalnum() and key.isascii() else _escaped(key)}",{more}'
            f'"MSG_REGION":"{self._region_text}","TRACE_ON":"{sending.trace}"}},"flag":1,'
            f'"language":"PYTHON","opaque":{send.opaque},{_ANSWER_END}'
        ).encode()
        header_bytes = len(header)
        if header_bytes < len(_PREFIXES):
            return _PREFIXES[header_bytes] + header
        return _PREFIX.pack(_MARK_BYTES + header_bytes, header_bytes) + header

    def _digits(self, log_offset: int) -> str:
        """The 16 digits of a log offset."""
        high = log_offset >> _LAST_BITS
        if high != self._high:
            self._high = high
            self._first_digits = f"{high:013X}"
        return self._first_digits + _LAST_DIGITS[log_offset & (1 << _LAST_BITS) - 1]

    def _number_of(self, born: str) -> int:
        """The time in a header; mostly that of the one before, for it counts milliseconds."""
        if born != self._born:
            self._born_ms = int(born)
            self._born = born
        return self._born_ms


def _number(digits: str) -> int:
    number = _NUMBERS.get(digits)
    return int(digits) if number is None else number


def _escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return encode_json_text(text)[1:-1].decode()
