"""What the header of an END_TRANSACTION says, found byte by byte where that is compiled.

A struct of all members takes four times as long as the few that matter. Without compiling a byte
takes 60 ns, and ``decode_end`` is the faster way; both find the same.

What is found is what Java's FastJSON writes: no blanks, no escapes, nothing but ASCII, numbers
without a sign. Whatever else a client may write is left to command.py.
"""

from typing import Final

from mypy_extensions import i64

from roketto.protocol.headers.end_frame import END_CODE, END_START, decode_end

__all__ = ["EndHeader"]

_IS_COMPILED: Final = not __file__.endswith(".py")

_NONE: Final = -1
_DIGITS_MAX: Final = 18
"""Numbers of so many digits fit 64 bits."""

_QUOTE: Final = 0x22
_COMMA: Final = 0x2C
_ZERO: Final = 0x30
_NINE: Final = 0x39
_COLON: Final = 0x3A
_BACKSLASH: Final = 0x5C
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D
_BLANK: Final = 0x20
_ASCII_END: Final = 0x7F

_START_BYTES: Final = len(END_START)


class EndHeader:
    """The members that matter; one object reads one header after the other.

    header = EndHeader()
    if header.read(data, at, end):          # False: it is not like that, and nothing was found
        header.group, header.log_offset
    """

    __slots__ = ("_at", "decision", "flag", "group", "has_id", "log_offset", "offset", "opaque")

    def __init__(self) -> None:
        self.flag: i64 = 0
        self.opaque: i64 = 0
        self.group: str = ""
        self.log_offset: i64 = 0
        """Of the half message in the log."""
        self.offset: i64 = 0
        """The same in its queue."""
        self.decision: i64 = 0
        self.has_id: bool = False
        self._at: i64 = 0

    def read(self, data: bytes, at: int, end: int) -> bool:
        """Read the header between these places, which begins with END_START."""
        return self.scan(data, at, end) if _IS_COMPILED else self.decode(data, at, end)

    def decode(self, data: bytes, at: int, end: int) -> bool:
        """The way of a struct."""
        frame = decode_end(memoryview(data)[at:end])
        if frame is None or frame.code != END_CODE or frame.flag < 0 or frame.opaque < 0:
            return False
        fields = frame.extFields
        self.flag, self.opaque = frame.flag, frame.opaque
        self.group = fields.producerGroup
        self.log_offset = _to_number(fields.commitLogOffset)
        self.offset = _to_number(fields.tranStateTableOffset)
        self.decision = _to_number(fields.commitOrRollback)
        return self.log_offset >= 0 and self.offset >= 0 and self.decision >= 0

    # --- byte by byte -----------------------------------------------------------------------------

    def scan(self, data: bytes, at: int, end: int) -> bool:
        """The same, byte by byte."""
        self.flag, self.opaque = 0, _NONE
        self.log_offset = self.offset = self.decision = _NONE
        self.group, self.has_id = "", False
        is_inner_due = True
        stop: i64 = end - 1
        self._at = at + _START_BYTES
        while self._at < stop:
            name_at: i64 = self._at + 1
            name_end: i64 = self._name(data, stop)
            if name_end < 0:
                return False
            name_bytes: i64 = name_end - name_at
            first: i64 = data[self._at]
            if first == _OPEN:
                if not is_inner_due or data[name_at:name_end] != b"extFields":
                    return False
                is_inner_due = False
                if not self._fields(data, stop):
                    return False
            elif first == _QUOTE:
                if not self._text(data, stop):
                    return False
            else:
                number = self._number(data, self._at, stop)
                if number < 0:
                    return False
                if name_bytes == 4:
                    name = data[name_at:name_end]
                    if name == b"flag":
                        self.flag = number
                    elif name == b"code":
                        return False  # a second one
                elif name_bytes == 6 and data[name_at:name_end] == b"opaque":
                    self.opaque = number
            if self._at == stop:
                break
            if data[self._at] != _COMMA:
                return False
            self._at += 1
        return (
            self._at == stop
            and data[stop] == _CLOSE
            and not is_inner_due
            and self.has_id
            and self.opaque >= 0
            and self.log_offset >= 0
            and self.offset >= 0
            and self.decision >= 0
            and self.group != ""
        )

    def _fields(self, data: bytes, stop: i64) -> bool:
        """Read the fields of the request, from a brace to behind the other."""
        self._at += 1
        while self._at < stop:
            name_at: i64 = self._at + 1
            name_end: i64 = self._name(data, stop)
            if name_end < 0 or data[self._at] != _QUOTE:
                return False
            value_at: i64 = self._at + 1
            if not self._text(data, stop):
                return False
            self._keep(data, name_at, name_end, value_at, self._at - 1)
            if self._at >= stop:
                return False
            sign: i64 = data[self._at]
            self._at += 1
            if sign == _CLOSE:
                return True
            if sign != _COMMA:
                return False
        return False

    def _keep(
        self, data: bytes, name_at: i64, name_end: i64, value_at: i64, value_end: i64
    ) -> None:
        """Note a field if it matters; one that is no number where it should be counts as absent."""
        name_bytes: i64 = name_end - name_at
        if name_bytes == 5:
            if data[name_at:name_end] == b"msgId":
                self.has_id = True
        elif name_bytes == 13:
            if data[name_at:name_end] == b"producerGroup":
                self.group = data[value_at:value_end].decode()
        elif name_bytes == 15:
            if data[name_at:name_end] == b"commitLogOffset":
                self.log_offset = self._whole_number(data, value_at, value_end)
        elif name_bytes == 16:
            if data[name_at:name_end] == b"commitOrRollback":
                self.decision = self._whole_number(data, value_at, value_end)
        elif name_bytes == 20 and data[name_at:name_end] == b"tranStateTableOffset":
            self.offset = self._whole_number(data, value_at, value_end)

    def _name(self, data: bytes, stop: i64) -> i64:
        """Go from the quote before a name to its value; where the name ends, if there is one."""
        if data[self._at] != _QUOTE or not self._text(data, stop):
            return _NONE
        name_end: i64 = self._at - 1
        if data[self._at] != _COLON:
            return _NONE
        self._at += 1
        return name_end if self._at < stop else _NONE

    def _text(self, data: bytes, stop: i64) -> bool:
        """Go from a quote to behind the next one; False if there is anything unusual between."""
        at: i64 = self._at + 1
        while at < stop:
            byte: i64 = data[at]
            if byte > _QUOTE:  # as nearly all are
                if byte == _BACKSLASH or byte >= _ASCII_END:
                    return False
            elif byte == _QUOTE:
                self._at = at + 1
                return True
            elif byte < _BLANK:
                return False
            at += 1
        return False

    def _number(self, data: bytes, at: i64, stop: i64) -> i64:
        """Go to behind a number, and return it; negative if there is none."""
        value: i64 = 0
        begin: i64 = at
        while at < stop and _ZERO <= data[at] <= _NINE and at - begin < _DIGITS_MAX:
            value = value * 10 + data[at] - _ZERO
            at += 1
        self._at = at
        is_number = at > begin and (data[begin] != _ZERO or at == begin + 1)
        return value if is_number else _NONE

    def _whole_number(self, data: bytes, at: i64, end: i64) -> i64:
        """The number that a text is; negative if it is another text."""
        value: i64 = 0
        if not 0 < end - at <= _DIGITS_MAX:
            return _NONE
        while at < end:
            byte: i64 = data[at]
            if byte < _ZERO or byte > _NINE:
                return _NONE
            value = value * 10 + byte - _ZERO
            at += 1
        return value


def _to_number(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else _NONE
