"""The compact (ROCKETMQ) header of a frame.

| offset | size | field                                                     |
|--------|------|-----------------------------------------------------------|
| 0      | 2    | code, signed: larger codes lose their upper bits          |
| 2      | 1    | language                                                  |
| 3      | 2    | version, signed                                           |
| 5      | 4    | opaque                                                    |
| 9      | 4    | flag                                                      |
| 13     | 4    | length of the remark; 0 = none                            |
| 17     | r    | remark                                                    |
| 17 + r | 4    | length of all fields together; 0 = none                   |
| 21 + r | n    | fields: 2 bytes key length, key, 4 bytes value length, value |

The last of equal keys wins, as in Java. A value of length 0 is null in Java; here it is kept as the
empty text that it is, so that a command can be written as it was read. Headers treat both alike.
"""

import struct

from roketto.protocol.errors import CommandError
from roketto.protocol.limits import EXT_FIELDS_MAX

_FIXED = struct.Struct(">hBhiii")
_INT = struct.Struct(">i")
_KEY = struct.Struct(">H")
_FIXED_BYTES = 17
_HEADER_BYTES_MIN = 21
_FIELD_BYTES_MIN = 6


def decode_compact_header(
    data: memoryview,
) -> tuple[int, int, int, int, int, str | None, dict[str, str] | None]:
    """Return code, language, version, opaque, flag, remark and fields, or raise CommandError."""
    size = len(data)
    if size < _HEADER_BYTES_MIN:
        raise CommandError(f"compact header of {size} bytes is shorter than its fixed part (21)")
    code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(data)
    fields_at = _FIXED_BYTES + remark_bytes
    if remark_bytes < 0 or fields_at > size - 4:
        raise CommandError(f"remark of {remark_bytes} bytes does not fit a header of {size} bytes")
    remark = _remark(data[_FIXED_BYTES:fields_at]) if remark_bytes else None
    fields_bytes = _INT.unpack_from(data, fields_at)[0]
    if fields_bytes == 0:
        return code, language, version, opaque, flag, remark, None
    start = fields_at + 4
    if fields_bytes < 0 or start + fields_bytes > size:
        raise CommandError(f"fields of {fields_bytes} bytes do not fit a header of {size} bytes")
    fields = _decode_fields(bytes(data[start : start + fields_bytes]))
    return code, language, version, opaque, flag, remark, fields


def _decode_fields(data: bytes) -> dict[str, str]:
    # A slice of bytes decodes in half the time of a slice of a view: one copy for all fields pays.
    fields: dict[str, str] = {}
    size = len(data)
    at = 0
    while at < size:
        if size - at < _FIELD_BYTES_MIN:
            raise CommandError(f"{size - at} stray bytes behind the last field of the header")
        value_length_at = at + 2 + _KEY.unpack_from(data, at)[0]
        if value_length_at + 4 > size:
            raise CommandError(f"key of a field does not fit the {size} bytes of all fields")
        value_at = value_length_at + 4
        value_bytes = _INT.unpack_from(data, value_length_at)[0]
        end = value_at + value_bytes
        if value_bytes < 0 or end > size:
            raise CommandError(
                f"value of {value_bytes} bytes does not fit the {size} bytes of all fields"
            )
        try:
            key = data[at + 2 : value_length_at].decode()
            fields[key] = data[value_at:end].decode()
        except UnicodeDecodeError as error:
            raise CommandError(f"a field of the header is not UTF-8: {error}") from error
        if len(fields) > EXT_FIELDS_MAX:
            raise CommandError(f"header has more fields than the limit of {EXT_FIELDS_MAX}")
        at = end
    return fields


def encode_compact_header(
    code: int,
    language: int,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    fields: dict[str, str] | None,
) -> bytes:
    """Return the header's bytes; codes above 32767 are refused, they would arrive as others."""
    if not -0x8000 <= code <= 0x7FFF:
        raise CommandError(f"code {code} does not fit the 16 bits of a compact header; use JSON")
    try:
        remark_bytes = remark.encode() if remark else b""
        entries = _encode_fields(fields) if fields else b""
    except UnicodeEncodeError as error:
        raise CommandError(f"header of code {code} is not Unicode text: {error}") from error
    fixed = _FIXED.pack(code, language, version, opaque, flag, len(remark_bytes))
    return b"".join((fixed, remark_bytes, _INT.pack(len(entries)), entries))


def _encode_fields(fields: dict[str, str]) -> bytes:
    parts: list[bytes] = []
    for key, value in fields.items():
        key_bytes = key.encode()
        value_bytes = value.encode()
        if len(key_bytes) > 0xFFFF:
            raise CommandError(f"key of {len(key_bytes)} bytes exceeds the limit of 65535")
        parts += (_KEY.pack(len(key_bytes)), key_bytes, _INT.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _remark(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"remark is not UTF-8: {error}") from error
