"""The way out of a connection: into the socket at once, and through the transport what is left.

A transport writes what it was given at the end of a turn of the event loop, when all sockets that
had something to read were read. Until then the first peer waits for the answer to the last one's
request. Here an answer leaves as soon as its read is done with, while the loop goes on with others,
and the transport has work only for a peer that does not keep up.
"""

import asyncio
import socket
from typing import Final

from roketto.protocol.command import Body

_PIECES_MAX: Final = 512
"""What goes to the socket with one call; systems take 1,024 and more."""


class Outlet:
    """Writes for one connection; without a socket of its own, as with TLS, the transport does all.

    As long as the transport has something that it could not write, all that follows goes to it,
    so that bytes never overtake each other, and it alone says when the peer is too slow. So it does
    with a socket that is broken.
    """

    __slots__ = ("_is_behind", "_socket", "_transport")

    def __init__(self, transport: asyncio.Transport, plain: socket.socket | None = None) -> None:
        self._transport: asyncio.Transport = transport
        self._socket: socket.socket | None = plain
        self._is_behind: bool = False

    def write(self, data: Body) -> None:
        """Write one piece."""
        sent = 0
        if self._socket is not None and self._may_pass():
            try:
                sent = self._socket.send(data)
            except OSError:  # full, or broken: the transport will find out
                sent = 0
            if sent == len(data):
                return
            self._is_behind = True
        self._transport.write(data[sent:] if sent else data)

    def write_all(self, pieces: list[Body]) -> None:
        """Write several, one behind the other."""
        left = pieces
        if self._socket is not None and len(pieces) <= _PIECES_MAX and self._may_pass():
            try:
                sent = self._socket.sendmsg(pieces)
            except OSError:
                sent = 0
            left = _behind(pieces, sent)
            if not left:
                return
            self._is_behind = True
        self._transport.writelines(left)

    def _may_pass(self) -> bool:
        """Whether nothing waits in the transport."""
        if self._is_behind and not self._transport.is_closing():
            self._is_behind = self._transport.get_write_buffer_size() > 0
        return not self._is_behind


def _behind(pieces: list[Body], sent: int) -> list[Body]:
    """What is left of these pieces when so many bytes of them are gone."""
    for number, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[number + 1 :]]
        sent -= len(piece)
    return []
