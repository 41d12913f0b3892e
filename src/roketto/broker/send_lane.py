"""The quick lane: a plain send, from the bytes of its frame to the bytes of its answer.

It reads and writes what ``handlers.send.send_v2`` does, without a command in between. Whatever is
not plain it leaves to the ordinary way, untouched: other requests, headers that are not JSON as
FastJSON writes it, and everything under SYNC_FLUSH, where answers have to wait.
"""

import struct
from typing import Final

from roketto.broker.context import Context
from roketto.broker.plain_send import store_plain
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import ONE_WAY_FLAG
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.send_frame import SEND_V2_START, decode_send_v2
from roketto.protocol.json_header import encode_json_text
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.errors import StoreError

_MARK: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">II")
_HEADER_AT: Final = 4
_START_END: Final = _HEADER_AT + len(SEND_V2_START)
_SEND_V2: Final = int(RequestCode.SEND_MESSAGE_V2)

_ANSWER: Final = (
    '{"code":0,"extFields":{"msgId":"%s%016X","queueId":"%s","queueOffset":"%d",'
    '"transactionId":"%s","MSG_REGION":"%s","TRACE_ON":"%s"},"flag":1,"language":"PYTHON",'
    '"opaque":%d,"serializeTypeCurrentRPC":"JSON","version":' + str(CURRENT_VERSION) + "}"
)


class SendLane:
    """What a server asks about each frame before it decodes it."""

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._is_open: bool = context.config.flush_disk_type != "SYNC_FLUSH"
        self._region: str = _escaped(context.config.region_id)

    def answer(self, connection: Connection, frame: memoryview) -> bool:
        """Store and answer a plain send; False, and nothing done, if the frame is not one."""
        if not self._is_open or frame[_HEADER_AT:_START_END] != SEND_V2_START:
            return False
        body_at: int = _HEADER_AT + _MARK.unpack_from(frame)[0]
        if body_at > len(frame):  # also where the header is not JSON: that is the top byte
            return False
        header = decode_send_v2(frame[_HEADER_AT:body_at])
        if header is None or header.code != _SEND_V2 or header.flag & ~ONE_WAY_FLAG:
            return False
        fields = header.extFields
        queue: str = fields.e
        if fields.j != "0" or fields.m != "false" or fields.l is not None:
            return False
        context = self._context
        try:
            where, unique_key = store_plain(
                context, connection, fields.b, fields.d, queue, fields.f, fields.g, fields.h,
                fields.i, frame[body_at:],
            )  # fmt: skip
        except (RequestError, StoreError):
            return False  # nothing was stored: the ordinary way will be refused, too, and say why
        if where is None:
            return False
        context.stats.note_request(_SEND_V2)
        if header.flag:
            return True
        sending = context.sending
        text = _ANSWER % (
            sending.id_prefix, where.log_offset, queue, where.queue_offset,
            unique_key if unique_key.isalnum() and unique_key.isascii() else _escaped(unique_key),
            self._region, sending.trace, header.opaque,
        )  # fmt: skip
        data = text.encode()
        connection.put(_PREFIX.pack(len(data) + _HEADER_AT, len(data)) + data)
        return True


def _escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return encode_json_text(text)[1:-1].decode()
