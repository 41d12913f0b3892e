"""What a Spark test leaves behind: as for all tests, but for the sockets between us and the JVM.

Every thread of the JVM that calls a Python function (foreachBatch, listeners) opens a connection of
its own to this process, and closes it some time after the thread has ended.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext

__all__ = ["no_leaks_but_the_jvms"]

_SOCKET = "socket:["


@contextmanager
def no_leaks_but_the_jvms() -> Iterator[None]:
    """Fail if what is done within leaves threads or sockets."""
    threads = set(threading.enumerate())
    before = _sockets_of("self")
    yield
    left = _sockets_of("self") - before
    if left:
        left -= _sockets_to_jvm()
    assert not left, f"sockets left open: {left}"
    started = [
        thread.name
        for thread in threading.enumerate()
        if thread not in threads and not thread.daemon
    ]
    assert not started, f"threads left running: {started}"


def _sockets_of(process: str) -> set[str]:
    """Inodes of the sockets that a process has."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith(_SOCKET):
            found.add(target.removeprefix(_SOCKET).rstrip("]"))
    return found


def _sockets_to_jvm() -> set[str]:
    """Inodes of sockets whose other end is the JVM of the session, or nobody any more."""
    gateway = SparkContext._gateway
    if gateway is None:
        return set()
    jvms = _sockets_of(str(gateway.proc.pid))
    ends = list(_connections())
    inode_at = {(local, remote): inode for local, remote, inode in ends}
    found = set()
    for local, remote, inode in ends:
        other = inode_at.get((remote, local), "0")
        if other in jvms or other == "0":
            found.add(inode)
    return found


def _connections() -> Iterator[tuple[str, str, str]]:
    """Ports at both ends of connections on this machine, and the inode of the first."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            yield fields[1].rpartition(":")[2], fields[2].rpartition(":")[2], fields[9]
