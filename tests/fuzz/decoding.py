"""Decode a stream as far as a server or a client would: frames, commands, headers, bodies."""

from bodies_by_code import ANSWER_BODIES, REQUEST_BODIES
from roketto.protocol.batch import decode_batch
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.registration import decode_registration
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command
from roketto.protocol.errors import ProtocolError, RequestError
from roketto.protocol.frame import FrameDecoder
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.tables import HEADER_OF_REQUEST
from roketto.protocol.record import decode_records

REQUEST_CODES = {int(code): code for code in RequestCode}
"""A lookup that says None for an unknown code instead of raising."""


def decode_stream(data: bytes) -> int:
    """Return how many commands the stream held; only ProtocolError may come out."""
    frames = FrameDecoder().feed(data)
    for frame in frames:
        decode_fully(decode_command(frame))
    return len(frames)


def decode_fully(command: Command) -> None:
    """Decode header and body of a command; a RequestError is a fine answer to damage."""
    code = REQUEST_CODES.get(command.code)
    header = HEADER_OF_REQUEST.get(code) if code is not None else None
    try:
        if header is not None:
            decode_header(header, command.ext)
        if command.body:
            decode_any_body(code, command)
    except (RequestError, ProtocolError):
        pass


def decode_any_body(code: RequestCode | None, command: Command) -> None:
    """Decode a body as the request's, or as each kind of answer that could carry it."""
    if code is RequestCode.REGISTER_BROKER:
        compressed = (command.ext or {}).get("compressed") == "true"
        decode_registration(command.body, version=command.version, compressed=compressed)
    elif code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        decode_batch(command.body)
    elif code is not None and code in REQUEST_BODIES:
        decode_body(REQUEST_BODIES[code], command.body)
    elif code is not None and code in ANSWER_BODIES:
        decode_body(ANSWER_BODIES[code], command.body)
    else:
        for record in decode_records(command.body):
            record.properties  # noqa: B018 (parsed when asked for)
