"""Answers to sends, from where messages are to the bytes of a frame."""

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from roketto.broker.sending import Sending
from roketto.protocol.json_header import encode_json_text
from roketto.protocol.versions import CURRENT_VERSION

__all__ = ["SendAnswers"]

_MARK_BYTES: Final = 4
_NUMBERS_MAX: Final = 1_024
"""Queue ids are mostly less."""
_LAST_BITS: Final = 16
"""Of log offsets, which differ in not much more from one message to the next."""
_COMMA: Final = 0x2C
_BEGIN: Final = b'{"code":0,"extFields":{"msgId":"'
_QUEUE: Final = b'","queueId":"'
_OFFSET: Final = b'","queueOffset":"'
_KEY: Final = b'","transactionId":"'
_HANDLE: Final = b'","recallHandle":"'


class SendAnswers:
    """Writes what a JSON header says of a send that was stored.

    answers = SendAnswers(sending)
    answers.encode(answers.message_id(log_offset), b"0", queue_offset, key, opaque)
    """

    def __init__(self, sending: Sending) -> None:
        self._sending: Sending = sending
        self._numbers: list[bytes] = [b"%d" % number for number in range(_NUMBERS_MAX)]
        # The id of a message: how that of the last one began, and how they may end.
        self._high: i64 = -1
        self._id_begin: bytes = b""
        # Two digits of it; a table of all four would not stay in the processor's cache.
        self._digits: list[bytes] = [b"%02X" % number for number in range(256)]
        # What answers have in common, and what it was made from.
        self._region: str | None = None
        self._trace: str = ""
        self._middle: bytes = b""
        self._end: bytes = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % CURRENT_VERSION

    def encode_one(
        self, log_offset: i64, queue_id: i64, queue_offset: int, key: bytes, handle: str,
        opaque: bytes,
    ) -> bytes:  # fmt: skip
        """The frame for one message; ``key`` is the producer's id, ``handle`` for its recall."""
        more = _HANDLE + handle.encode() if handle else b""
        self._begin_id(log_offset)
        digits = self._digits
        return self._encode(
            self._id_begin, digits[log_offset >> 8 & 0xFF], digits[log_offset & 0xFF], queue_id,
            queue_offset, key, more, opaque,
        )  # fmt: skip

    def encode_batch(
        self, log_offset: i64, sizes: list[int], queue_id: i64, queue_offset: int, key: bytes,
        opaque: bytes,
    ) -> bytes:  # fmt: skip
        """The frame for messages that lie one behind the other, and have these sizes."""
        ids = BytesWriter()
        digits = self._digits
        for size in sizes:
            if len(ids):
                ids.append(_COMMA)
            self._begin_id(log_offset)
            ids.write(self._id_begin)
            ids.write(digits[log_offset >> 8 & 0xFF])
            ids.write(digits[log_offset & 0xFF])
            log_offset += size
        return self._encode(ids.getvalue(), b"", b"", queue_id, queue_offset, key, b"", opaque)

    def _begin_id(self, log_offset: i64) -> None:
        """Let ``_id_begin`` be how the id of a message begins, up to its last four digits."""
        high = log_offset >> _LAST_BITS
        if high != self._high:
            self._high = high
            self._id_begin = b"%b%012X" % (self._sending.id_prefix.encode(), high)

    def _encode(
        self,
        id_begin: bytes,
        id_middle: bytes,
        id_end: bytes,
        queue_id: i64,
        queue_offset: int,
        key: bytes,
        more: bytes,
        opaque: bytes,
    ) -> bytes:
        sending = self._sending
        if sending.region is not self._region or sending.trace is not self._trace:
            self._prepare()
        queue = self._numbers[queue_id] if queue_id < _NUMBERS_MAX else str(queue_id).encode()
        place = str(queue_offset).encode()
        if key:
            key = _KEY + (key if key.isalnum() else _escaped(key.decode()))
        middle = self._middle
        end = self._end
        header_bytes: i64 = (
            len(_BEGIN) + len(id_begin) + len(id_middle) + len(id_end) + len(_QUEUE) + len(queue)
            + len(_OFFSET) + len(place) + len(key) + len(more) + len(middle) + len(opaque)
            + len(end)
        )  # fmt: skip
        frame = BytesWriter()
        write_i32_be(frame, i32(_MARK_BYTES + header_bytes))
        write_i32_be(frame, i32(header_bytes))
        frame.write(_BEGIN)
        frame.write(id_begin)
        frame.write(id_middle)
        frame.write(id_end)
        frame.write(_QUEUE)
        frame.write(queue)
        frame.write(_OFFSET)
        frame.write(place)
        frame.write(key)
        frame.write(more)
        frame.write(middle)
        frame.write(opaque)
        frame.write(end)
        return frame.getvalue()

    def _prepare(self) -> None:
        """Write down what answers have in common."""
        region, trace = self._sending.region, self._sending.trace
        self._region = region
        self._trace = trace
        self._middle = (
            b'","MSG_REGION":"%b","TRACE_ON":"%b"},"flag":1,"language":"PYTHON","opaque":'
            % (_escaped(region), trace.encode())
        )


def _escaped(text: str) -> bytes:
    """A text as it stands between the quotes of a JSON string."""
    return encode_json_text(text)[1:-1]
