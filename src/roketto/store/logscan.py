"""Read the sound records of a log one behind the other, as fast as plain Python does it.

check_record says what is sound, decode_record what a record says. Here the usual record, V1 with
IPv4 hosts, is looked at once for both: its head is unpacked in one go, and its bytes are copied
once. Whatever is unusual or wrong goes to the other two, so that there is one opinion only.
"""

import struct
import zlib
from typing import Final

from roketto.protocol.crc import CRC_PROPERTY_BYTES, encode_crc_property
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.record_layout import MAGIC_V1
from roketto.protocol.sysflags import HOST_BITS
from roketto.protocol.utf8 import decode_utf8
from roketto.store.dispatch import Stored, read_stored
from roketto.store.record_check import BLANK_BYTES, RECORD_BYTES_MIN, check_record

_HEAD: Final = struct.Struct(">iIii4xqqi16xq20xi")
"""Size, magic, body CRC, queue id, queue offset, log offset, system flag, store time, body length
of a record with IPv4 hosts."""
_HEAD_BYTES: Final = _HEAD.size
_CRC_MASK: Final = 0x7FFF_FFFF
_PROPERTIES_BYTES_MAX: Final = 0x7FFF
_TOPICS_KEPT_MAX: Final = 65_536
"""Names of topics that are remembered; forgotten together when there are more."""


_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its class takes."""


class LogScan:
    """Reads records at places that the caller knows.

    scan = LogScan()
    stored = scan.read(view, at, log_offset, has_crc=True)      # None: the segment ends here
    """

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[bytes, str] = {}

    def read(self, segment: memoryview, at: int, log_offset: int, has_crc: bool) -> Stored | None:
        """What the record at ``at`` of a whole segment says, None if a blank is there.

        RecordError if neither is, with the reason. ``has_crc`` asks for the CRC property, which
        covers all of the record, and else the checksum of the body is looked at.
        """
        bound = len(segment) - BLANK_BYTES - at
        if bound >= _HEAD_BYTES:
            size, magic, crc, queue_id, queue_offset, offset, sys_flag, time_ms, body_bytes = (
                _HEAD.unpack_from(segment, at)
            )
            if (
                magic == MAGIC_V1
                and offset == log_offset
                and not sys_flag & HOST_BITS
                and RECORD_BYTES_MIN <= size <= bound
                and 0 <= body_bytes <= size - RECORD_BYTES_MIN
            ):
                data = segment[at : at + size].tobytes()
                topic_at = _HEAD_BYTES + body_bytes + 1
                topic_bytes = data[topic_at - 1]
                topic_end = topic_at + topic_bytes
                rest = size - topic_end - 2
                if (
                    topic_bytes <= TOPIC_BYTES_MAX
                    and 0 <= rest <= _PROPERTIES_BYTES_MAX
                    and (data[topic_end] << 8) + data[topic_end + 1] == rest
                    and _is_whole(data, crc, body_bytes, has_crc)
                ):
                    topic = self._topics.get(data[topic_at:topic_end])
                    if topic is None:
                        topic = self._topic(data[topic_at:topic_end])
                    return _new(
                        Stored,
                        (topic, queue_id, queue_offset, log_offset, size, sys_flag, time_ms,
                         data[topic_end + 2 :]),
                    )  # fmt: skip
        if not check_record(segment, at, log_offset, check_crc_property=has_crc):
            return None
        return read_stored(segment, at)

    def _topic(self, raw: bytes) -> str:
        if len(self._topics) >= _TOPICS_KEPT_MAX:
            self._topics.clear()
        topic = self._topics[raw] = decode_utf8(raw)
        return topic


def _is_whole(data: bytes, crc: int, body_bytes: int, has_crc: bool) -> bool:
    if has_crc:
        whole_crc = zlib.crc32(memoryview(data)[:-CRC_PROPERTY_BYTES]) & _CRC_MASK
        return data.endswith(encode_crc_property(whole_crc))
    body = memoryview(data)[_HEAD_BYTES : _HEAD_BYTES + body_bytes]
    return not body_bytes or zlib.crc32(body) & _CRC_MASK == crc
