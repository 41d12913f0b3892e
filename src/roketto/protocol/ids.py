"""Message ids: the broker's, which says where a message lies, and the producer's, which is unique.

The broker's id is the upper-case hex of::

    0       4 or 16   address of the store host
    4 / 16  4         its port
    8 / 20  8         log offset

The producer's id is the upper-case hex of::

    0       4 or 16   address of the client
    4 / 16  2         process id, low 16 bits
    6 / 18  4         any number that tells processes of one host apart (Java: class loader hash)
    10 / 22 4         milliseconds since the month began in the client's zone, unsigned
    14 / 26 2         counter

Both take 32 characters with IPv4 and 56 with IPv6. The ids of gRPC clients look alike but have 34
characters and another content.
"""

import struct
from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from roketto.protocol.errors import RecordError

_IPV4_ID_BYTES: Final = 16
_IPV6_ID_BYTES: Final = 28
_PORT_MAX: Final = 65_535
_CLOCK_STEP_MS_MAX: Final = 1_000_000
"""A clock set back over the start of the month by less than this is taken to stand there."""

_LONG: Final = struct.Struct(">q")
_PORT_AND_OFFSET: Final = struct.Struct(">iq")
_PROCESS: Final = struct.Struct(">HI")
_TIME_AND_COUNTER: Final = struct.Struct(">IH")
_UNIQUE: Final = struct.Struct(">HIIH")


class OffsetId(NamedTuple):
    """The place of a message: a host (see hosts.py) and an offset in its log."""

    host: bytes
    log_offset: int


class UniqueId(NamedTuple):
    """What the producer's id says about where and when it was made."""

    ip: bytes
    pid: int
    process_hash: int
    month_ms: int
    """Milliseconds since the month began; ``created_ms`` makes a time of it."""
    counter: int


def encode_offset_id(host: bytes, log_offset: int) -> str:
    """The broker's id of the message at ``log_offset``."""
    try:
        return (host + _LONG.pack(log_offset)).hex().upper()
    except struct.error as error:
        raise RecordError(f"log offset {log_offset} is no 64-bit number") from error


def encode_offset_ids(host: bytes, log_offsets: Iterable[int]) -> str:
    """The broker's ids of the messages there, with commas between them."""
    offsets = list(log_offsets)
    try:
        raw = struct.pack(f">{len(offsets)}q", *offsets)
    except struct.error as error:
        raise RecordError(f"one of the log offsets {offsets} is no 64-bit number") from error
    prefix = host.hex().upper()
    return prefix + raw.hex(",", _LONG.size).upper().replace(",", "," + prefix)


def decode_offset_id(text: str) -> OffsetId:
    """The place in a broker's id; its host is one that can be connected to."""
    raw = _decode_hex(text)
    port, log_offset = _PORT_AND_OFFSET.unpack_from(raw, len(raw) - _PORT_AND_OFFSET.size)
    if not 0 <= port <= _PORT_MAX:
        raise RecordError(f"message id {text} names port {port}, outside 0..{_PORT_MAX}")
    return OffsetId(raw[:-8], log_offset)


def decode_unique_id(text: str) -> UniqueId:
    """The parts of a producer's id."""
    raw = _decode_hex(text)
    ip_bytes = len(raw) - _UNIQUE.size
    pid, process_hash, month_ms, counter = _UNIQUE.unpack_from(raw, ip_bytes)
    return UniqueId(raw[:ip_bytes], pid, process_hash, month_ms, counter)


def created_ms(unique_id: UniqueId, now_ms: int, zone: tzinfo) -> int:
    """When the id was made, for a reader at ``now_ms`` in the zone of the writer.

    The id knows no month. It is taken for one of the current month, or of the month before when
    that would lie in the future.
    """
    start_ms = month_bounds_ms(now_ms, zone)[0]
    if start_ms + unique_id.month_ms >= now_ms:
        start_ms = month_bounds_ms(start_ms - 1, zone)[0]
    return start_ms + unique_id.month_ms


def month_bounds_ms(now_ms: int, zone: tzinfo) -> tuple[int, int]:
    """When the month of ``now_ms`` began in ``zone``, and when the next one does."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)


class UniqueIds:
    """Makes the ids of one producer process.

    It has no clock: the caller gives the time with every call.

    >>> from datetime import timezone
    >>> ids = UniqueIds(bytes([10, 0, 0, 1]), pid=7, process_hash=1, zone=timezone.utc)
    >>> ids.next_id(now_ms=1_700_000_000_000)
    '0A00000100070000000147B760000000'
    """

    __slots__ = ("_counter", "_month_end_ms", "_month_start_ms", "_prefix", "_zone")

    def __init__(
        self, ip: bytes, pid: int, process_hash: int, zone: tzinfo, counter: int = 0
    ) -> None:
        if len(ip) not in (4, 16):
            raise RecordError(f"an address of {len(ip)} bytes; IPv4 has 4, IPv6 has 16")
        self._prefix: str = (ip + _PROCESS.pack(pid & 0xFFFF, process_hash & 0xFFFF_FFFF)).hex()
        self._zone: tzinfo = zone
        self._counter: int = counter
        self._month_start_ms: int = 0
        self._month_end_ms: int = 0

    def next_id(self, now_ms: int) -> str:
        """A new id; up to 65,536 of them in one millisecond differ."""
        if now_ms >= self._month_end_ms:
            self._month_start_ms, self._month_end_ms = month_bounds_ms(now_ms, self._zone)
        month_ms = now_ms - self._month_start_ms
        if -_CLOCK_STEP_MS_MAX < month_ms < 0:
            month_ms = 0
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        tail = _TIME_AND_COUNTER.pack(month_ms & 0xFFFF_FFFF, counter & 0xFFFF).hex()
        return (self._prefix + tail).upper()


def substitute_ip(now_ms: int) -> bytes:
    """Four bytes to use as the address where none can be found: the low ones of the clock."""
    return _LONG.pack(now_ms)[4:]


def _decode_hex(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise RecordError(f"message id {text[:64]!r} is not hexadecimal") from error
    # fromhex skips blanks, hence the second look at the length.
    if len(raw) not in (_IPV4_ID_BYTES, _IPV6_ID_BYTES) or len(text) != 2 * len(raw):
        raise RecordError(
            f"message id {text[:64]!r} has {len(text)} characters; ids of brokers and remoting"
            f" clients have {2 * _IPV4_ID_BYTES} (IPv4) or {2 * _IPV6_ID_BYTES} (IPv6)"
        )
    return raw
