"""Bytes leave by the socket while it takes them, then by the transport, and in their order."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from roketto.remoting.outlet import Outlet


class Transport(asyncio.Transport):
    """Keeps what it is given until it is told to write."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__()
        self.peer = peer
        self.kept = bytearray()
        self.gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.kept += data

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def is_closing(self) -> bool:
        return self.gone

    def drain(self, size: int) -> None:
        """Write some of it, as the loop would when the peer reads again."""
        self.peer.setblocking(True)
        self.peer.sendall(self.kept[:size])
        self.peer.setblocking(False)
        del self.kept[:size]


class Rig:
    """An outlet over a real pair of sockets, of which the other one reads when it is told to."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.transport = Transport(self.ours)
        self.outlet = Outlet(self.transport, self.ours)

    def read(self, size: int) -> bytes:
        self.theirs.settimeout(10)
        got = b""
        while len(got) < size:
            got += self.theirs.recv(size - len(got))
        return got


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.ours.close()
    rig.theirs.close()


def test_what_the_socket_takes_does_not_wait_for_the_loop(rig: Rig) -> None:
    """Nothing is left to the transport."""
    rig.outlet.write(b"one")
    rig.outlet.write_all([b"two", memoryview(b"three"), b"four"])
    assert rig.read(15) == b"onetwothreefour"
    assert not rig.transport.kept


@pytest.mark.parametrize("pieces", [1, 7])
def test_what_a_full_socket_leaves_goes_to_the_transport_in_order(rig: Rig, pieces: int) -> None:
    """Also what comes later, until the transport has nothing left; then the socket serves again."""
    size = 4 << 20
    data = bytes(range(256)) * (size // 256)
    if pieces == 1:
        rig.outlet.write(data)
    else:
        step = size // pieces + 1
        rig.outlet.write_all([data[at : at + step] for at in range(0, size, step)])
    assert 0 < len(rig.transport.kept) < size, "the socket took some of it"
    got = rig.read(size - len(rig.transport.kept))
    rig.outlet.write(b"behind")
    rig.outlet.write_all([b"it", b"all"])
    assert rig.transport.kept.endswith(b"behinditall"), (
        "the socket has room, but it is not its turn"
    )
    while rig.transport.kept:
        part = min(len(rig.transport.kept), 1 << 16)
        rig.transport.drain(part)
        got += rig.read(part)
    assert got == data + b"behinditall"
    rig.outlet.write(b"again")
    assert rig.read(5) == b"again"
    assert not rig.transport.kept


def test_a_full_socket_takes_nothing_of_several_pieces(rig: Rig) -> None:
    """Not a byte: all of them are the transport's."""
    with suppress(BlockingIOError):
        while rig.ours.send(bytes(1 << 16)):
            pass
    rig.outlet.write_all([b"a", b"b"])
    assert rig.transport.kept == b"ab"


def test_a_broken_socket_is_left_to_the_transport(rig: Rig) -> None:
    """Which tells the connection; what is written afterwards has nowhere to go."""
    rig.theirs.close()
    rig.outlet.write(b"one")
    rig.transport.gone = True
    rig.outlet.write(b"two")
    rig.outlet.write_all([b"three", b"four"])
    assert bytes(rig.transport.kept).endswith(b"twothreefour")


def test_without_a_socket_the_transport_does_all(rig: Rig) -> None:
    """As with TLS, where the socket has other bytes."""
    outlet = Outlet(rig.transport)
    outlet.write(b"one")
    outlet.write_all([b"two", b"three"])
    assert rig.transport.kept == b"onetwothree"


def test_very_many_pieces_are_left_to_the_transport(rig: Rig) -> None:
    """A system takes a bounded number of them with one call."""
    rig.outlet.write_all([b"x"] * 2_000)
    assert rig.transport.kept == b"x" * 2_000
