"""One command: header (JSON or compact) and body.

Decoding a request makes three objects besides the strings of its header: the parsed header, its
field map and the Command. The body stays a view of the bytes that arrived. Encoding an answer
makes one bytes object for everything before the body, and leaves the body alone.
"""

from typing import TypeAlias

from roketto.protocol.codes import LanguageCode
from roketto.protocol.compact_header import decode_compact_header, encode_compact_header
from roketto.protocol.errors import CommandError
from roketto.protocol.frame import COMPACT, JSON, frame_prefix, split_frame
from roketto.protocol.json_header import decode_json_header, encode_json_text
from roketto.protocol.limits import REMARK_BYTES_MAX
from roketto.protocol.versions import CURRENT_VERSION

Body: TypeAlias = bytes | memoryview
Views: TypeAlias = tuple[Body, ...]
"""The body of an answer in pieces that lie apart, as those of a queue's messages in the log do."""

LANGUAGES = tuple(code.name for code in LanguageCode)
"""A JSON header carries a language's name, a compact one its number, which is its place here."""

UNKNOWN_LANGUAGE = -1
"""A language that is not in the table; null in Java."""

_PYTHON = int(LanguageCode.PYTHON)
_OTHER = int(LanguageCode.OTHER)

RESPONSE_FLAG = 1
ONE_WAY_FLAG = 2

_JSON_HEADER = (
    b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)
_LANGUAGE_OF_NAME = {name: number for number, name in enumerate(LANGUAGES)}


class Command:
    """A request or an answer. ``ext`` is None where there are no fields, ``body`` b"" for none.

    What is decoded has its body in one piece. An answer may have ``views`` instead, which go out
    one behind the other without being joined.
    """

    __slots__ = (
        "body", "code", "ext", "flag", "language", "opaque", "remark", "serialization", "version",
        "views",
    )  # fmt: skip

    def __init__(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: Body = b"",
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        language: int = _PYTHON,
        version: int = CURRENT_VERSION,
        serialization: int = JSON,
    ) -> None:
        self.code = code
        self.ext = ext
        self.body = body
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.language = language
        self.version = version
        self.serialization = serialization
        self.views: Views = ()

    @property
    def body_bytes(self) -> int:
        """How long the body is."""
        return sum(map(len, self.views)) if self.views else len(self.body)

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_one_way(self) -> bool:
        return self.flag & ONE_WAY_FLAG != 0

    def answer(
        self,
        code: int = 0,
        ext: dict[str, str] | None = None,
        body: Body | Views = b"",
        remark: str | None = None,
    ) -> "Command":
        """Return the answer to this request: its opaque and its serialisation, our identity."""
        if isinstance(body, tuple):
            answer = self.answer(code, ext, b"", remark)
            answer.views = body
            return answer
        # By position, here and below: names in a call cost a tenth of a microsecond.
        return Command(
            code, ext, body, self.opaque, RESPONSE_FLAG, remark, _PYTHON, CURRENT_VERSION,
            self.serialization,
        )  # fmt: skip

    def __repr__(self) -> str:
        kind = "answer" if self.is_response else "request"
        return f"<{kind} code={self.code} opaque={self.opaque} body={self.body_bytes} bytes>"


def decode_command(frame: memoryview) -> Command:
    """Return the command in a frame as FrameDecoder yields it; raise FrameError or CommandError."""
    serialization, header, body = split_frame(frame)
    if serialization == JSON:
        parsed = decode_json_header(header)
        return Command(
            parsed.code, parsed.extFields, body, parsed.opaque, parsed.flag, parsed.remark,
            _language_number(parsed.language), parsed.version, JSON,
        )  # fmt: skip
    code, language, version, opaque, flag, remark, ext = decode_compact_header(header)
    if language >= len(LANGUAGES):
        language = UNKNOWN_LANGUAGE
    return Command(code, ext, body, opaque, flag, remark, language, version, COMPACT)


def encode_head(command: Command) -> bytes:
    """Return everything of the frame that comes before the body."""
    remark = command.remark
    if remark is not None and len(remark) > REMARK_BYTES_MAX // 4:
        remark = remark[: REMARK_BYTES_MAX // 4]
    if command.serialization == JSON:
        header = _json_header(command, remark)
    else:
        language = command.language
        header = encode_compact_header(
            command.code,
            language if language >= 0 else _OTHER,
            command.version,
            command.opaque,
            command.flag,
            remark,
            command.ext,
        )
    body_bytes = command.body_bytes if command.views else len(command.body)
    return frame_prefix(command.serialization, len(header), body_bytes) + header


def encode_command(command: Command) -> bytes:
    """Return the whole frame as one bytes object; for tests and small commands."""
    return b"".join((encode_head(command), command.body, *command.views))


def _json_header(command: Command, remark: str | None) -> bytes:
    language = LANGUAGES[command.language if command.language >= 0 else _OTHER]
    ext = command.ext
    try:
        fields = b'"extFields":' + encode_json_text(ext) + b"," if ext is not None else b""
        note = b'"remark":' + encode_json_text(remark) + b"," if remark is not None else b""
    except UnicodeEncodeError as error:
        raise CommandError(f"header of code {command.code} is not Unicode text: {error}") from error
    return _JSON_HEADER % (
        command.code,
        fields,
        command.flag,
        language.encode(),
        command.opaque,
        note,
        command.version,
    )


def _language_number(language: str | int | None) -> int:
    if isinstance(language, str):
        return _LANGUAGE_OF_NAME.get(language, UNKNOWN_LANGUAGE)
    if language is None or not 0 <= language < len(LANGUAGES):
        return UNKNOWN_LANGUAGE
    return language
