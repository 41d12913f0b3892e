"""A connection without a socket: handlers and long polls answer into lists."""

from collections.abc import Callable
from typing import cast

from roketto.protocol.command import Command
from roketto.protocol.hosts import NO_HOST, encode_host
from roketto.remoting.connection import Connection


class FakeConnection:
    """What a handler uses of a connection."""

    def __init__(self, peer: str = "10.0.0.9:50000") -> None:
        self.peer = peer
        host, _, port = peer.rpartition(":")
        self.peer_host = encode_host(host.strip("[]"), int(port)) if port.isdigit() else NO_HOST
        self.closed = False
        self.is_write_stalled = False
        self.waited_s = 0.0
        self.waiting = 0
        self.replies: list[tuple[Command, Command]] = []
        self.written = b""
        """What was put for the wire, in pieces or not."""
        self.close_callbacks: list[Callable[[Connection], None]] = []

    @property
    def as_connection(self) -> Connection:
        """Itself, as whoever takes a connection wants it."""
        return cast("Connection", self)

    def add_close_callback(self, callback: Callable[[Connection], None]) -> None:
        self.close_callbacks.append(callback)

    def put(self, head: bytes | memoryview, body: bytes | memoryview = b"") -> None:
        self.written += bytes(head) + bytes(body)

    def take_written(self) -> bytes:
        """What was put since it was last asked for."""
        written, self.written = self.written, b""
        return written

    def proceed(self) -> None:
        """What was put is on its way."""

    def reply(self, request: Command, answer: Command) -> None:
        if not self.closed:
            self.replies.append((request, answer))

    def end(self) -> None:
        """The peer goes."""
        self.closed = True
        callbacks, self.close_callbacks = self.close_callbacks, []
        for callback in callbacks:
            callback(self.as_connection)
