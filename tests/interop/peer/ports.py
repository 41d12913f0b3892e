"""TCP ports that no other test process on this machine will take at the same time.

A port found by binding to 0 comes from the kernel's range for outgoing connections, so that
any connection may take it before the server does. These come from below that range, and each
is leased with a locked file until its server has stopped.
"""

import errno
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .errors import PeerFailedError

_FIRST: Final = 20_000
_LAST: Final = 32_000
_ATTEMPTS_MAX: Final = 500


class PortLease:
    """Ports that are ours until `release`. `first` is the one that the offsets count from."""

    def __init__(self, first: int, locks: list[int]) -> None:
        self.first = first
        self._locks = locks

    def release(self) -> None:
        while self._locks:
            os.close(self._locks.pop())


def lease_ports(offsets: Sequence[int] = (0,)) -> PortLease:
    """Lease `first + offset` for every offset, all of them free now."""
    for _ in range(_ATTEMPTS_MAX):
        first = random.randrange(_FIRST, _LAST)
        lease = PortLease(first, [])
        if all(_take(first + offset, lease) for offset in offsets):
            return lease
        lease.release()
    raise PeerFailedError(f"no free ports {tuple(offsets)} between {_FIRST} and {_LAST}")


def _take(port: int, lease: PortLease) -> bool:
    directory = Path(tempfile.gettempdir()) / f"roketto-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    lock = os.open(directory / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    lease._locks.append(lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _is_free(port)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return False
    return True
