"""Headers of plain sends, read by what they have in common with those before them.

What one producer sends to one topic differs in a few values only::

    {"code":310,"extFields":{"a":"PG","b":"T","c":"TBW102","d":"4","e":"
    queue id   ","f":"  system flag   ","g":"  born time   ","h":"  flag   ","i":"   properties
    ","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":
    opaque
    ,"serializeTypeCurrentRPC":"JSON","version":505}

The rest is a *kind*: how such headers begin, what is between properties and opaque, how they end. A
header of a new kind is decoded once. Those that follow are cut where their values are, and whatever
stays must be equal to it, byte for byte: then they mean the same.
"""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64, u8

from roketto.protocol.bytescan import find_byte
from roketto.protocol.command import ONE_WAY_FLAG
from roketto.protocol.headers.send_frame import SEND_BATCH_CODE, decode_send_v2

__all__ = ["Send", "SendKinds"]

KINDS_MAX: Final = 4_096
"""Kinds that are remembered, of some 500 bytes each; a producer has one for each of its topics."""

_QUEUE: Final = b'","e":"'
_PROPERTIES: Final = b'","i":"'
_NAME_BYTES: Final = 7
_OPAQUE: Final = b'"opaque":'
_OPAQUE_BYTES: Final = 9

# The names before the other values as numbers, so that one comparison finds each of them.
_BITS: Final = 0x222C2266223A22  # ","f":"
_BORN: Final = 0x222C2267223A22  # ","g":"
_FLAG: Final = 0x222C2268223A22  # ","h":"
_TEXT: Final = 0x222C2269223A22  # ","i":"
_WORD_BYTES: Final = 8
"""What is read to see a name, of which there are seven."""

_ZERO: Final = 0x30
_QUOTE: Final = 0x22
_ESCAPE: Final = 0x5C
_ESCAPED_BYTES: Final = 6
_CONTROL: Final = 0x5C753030  # \\u00, and two digits more
_DIGITS_MAX: Final = 18
"""Of a number; what has more is rare, and left to whoever decodes the header."""
_OPAQUE_DIGITS_MAX: Final = 10
_COUNT_DIGITS_MAX: Final = 10


class Send:
    """What a header says, until the next one is read; properties are unescaped."""

    __slots__ = (
        "born_time_ms", "flag", "is_one_way", "opaque", "properties", "queue_id", "sys_flag",
        "topic",
    )  # fmt: skip

    def __init__(self) -> None:
        self.topic: str = ""
        self.is_one_way: bool = False
        self.queue_id: i64 = 0
        self.sys_flag: i64 = 0
        self.born_time_ms: i64 = 0
        self.flag: i64 = 0
        self.properties: bytes = b""
        """UTF-8, as a record has them."""
        self.opaque: bytes = b""
        """The digits that stood there."""


class _Kind:
    __slots__ = (
        "begin", "begin_bytes", "end", "is_one_way", "is_plain", "middle", "middle_bytes", "topic",
    )  # fmt: skip

    def __init__(
        self,
        begin: bytes,
        middle: bytes,
        end: bytes,
        topic: str = "",
        is_one_way: bool = False,
        is_plain: bool = False,
    ) -> None:
        self.begin: bytes = begin
        self.begin_bytes: i64 = len(begin)
        self.middle: bytes = middle
        self.middle_bytes: i64 = len(middle)
        self.end: bytes = end
        self.topic: str = topic
        self.is_one_way: bool = is_one_way
        self.is_plain: bool = is_plain


class SendKinds:
    """The kinds that were seen.

    kinds = SendKinds(SEND_V2_CODE)
    kinds.read(data, begin, end)    # None: not plain, or the first of its kind
    """

    __slots__ = ("_code", "_kinds", "_last", "_send")

    def __init__(self, code: int) -> None:
        """``code`` is that of the requests; 320 has batches, and nothing else has."""
        self._code: int = code
        self._kinds: dict[bytes, _Kind] = {}
        self._last: _Kind = _Kind(b"\n", b"", b"")  # as no header begins
        self._send: Send = Send()

    def read(self, data: bytes, begin: i64, end: i64) -> Send | None:
        """The plain header between two places; None if it is of another kind, or a value is odd."""
        if self._cut(self._last, data, begin, end):
            return self._send
        kind = self._recognise(data[begin:end])
        if kind is None or not kind.is_plain or kind is self._last:
            return None
        self._last = kind
        return self._send if self._cut(kind, data, begin, end) else None

    def _cut(self, kind: _Kind, data: bytes, begin: i64, end: i64) -> bool:
        """Take the values out of a header; whether what is left is the kind, and they are plain."""
        at: i64 = begin + kind.begin_bytes
        if data[begin:at] != kind.begin:
            return False
        send = self._send
        send.queue_id, at = _number(data, at, end, _BITS)
        if at:
            send.sys_flag, at = _number(data, at, end, _BORN)
        if at:
            send.born_time_ms, at = _number(data, at, end, _FLAG)
        if at:
            send.flag, at = _number(data, at, end, _TEXT)
        if not at:
            return False
        stop = find_byte(data, _QUOTE, at, end)
        opaque_at = stop + kind.middle_bytes
        if data[stop:opaque_at] != kind.middle:
            return False
        rest_at = opaque_at
        while rest_at < end and _is_digit(data[rest_at]):
            rest_at += 1
        if data[rest_at:end] != kind.end:
            return False
        opaque = data[opaque_at:rest_at]
        if not 0 < len(opaque) <= _OPAQUE_DIGITS_MAX or (opaque[0] == _ZERO and len(opaque) > 1):
            return False
        properties = _unescaped(data, at, stop)
        if properties is None or not (properties.isascii() or _is_utf8(properties)):
            return False
        send.topic = kind.topic
        send.is_one_way = kind.is_one_way
        send.properties = properties
        send.opaque = opaque
        return True

    def _recognise(self, header: bytes) -> _Kind | None:
        """The kind of a header; None if it has none, or is the first of it, which is decoded."""
        begin_end = header.find(_QUEUE) + _NAME_BYTES
        properties_at = header.find(_PROPERTIES, begin_end)
        middle_at = header.find(b'"', properties_at + _NAME_BYTES)
        opaque_at = header.rfind(_OPAQUE) + _OPAQUE_BYTES
        end_at = header.find(b",", opaque_at)
        # What is not there is found at -1, before what was to come before it.
        if not _NAME_BYTES < begin_end < properties_at < middle_at < opaque_at < end_at:
            return None
        begin, middle, end = header[:begin_end], header[middle_at:opaque_at], header[end_at:]
        common = b"\n".join((begin, middle, end))
        kind = self._kinds.get(common)
        if kind is None:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            self._kinds[common] = _learn(self._code, header, begin, middle, end)
        return kind


def _learn(code: int, header: bytes, begin: bytes, middle: bytes, end: bytes) -> _Kind:
    """What headers with so much in common with this one are."""
    decoded = decode_send_v2(memoryview(header))
    # A line break could hide where a value was taken out.
    if decoded is not None and decoded.code == code and b"\n" not in header:
        fields = decoded.extFields
        is_plain = (
            not decoded.flag & ~ONE_WAY_FLAG
            and fields.j == "0"
            and fields.m == ("true" if code == SEND_BATCH_CODE else "false")
            and fields.l is None
            and fields.d.isdecimal()
            and len(fields.d) < _COUNT_DIGITS_MAX
        )
        if is_plain:
            return _Kind(begin, middle, end, fields.b, bool(decoded.flag & ONE_WAY_FLAG), True)
    return _Kind(begin, middle, end)


def _number(data: bytes, at: i64, end: i64, name: i64) -> tuple[i64, i64]:
    """The number that begins at a place, and where the value behind the name that follows it does.

    The second is 0 if there is no such number or no such name.
    """
    value: i64 = 0
    begin = at
    while at < end and _is_digit(data[at]):
        value = value * 10 + (data[at] - _ZERO)
        at += 1
        if at - begin > _DIGITS_MAX:
            return 0, 0
    if at == begin or at + _WORD_BYTES > end or read_i64_be(data, at) >> 8 != name:
        return 0, 0
    return value, at + _NAME_BYTES


def _unescaped(data: bytes, at: i64, end: i64) -> bytes | None:
    """The text between two places; None if more is escaped in it than the ends of names and values.

    That may be the very quote that seemed to end it.
    """
    escape = find_byte(data, _ESCAPE, at, end)
    if escape == end:
        return data[at:end]
    text = BytesWriter()
    while escape < end:
        text.write(data[at:escape])
        at = escape + _ESCAPED_BYTES
        if at > end or read_i32_be(data, escape) != _CONTROL or data[at - 2] != _ZERO:
            return None
        byte: i64 = data[at - 1] - _ZERO
        if byte != 1 and byte != 2:
            return None
        text.append(u8(byte))
        escape = find_byte(data, _ESCAPE, at, end)
    text.write(data[at:end])
    return text.getvalue()


def _is_digit(byte: i64) -> bool:
    return _ZERO <= byte <= _ZERO + 9


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
