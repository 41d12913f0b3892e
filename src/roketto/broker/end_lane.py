"""The quick lane of commits: from the bytes of an END_TRANSACTION to those of its answer.

It does what ``handlers.transactions.end_transaction`` does for plain half messages, without a
command in between, and leaves everything else to it.
"""

import struct
from typing import Final

from roketto.broker.context import Context
from roketto.broker.plain_commit import commit_plain
from roketto.protocol.command import ONE_WAY_FLAG
from roketto.protocol.errors import RecordError
from roketto.protocol.headers.end_frame import END_CODE, END_START, decode_end
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError
from roketto.store.segments import OutsideLogError

_MARK_BYTES: Final = 4
_DIGITS_MAX: Final = 18
_COMMIT: Final = str(TRANSACTION_COMMIT)
_PREFIX: Final = struct.Struct(">II")
_ANSWER_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'


class EndLane:
    """What a server asks about frames that may be commits."""

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"

    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        """Commit and answer; False, and nothing done, if the frame is no plain commit."""
        header_at = at + _MARK_BYTES
        if data[at] or not data.startswith(END_START, header_at):
            return False
        header_bytes = data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
        if header_at + header_bytes != end:
            return False
        frame = decode_end(memoryview(data)[header_at:end])
        if frame is None or frame.code != END_CODE or frame.flag & ~ONE_WAY_FLAG:
            return False
        fields = frame.extFields
        offset: str = fields.tranStateTableOffset
        log_offset: str = fields.commitLogOffset
        context = self._context
        if (
            fields.commitOrRollback != _COMMIT
            or not _is_number(offset)
            or not _is_number(log_offset)
            or context.durability.is_busy
        ):
            return False
        try:
            stored_end = commit_plain(context, int(offset), int(log_offset), fields.producerGroup)
        except (PutRefusedError, OutsideLogError, RecordError):
            return False  # nothing was stored: the ordinary way will fail, too, and say why
        if stored_end < 0:
            return False
        context.stats.note_request(END_CODE)
        if frame.flag & ONE_WAY_FLAG:
            return True
        header = f'{{"code":0,"flag":1,"language":"PYTHON","opaque":{frame.opaque}{_ANSWER_END}'
        told = header.encode()
        answer = _PREFIX.pack(_MARK_BYTES + len(told), len(told)) + told
        if self._is_sync:
            context.durability.write_when_safe(connection, answer, stored_end)
        else:
            connection.put(answer)
        return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
