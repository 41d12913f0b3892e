"""The quick lane of commits: from the bytes of an END_TRANSACTION to those of its answer.

It does what ``handlers.transactions.end_transaction`` does for plain half messages, without a
command in between, and leaves everything else to it.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be

from roketto.broker.context import Context
from roketto.broker.plain_commit import commit_plain
from roketto.protocol.command import ONE_WAY_FLAG
from roketto.protocol.errors import RecordError
from roketto.protocol.headers.end_frame import END_START
from roketto.protocol.headers.end_scan import EndHeader
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from roketto.protocol.versions import CURRENT_VERSION
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError
from roketto.store.segments import OutsideLogError

_MARK_BYTES: Final = 4
_START_BYTES: Final = len(END_START)


class EndLane:
    """What a server asks about frames that may be commits."""

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"
        self._header: EndHeader = EndHeader()
        self._start: bytes = END_START
        self._answer_begin: bytes = b'{"code":0,"flag":1,"language":"PYTHON","opaque":'
        self._answer_end: bytes = (
            b',"serializeTypeCurrentRPC":"JSON","version":%d}' % CURRENT_VERSION
        )

    def answer(self, connection: Connection, data: bytes, at: int, end: int) -> bool:
        """Commit and answer; False, and nothing done, if the frame is no plain commit."""
        header_at = at + _MARK_BYTES
        if data[at] or data[header_at : header_at + _START_BYTES] != self._start:
            return False
        header_bytes = data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
        if header_at + header_bytes != end:
            return False
        header, context = self._header, self._context
        if (
            not header.read(data, header_at, end)
            or header.flag & ~ONE_WAY_FLAG
            or header.decision != TRANSACTION_COMMIT
            or context.durability.is_busy
        ):
            return False
        try:
            stored_end = commit_plain(context, header.offset, header.log_offset, header.group)
        except (PutRefusedError, OutsideLogError, RecordError):
            return False  # nothing was stored: the ordinary way will fail, too, and say why
        if stored_end < 0:
            return False
        context.stats.plain_ends += 1
        if header.flag & ONE_WAY_FLAG:
            return True
        answer = self._answer(header.opaque)
        if self._is_sync:
            context.durability.write_when_safe(connection, answer, stored_end)
        else:
            connection.put(answer)
        return True

    def _answer(self, opaque: int) -> bytes:
        opaque_text = str(opaque).encode()
        begin, end = self._answer_begin, self._answer_end
        header_bytes = len(begin) + len(opaque_text) + len(end)
        answer = BytesWriter()
        write_i32_be(answer, _MARK_BYTES + header_bytes)
        write_i32_be(answer, header_bytes)
        answer.write(begin)
        answer.write(opaque_text)
        answer.write(end)
        return answer.getvalue()
