"""Headers of plain sends, read by what they have in common with those before them.

What one producer sends to one topic differs in a few values only::

    {"code":310,"extFields":{"a":"PG","b":"T","c":"TBW102","d":"4
    ","e":"  queue id   ","f":"  system flag   ","g":"  born time   ","h":"  flag   ","i":"
    properties
    ","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":
    opaque
    ,"serializeTypeCurrentRPC":"JSON","version":505}

The rest is a *kind*. A header of a new kind is decoded once. Those that follow are cut where their
values are, and whatever stays must be equal to it, byte for byte: then they mean the same.
"""

from typing import Final

from roketto.protocol.command import ONE_WAY_FLAG
from roketto.protocol.headers.send_frame import SEND_V2_CODE, decode_send_v2

__all__ = ["NUMBERS_DIGITS_MAX", "Send", "SendKinds"]

KINDS_MAX: Final = 4_096
"""Kinds that are remembered, of some 300 bytes each; a producer has one for each of its topics."""

_QUEUE: Final = '","e":"'
_BITS: Final = '","f":"'
_BORN: Final = '","g":"'
_FLAG: Final = '","h":"'
_PROPERTIES: Final = '","i":"'
_NAME_CHARS: Final = 7
_OPAQUE: Final = '"opaque":'
_OPAQUE_CHARS: Final = len(_OPAQUE)
_ESCAPE: Final = "\\"
_DIGITS_MAX: Final = 10
NUMBERS_DIGITS_MAX: Final = 64
"""Of all numbers of a header together. Those that fit their fields have 59 at most, and Python
refuses to read one of some thousands."""


class Send:
    """What a header says; values are the texts that stood there, properties are unescaped."""

    __slots__ = ("bits", "born", "flag", "is_one_way", "opaque", "properties", "queue", "topic")

    def __init__(
        self,
        topic: str,
        is_one_way: bool,
        queue: str,
        bits: str,
        born: str,
        flag: str,
        properties: str,
        opaque: str,
    ) -> None:
        self.topic: str = topic
        self.is_one_way: bool = is_one_way
        self.queue: str = queue
        self.bits: str = bits
        self.born: str = born
        self.flag: str = flag
        self.properties: str = properties
        self.opaque: str = opaque


class _Kind:
    __slots__ = ("is_one_way", "is_plain", "topic")

    def __init__(self, topic: str, is_one_way: bool, is_plain: bool) -> None:
        self.topic: str = topic
        self.is_one_way: bool = is_one_way
        self.is_plain: bool = is_plain


_NOT_PLAIN: Final = _Kind("", False, False)


class SendKinds:
    """The kinds that were seen.

    kinds = SendKinds()
    kinds.read(header)      # None: of a kind that is not plain, or is only known from now on
    """

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def read(self, header: bytes) -> Send | None:
        """A plain header of a known kind, all of whose numbers have digits only; None else."""
        try:
            text = header.decode()
        except UnicodeDecodeError:
            return None
        begin_end = text.find(_QUEUE)
        bits_at = text.find(_BITS, begin_end)
        born_at = text.find(_BORN, bits_at)
        flag_at = text.find(_FLAG, born_at)
        properties_at = text.find(_PROPERTIES, flag_at)
        end_at = text.find('"', properties_at + _NAME_CHARS)
        opaque_at = text.rfind(_OPAQUE)
        opaque_end = text.find(",", opaque_at)
        # A name that is not there is found nowhere: at -1, and those behind it before it.
        if not 0 < begin_end < bits_at < born_at < flag_at < properties_at < end_at < opaque_at:
            return None
        if opaque_end < 0:
            return None
        common = f"{text[:begin_end]}\n{text[end_at:opaque_at]}\n{text[opaque_end:]}"
        kind = self._kinds.get(common)
        if kind is None:
            self._learn(common, header)
            return None
        queue = text[begin_end + _NAME_CHARS : bits_at]
        bits = text[bits_at + _NAME_CHARS : born_at]
        born = text[born_at + _NAME_CHARS : flag_at]
        flag = text[flag_at + _NAME_CHARS : properties_at]
        opaque = text[opaque_at + _OPAQUE_CHARS : opaque_end]
        digits = f"{queue}{bits}{born}{flag}{opaque}"
        if not kind.is_plain or len(digits) > NUMBERS_DIGITS_MAX:
            return None
        if not (digits.isascii() and digits.isdigit()):
            return None
        if not (queue and bits and born and flag) or len(opaque) > _DIGITS_MAX:
            return None
        if opaque.startswith("0") and len(opaque) > 1:
            return None
        properties = text[properties_at + _NAME_CHARS : end_at]
        if _ESCAPE in properties:
            properties = properties.replace("\\u0001", "\x01").replace("\\u0002", "\x02")
            if _ESCAPE in properties:  # also if the quote that seemed to end them is escaped
                return None
        return Send(kind.topic, kind.is_one_way, queue, bits, born, flag, properties, opaque)

    def _learn(self, common: str, header: bytes) -> None:
        """Remember what headers with so much in common are."""
        if len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        kind = _NOT_PLAIN
        decoded = decode_send_v2(memoryview(header))
        # A line break could hide where a value was taken out.
        if decoded is not None and decoded.code == SEND_V2_CODE and b"\n" not in header:
            fields = decoded.extFields
            is_plain = (
                not decoded.flag & ~ONE_WAY_FLAG
                and fields.j == "0"
                and fields.m == "false"
                and fields.l is None
                and fields.d.isdecimal()
                and len(fields.d) < _DIGITS_MAX
            )
            if is_plain:
                kind = _Kind(fields.b, bool(decoded.flag & ONE_WAY_FLAG), True)
        self._kinds[common] = kind
