"""The quick lane of batches: from the bytes of a frame to those of its answer.

It does what ``handlers.send`` does for a batch of which nothing is special, without a command in
between, and leaves everything else to it.
"""

from typing import Final

from mypy_extensions import i64

from roketto.broker.context import Context
from roketto.broker.plain_send import has_plain_fields, look_through
from roketto.broker.send_answers import SendAnswers
from roketto.broker.topics import SendTarget
from roketto.protocol.headers.send_frame import SEND_BATCH_CODE, SEND_BATCH_START
from roketto.protocol.headers.send_kinds import SendKinds
from roketto.protocol.record import Record
from roketto.protocol.sysflags import HOST_BITS
from roketto.remoting.connection import Connection
from roketto.store.put_status import PutRefusedError

_MARK_BYTES: Final = 4
_START_BYTES: Final = len(SEND_BATCH_START)
_WAITS: Final = b"WAIT\x01true"
_UNIQUE_KEY: Final = b"UNIQ_KEY"


class BatchLane:
    """What a server asks about frames that may be batches."""

    def __init__(self, context: Context, answers: SendAnswers) -> None:
        self._context: Context = context
        self._answers: SendAnswers = answers
        self._is_sync: bool = context.config.flush_disk_type == "SYNC_FLUSH"
        self._kinds: SendKinds = SendKinds(SEND_BATCH_CODE)
        self._start: bytes = SEND_BATCH_START

    def answer(self, connection: Connection, data: bytes, at: i64, end: i64) -> bool:
        """Store and answer a plain batch; False, and nothing done, if the frame is not one."""
        header_at = at + _MARK_BYTES
        if data[at] or data[header_at : header_at + _START_BYTES] != self._start:
            return False
        body_at = header_at + (data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])
        if body_at >= end:
            return False
        send = self._kinds.read(data, header_at, body_at)
        if send is None or send.sys_flag & ~HOST_BITS:
            return False
        context = self._context
        properties = send.properties
        is_plain, key = look_through(properties)
        target: SendTarget | None = context.topics.targets.get(send.topic)
        body = data[body_at:end]
        if (
            not is_plain
            or (not key and _UNIQUE_KEY in properties)  # it has one, but not as usual
            or (self._is_sync and _WAITS not in properties)
            or target is None
            or not target.is_plain
            or not has_plain_fields(context, target, send.queue_id, 0, send.flag, body)
        ):
            return False
        queue_id: int = send.queue_id
        batch = Record(
            target.name, body, properties, queue_id, send.flag, sys_flag=send.sys_flag,
            born_time_ms=send.born_time_ms, born_host=connection.peer_host,
            store_host=context.store_host,
        )  # fmt: skip
        try:
            where = context.store.append_batch(batch)
        except PutRefusedError:
            return False  # nothing was stored: the ordinary way will be refused, too, and say why
        sizes: list[int] = where.sizes
        size = sum(sizes)
        stats = context.stats
        stats.note_put(target.name, queue_id, len(sizes), size, where.store_time_ms)
        stats.note_request(SEND_BATCH_CODE)
        if send.is_one_way:
            return True
        log_offset: int = where.log_offset
        answer = self._answers.encode_batch(
            log_offset, sizes, queue_id, where.queue_offset, key, send.opaque
        )
        if self._is_sync:
            context.durability.write_when_safe(connection, answer, log_offset + size)
        else:
            connection.put(answer)
        return True
