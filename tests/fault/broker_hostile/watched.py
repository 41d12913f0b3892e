"""Our broker under watch: whatever it opens, makes, removes, starts or connects to is noted.

    python -m fault.broker_hostile.watched NOTES BUG broker -c broker.conf

BUG is one that is planted, so that a watch can be seen to work or a disk to hang, or ``no_bug``.
Whatever follows is what ``roketto`` takes. The interpreter itself reports these events, so that
nothing that is done in Python passes by.
"""

import asyncio
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from roketto.__main__ import main
from roketto.options import Config, Value, fields_of, parse_value
from roketto.protocol import names
from roketto.protocol.errors import ProtocolError

STALLED: Final = "stalled"
TURNS: Final = "turns"
UNPACKED: Final = "unpacked"

EVENTS: Final = frozenset(
    {
        "open", "os.chdir", "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.link",
        "os.listdir", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir",
        "os.scandir", "os.spawn", "os.symlink", "os.system", "os.truncate", "pty.spawn",
        "shutil.move", "shutil.rmtree", "socket.connect", "socket.getaddrinfo", "subprocess.Popen",
        "urllib.Request", "ctypes.dlopen", "exec", "compile",
    }
)  # fmt: skip


def watch(path: str) -> None:
    """Append a line to ``path`` for each event from now on."""
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS:
            shown = [it.decode("latin-1") if isinstance(it, bytes) else str(it) for it in arguments]
            os.write(notes, json.dumps([event, *shown]).encode() + b"\n")

    sys.addaudithook(note)


def no_bug() -> None:
    """As it is."""


def put(owner: object, name: str, bug: object) -> None:
    setattr(owner, name, bug)


def trust_names() -> None:
    """Every name is a legal one, and a path."""

    def trust(name: str) -> str:
        return name

    for gate in ("check_topic", "check_group", "path_component"):
        put(names, gate, trust)


def trust_operators() -> None:
    """Every option may change at run time, as in Java before it knew some that may not."""

    def check_nothing(config: Config, properties: Mapping[str, str]) -> dict[str, Value]:
        known = fields_of(type(config))
        found = {key: known[key] for key in properties}
        return {line.name: parse_value(key, properties[key], line) for key, line in found.items()}

    put(Config, "check_update", check_nothing)


def stall_the_disk() -> None:
    """No bug: no sync of a file ends while a file of the name STALLED stands beside the notes."""
    from roketto.store.disk import Disk

    sync_mapped = Disk.sync_mapped
    stalled = Path(sys.argv[1]).with_name(STALLED)

    def sync_when_it_moves(disk: Disk, descriptor: int, view: memoryview) -> None:
        while stalled.exists():
            time.sleep(0.01)
        sync_mapped(disk, descriptor, view)

    put(Disk, "sync_mapped", sync_when_it_moves)


def note_unpacking() -> None:
    """No bug: whoever unpacks anything is refused, and named in the file UNPACKED."""
    import lz4.frame
    import zstandard

    notes = Path(sys.argv[1]).with_name(UNPACKED)

    def refuse(name: str, *_: object, **__: object) -> None:
        notes.write_text(name)
        raise RuntimeError(f"{name} is called")

    for module, unpackers in (
        (zlib, ("decompress", "decompressobj")),
        (lz4.frame, ("decompress", "LZ4FrameDecompressor", "LZ4FrameFile", "open")),
        (zstandard, ("decompress", "ZstdDecompressor", "open")),
    ):
        for name in unpackers:
            put(module, name, partial(refuse, f"{module.__name__}.{name}"))


def unpack_bodies() -> None:
    """Bodies are unpacked when they come, perhaps to look into them."""
    from roketto.protocol.compression import decompress
    from roketto.store.appender import Appender

    note_unpacking()
    append_fields = Appender.append_fields

    def append(appender: Appender, *fields: Any) -> tuple[int, int, int]:
        with suppress(RuntimeError, ProtocolError):
            decompress(fields[8], fields[4])
        return append_fields(appender, *fields)

    put(Appender, "append_fields", append)


def share_a_decoder() -> None:
    """What one peer has sent of a frame is completed by what another one sends."""
    from roketto.protocol.frame import FrameDecoder
    from roketto.protocol.limits import FRAME_BYTES_MAX
    from roketto.remoting import connection

    shared = FrameDecoder(FRAME_BYTES_MAX)
    put(connection, "FrameDecoder", lambda bytes_max: shared)


def count_turns() -> None:
    """No bug: the most work that filters did in one turn of the loop is in the file TURNS."""
    from roketto.broker.wanted import WantedBySql

    matches = WantedBySql.matches
    most = Path(sys.argv[1]).with_name(TURNS)
    done = 0

    def begin() -> None:
        nonlocal done
        if done > int(most.read_text() if most.exists() else 0):
            most.write_text(str(done))
        done = 0

    def match(wanted: WantedBySql, raw: bytes | memoryview) -> bool:
        nonlocal done
        if not done:
            asyncio.get_running_loop().call_soon(begin)  # before whatever is called soon by this
        done += wanted.work_of(raw)
        return matches(wanted, raw)

    put(WantedBySql, "matches", match)


def filter_without_end() -> None:
    """Whoever filters may go on and on."""
    from roketto.broker.filter_work import FilterWork

    count_turns()
    put(FilterWork, "spend", lambda work, units: None)


BUGS: Final[dict[str, Callable[[], None]]] = {
    bug.__name__: bug
    for bug in (
        no_bug, trust_names, trust_operators, stall_the_disk, note_unpacking, unpack_bodies,
        share_a_decoder, count_turns, filter_without_end,
    )
}  # fmt: skip


if __name__ == "__main__":
    BUGS[sys.argv[2]]()  # before the modules that import what it replaces
    watch(sys.argv[1])
    del sys.argv[1:3]
    sys.exit(main())
