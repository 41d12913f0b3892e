"""Read the sound records of a log one behind the other, fast: recovery has some millions to pass.

check_record says what is sound, decode_record what a record says. Here the usual record, V1 with
IPv4 hosts, is looked at once for both: many are copied out of the map together, and numbers are
read from these bytes, which compiled code does without a call. Whatever is unusual or wrong goes
to the other two, so that there is one opinion only.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from roketto.protocol.crc import CRC_PROPERTY_BYTES, encode_crc_property, masked_crc32
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.record_layout import HEADS, MAGIC_V1
from roketto.protocol.sysflags import HOST_BITS
from roketto.protocol.utf8 import decode_utf8
from roketto.store.dispatch import Stored, read_stored
from roketto.store.record_check import BLANK_BYTES, RECORD_BYTES_MIN, check_record

_BODY_CRC_AT: Final = 8
_QUEUE_ID_AT: Final = 12
_QUEUE_OFFSET_AT: Final = 20
_LOG_OFFSET_AT: Final = 28
_SYS_FLAG_AT: Final = 36
_STORE_TIME_AT: Final = 56
_BODY_BYTES_AT: Final = 84
_HEAD_BYTES: Final = 88
"""Where some fields of a record with IPv4 hosts are, as record_layout draws it, and its body."""
_MAGIC_V1: Final = -626843481
"""MAGIC_V1 as a signed number, which is how it is read here."""
assert HEADS[0].size == _HEAD_BYTES
assert MAGIC_V1 == _MAGIC_V1 & 0xFFFF_FFFF

_CHUNK_BYTES: Final = 262_144
"""What is taken out of a segment at once: a copy of many records costs hardly more than one of a
single record, and bytes are read faster than a view of them."""
_TOPICS_KEPT_MAX: Final = 65_536
"""Names of topics that are remembered; forgotten together when there are more."""


_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its class takes."""


class LogScan:
    """Reads records at places that the caller knows, one behind the other.

    scan = LogScan()
    stored = scan.read(view, at, log_offset, has_crc=True)      # None: the segment ends here

    It reads ahead, and what has been read counts as long as it is given the same view: whoever
    changes the segment comes with a new one.
    """

    __slots__ = ("_chunk", "_chunk_at", "_segment", "_topics")

    def __init__(self) -> None:
        self._topics: dict[bytes, str] = {}
        self._segment: memoryview = memoryview(b"")
        self._chunk: bytes = b""
        self._chunk_at: i64 = 0

    def read(self, segment: memoryview, at: int, log_offset: int, has_crc: bool) -> Stored | None:
        """What the record at ``at`` of a whole segment says, None if a blank is there.

        RecordError if neither is, with the reason. ``has_crc`` asks for the CRC property, which
        covers all of the record, and else the checksum of the body is looked at.
        """
        stored = self._read_usual(segment, at, log_offset, has_crc)
        if stored is not None:
            return stored
        if not check_record(segment, at, log_offset, check_crc_property=has_crc):
            return None
        return read_stored(segment, at)

    def _read_usual(
        self, segment: memoryview, at: i64, log_offset: i64, has_crc: bool
    ) -> Stored | None:
        """The same for a sound V1 record with IPv4 hosts, None for all else."""
        bound: i64 = len(segment) - BLANK_BYTES - at
        if bound < RECORD_BYTES_MIN:
            return None
        begin: i64 = at - self._chunk_at
        if segment is not self._segment or not 0 <= begin <= len(self._chunk) - RECORD_BYTES_MIN:
            self._take(segment, at, _CHUNK_BYTES)
            begin = 0
        size = i64(read_i32_be(self._chunk, begin))
        if (
            read_i32_be(self._chunk, begin + 4) != _MAGIC_V1
            or not RECORD_BYTES_MIN <= size <= bound
        ):
            return None
        if begin + size > len(self._chunk):
            self._take(segment, at, max(size, _CHUNK_BYTES))
            begin = 0
        chunk = self._chunk
        end = begin + size
        sys_flag = i64(read_i32_be(chunk, begin + _SYS_FLAG_AT))
        body_bytes = i64(read_i32_be(chunk, begin + _BODY_BYTES_AT))
        if (
            sys_flag & HOST_BITS
            or read_i64_be(chunk, begin + _LOG_OFFSET_AT) != log_offset
            or not 0 <= body_bytes <= size - RECORD_BYTES_MIN
        ):
            return None
        topic_at = begin + _HEAD_BYTES + body_bytes + 1
        topic_bytes: i64 = chunk[topic_at - 1]
        topic_end = topic_at + topic_bytes
        if (
            topic_bytes > TOPIC_BYTES_MAX
            or topic_end + 2 > end
            or read_i16_be(chunk, topic_end) != end - topic_end - 2
            or not _is_whole(chunk, begin, end, has_crc)
        ):
            return None
        raw_topic = chunk[topic_at:topic_end]
        topic = self._topics.get(raw_topic)
        if topic is None:
            topic = self._topic(raw_topic)
        queue_id = read_i32_be(chunk, begin + _QUEUE_ID_AT)
        queue_offset = read_i64_be(chunk, begin + _QUEUE_OFFSET_AT)
        store_time_ms = read_i64_be(chunk, begin + _STORE_TIME_AT)
        return _new(
            Stored,
            (topic, queue_id, queue_offset, log_offset, size, sys_flag, store_time_ms,
             chunk[topic_end + 2 : end]),
        )  # fmt: skip

    def _take(self, segment: memoryview, at: i64, size: i64) -> None:
        self._segment = segment
        self._chunk = segment[at : at + size].tobytes()
        self._chunk_at = at

    def _topic(self, raw: bytes) -> str:
        if len(self._topics) >= _TOPICS_KEPT_MAX:
            self._topics.clear()
        topic = self._topics[raw] = decode_utf8(raw)
        return topic


def _is_whole(chunk: bytes, begin: i64, end: i64, has_crc: bool) -> bool:
    """Whether the checksum of a record agrees with it: that of all of it, or that of its body."""
    if has_crc:
        crc_at = end - CRC_PROPERTY_BYTES
        return chunk[crc_at:end] == encode_crc_property(masked_crc32(chunk[begin:crc_at]))
    body_bytes = i64(read_i32_be(chunk, begin + _BODY_BYTES_AT))
    body_at = begin + _HEAD_BYTES
    body_crc = i64(read_i32_be(chunk, begin + _BODY_CRC_AT))
    return not body_bytes or masked_crc32(chunk[body_at : body_at + body_bytes]) == body_crc
