"""One request to a RocketMQ server and its answer, over a connection of its own."""

import json
import socket
import struct
from typing import Final

from .frames import FrameView, view_frame

_TIMEOUT_S: Final = 5.0
_HEAD: Final = struct.Struct(">II")  # length of all that follows; type 0 (JSON) and header length
_LENGTH: Final = struct.Struct(">I")


def ask(address: str, code: int, body: bytes = b"") -> FrameView:
    """Send one request without fields to "host:port"; OSError says that there is no answer."""
    host, _, port = address.rpartition(":")
    command = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 407}
    header = json.dumps(command).encode()
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
        connection.sendall(_HEAD.pack(4 + len(header) + len(body), len(header)) + header + body)
        length = _receive(connection, _LENGTH.size)
        return view_frame(length + _receive(connection, *_LENGTH.unpack(length)))


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"connection closed after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)
