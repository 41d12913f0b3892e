"""The address of this machine that a broker advertises when it is told none, as Java finds it."""

import fcntl
import socket
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["local_address", "pick_address"]

_SIOCGIFADDR: Final = 0x8915
_SIOCGIFFLAGS: Final = 0x8913
_UP: Final = 0x1
_LOOPBACK: Final = 0x8
_POINT_TO_POINT: Final = 0x10
_LOOPBACK_ADDRESS: Final = "127.0.0.1"
_NETWORKS: Final = Path("/sys/class/net")


@cache
def local_address() -> str:
    """An IPv4 address of an interface that is up, not a bridge and not a tunnel; else loopback."""
    return pick_address(list(_addresses()))


def pick_address(addresses: list[str]) -> str:
    """Java's choice: the first that is not of a home network, or else the last."""
    for address in addresses:
        if not address.startswith(("127.0", "192.168", "0.")):
            return address
    return addresses[-1] if addresses else _LOOPBACK_ADDRESS


def _addresses() -> Iterator[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                flags = struct.unpack_from("H", _ask(asked, _SIOCGIFFLAGS, name), 16)[0]
                address = socket.inet_ntoa(_ask(asked, _SIOCGIFADDR, name)[20:24])
            except OSError:  # it has no IPv4 address, or this is not Linux
                continue
            is_usable = flags & _UP and not flags & (_LOOPBACK | _POINT_TO_POINT)
            if is_usable and not (_NETWORKS / name / "bridge").exists():
                yield address


def _ask(asked: socket.socket, request: int, name: str) -> bytes:
    return fcntl.ioctl(asked, request, struct.pack("256s", name.encode()[:15]))
