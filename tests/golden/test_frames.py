"""Frames captured from the Java peer decode and encode to the same bytes."""

from typing import NamedTuple

import pytest

from bodies_by_code import ANSWER_BODIES, REQUEST_BODIES
from interop.peer import VERSIONS
from interop.peer.golden import GoldenFrame, read_golden
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import COMPACT, FrameDecoder
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.tables import HEADER_OF_REQUEST, HEADER_OF_RESPONSE
from unit.protocol.bodies.families import check_bytes


class Golden(NamedTuple):
    """A frame that a peer of this version sent."""

    version: str
    captured: GoldenFrame

    def command(self) -> Command:
        [view] = FrameDecoder().feed(self.captured.frame)
        return decode_command(view)

    def code(self) -> RequestCode:
        """The code of the request, or of the one it answers; a compact header keeps 16 bits."""
        sent = self.captured.request_code & 0xFFFF
        return next(code for code in RequestCode if code & 0xFFFF == sent)

    def is_answer(self) -> bool:
        return self.captured.direction == "response"


FRAMES = [Golden(version, frame) for version in VERSIONS for frame in read_golden(version)]
each_frame = pytest.mark.parametrize(
    "golden", FRAMES, ids=lambda g: f"{g.version}-{g.captured.name}"
)


@each_frame
def test_a_captured_frame_is_written_as_it_was_read(golden: Golden) -> None:
    """Byte for byte: prefix, header with its order and escapes, body."""
    assert encode_command(golden.command()) == golden.captured.frame


@each_frame
def test_a_captured_header_is_typed_without_loss(golden: Golden) -> None:
    """Every field that Java sent is in our typed header, and comes out with Java's text."""
    command = golden.command()
    table = HEADER_OF_RESPONSE if golden.is_answer() else HEADER_OF_REQUEST
    header = table[golden.code()]
    if header is None or (command.is_response and command.code != 0):
        return
    typed = encode_header(decode_header(header, command.ext))
    sent = dict(command.ext or {})
    if command.serialization == COMPACT:
        sent = {name: text for name, text in sent.items() if text}
    known = {name: text for name, text in sent.items() if name in typed}
    assert typed.items() >= known.items()
    assert set(sent) - set(typed) <= OUTSIDE_HEADERS, "a field that no header of ours has"


OUTSIDE_HEADERS = {
    "AccessKey", "Signature", "SecurityToken", "_UNIQUE_KEY_QUERY", "MSG_REGION", "TRACE_ON",
    "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE", "ReqT", "__ZONE_NAME", "__ZONE_MODE",
}  # fmt: skip
"""Fields that hooks and processors put beside the header class."""


@each_frame
def test_a_captured_body_is_written_as_it_was_read(golden: Golden) -> None:
    """JSON bodies come out as Java wrote them; 4.9.7 lacks the members that came with 5.x."""
    command = golden.command()
    table = ANSWER_BODIES if golden.is_answer() else REQUEST_BODIES
    kind = table.get(golden.code())
    if kind is None or not command.body or (command.is_response and command.code != 0):
        return
    body = decode_body(kind, command.body)
    is_standard = golden.code() is RequestCode.GET_ROUTEINFO_BY_TOPIC
    check_bytes(bytes(command.body), encode_body(body, standard=is_standard), golden.version)
