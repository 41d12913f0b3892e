"""Requests to a RocketMQ server and their answers, one at a time, as raw frames."""

import json
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from .frames import FrameView, view_frame

_TIMEOUT_S: Final = 5.0
_HEAD: Final = struct.Struct(">II")  # length of all that follows; type 0 (JSON) and header length
_LENGTH: Final = struct.Struct(">I")


class Remote:
    """A connection to "host:port"; OSError says that there is no answer."""

    def __init__(self, address: str, timeout_s: float = _TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> FrameView:
        """Send one request and wait for its answer; what the server asks is passed over."""
        self._opaque += 1
        command: dict[str, object] = {
            "code": code, "flag": 0, "language": "JAVA", "opaque": self._opaque, "version": 407,
        }  # fmt: skip
        if fields:
            command["extFields"] = dict(fields)
        header = json.dumps(command).encode()
        head = _HEAD.pack(4 + len(header) + len(body), len(header))
        self._connection.sendall(head + header + body)
        while not (answer := self._read()).is_response:
            pass
        assert answer.opaque == self._opaque
        return answer

    def _read(self) -> FrameView:
        length = _receive(self._connection, _LENGTH.size)
        return view_frame(length + _receive(self._connection, *_LENGTH.unpack(length)))


def ask(address: str, code: int, body: bytes = b"") -> FrameView:
    """Send one request without fields over a connection of its own."""
    with Remote(address) as remote:
        return remote.ask(code, body=body)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"connection closed after {len(data)} of {size} bytes")
        data += piece
    return bytes(data)
