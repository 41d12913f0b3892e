"""Read as much of a frame as the fixtures need: its code, its number, and whose answer it is.

| offset | size | field                                             |
|--------|------|---------------------------------------------------|
| 0      | 4    | length of all that follows                        |
| 4      | 1    | serialisation of the header: 0 JSON, 1 ROCKETMQ   |
| 5      | 3    | length of the header                              |
| 8      | ...  | header, then body                                 |

Written apart from Roketto's own codec on purpose: what is here to test it must not share its
mistakes.
"""

import json
import struct
from dataclasses import dataclass
from typing import Final

SERIALIZATIONS: Final = ("JSON", "ROCKETMQ")

_PREFIX: Final = struct.Struct(">II")
_COMPACT: Final = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_RESPONSE_FLAG: Final = 1


@dataclass(frozen=True, slots=True)
class FrameView:
    """What a frame says of itself."""

    serialization: str
    code: int
    opaque: int
    flag: int
    remark: str
    fields: tuple[str, ...]
    body: bytes

    @property
    def is_response(self) -> bool:
        return bool(self.flag & _RESPONSE_FLAG)


def view_frame(frame: bytes) -> FrameView:
    """Read a whole frame, length field included."""
    length, mark = _PREFIX.unpack_from(frame)
    assert len(frame) == length + 4
    header_end = _PREFIX.size + (mark & 0xFF_FFFF)
    header, body = frame[_PREFIX.size : header_end], frame[header_end:]
    return _view_compact(header, body) if mark >> 24 else _view_json(header, body)


def _view_json(header: bytes, body: bytes) -> FrameView:
    values = json.loads(header)
    code, opaque, flag = values["code"], values["opaque"], values["flag"]
    fields = tuple(sorted(values.get("extFields", {})))
    return FrameView("JSON", code, opaque, flag, values.get("remark", ""), fields, body)


def _view_compact(header: bytes, body: bytes) -> FrameView:
    code, _language, _version, opaque, flag, remark_length = _COMPACT.unpack_from(header)
    position = _COMPACT.size + remark_length
    remark = header[_COMPACT.size : position].decode()
    position += 4  # the length of the fields, which reach to the end of the header
    fields = []
    while position < len(header):
        (key_length,) = struct.unpack_from(">h", header, position)
        position += 2
        fields.append(header[position : position + key_length].decode())
        position += key_length
        (value_length,) = struct.unpack_from(">i", header, position)
        position += 4 + value_length
    return FrameView("ROCKETMQ", code, opaque, flag, remark, tuple(sorted(fields)), body)
