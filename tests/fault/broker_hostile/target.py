"""A broker that is attacked: what it may touch, what it says, and how its messages are."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fault.broker.site import LARGE
from fault.broker_hostile.watched import STALLED, no_bug
from interop.peer.ports import lease_ports
from interop.peer.servers import BROKER_PORTS
from roketto.store.files import Files
from roketto.store.group_table import GroupTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.topic_table import TopicTable
from roketto.storetool.cli import main as store_tool
from servers import ServerProcess, broker_settings, spawn

_STOP_S: Final = 15.0
_STORE: Final = Path("deep", "down", "store")
"""So far down that a path of some ``..`` from there is still in the folder of the test."""
_RUN: Final = "run"
"""Where its configuration and its log are."""
_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_OUTWARD: Final = ("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn",
                   "subprocess.Popen", "socket.connect", "socket.getaddrinfo", "urllib.Request",
                   "ctypes.dlopen", "os.chdir")  # fmt: skip

_OF_TWO_PATHS: Final = ("os.rename", "os.link", "os.symlink", "shutil.move")


class Target:
    """A running broker, and all that it has done since it was ready."""

    def __init__(self, folder: Path, server: ServerProcess, notes: Path) -> None:
        self.folder = folder
        self.server = server
        self.root = folder / _STORE
        self.config_file = folder / _RUN / f"broker-{server.port}.conf"
        """What may change at run time is written back to it."""
        self._notes = notes
        self._noted_before = notes.stat().st_size
        self._tree_before = self._tree()
        assert self._noted_before, "it has opened its store, and nothing was noted"

    @contextmanager
    def stalled_disk(self) -> Iterator[None]:
        """Let no sync end while the block runs; of a broker with ``stall_the_disk`` only."""
        flag = self.config_file.with_name(STALLED)
        flag.touch()
        try:
            yield
        finally:
            flag.unlink()

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def log(self) -> str:
        return self.server.log.read_text()

    def check_alive(self) -> None:
        """It runs, and has met nothing that it did not expect."""
        assert self.server.is_alive(), self.log[-3_000:]
        at = self.log.find("Traceback")
        assert at < 0, self.log[at:][:3_000]

    def check_untouched(self) -> None:
        """Nothing but its store and its own file was opened, made or removed, nothing started."""
        with self._notes.open() as file:
            file.seek(self._noted_before)
            events = [json.loads(line) for line in file]
        for event, *arguments in events:
            assert event not in _OUTWARD, (event, arguments)
            if event == "open" or event.startswith(("os.", "shutil.")):
                paths = arguments[: 2 if event in _OF_TWO_PATHS else 1]
                if not paths[0].isdecimal():  # a descriptor: its opening was noted, too
                    assert all(self._may_touch(Path(path)) for path in paths), (event, arguments)
        assert self._tree() == self._tree_before

    def _may_touch(self, path: Path) -> bool:
        if ".." in path.parts:
            return False
        own = self.config_file
        is_own = path.parent == own.parent and path.name.startswith(own.name)
        return is_own or path == own.parent or path == self.root or self.root in path.parents

    def _tree(self) -> dict[str, int]:
        """What lies beside the store, with the sizes of files that no server writes to."""
        return {
            str(path.relative_to(self.folder)): path.stat().st_size if path.is_file() else -1
            for path in sorted(self.folder.rglob("*"))
            if self.root not in path.parents
            and path not in (self.server.log, self._notes)
            and not (path.parent.name == _RUN and path.name.startswith(self.config_file.name))
        }


@contextmanager
def target(
    folder: Path,
    config: Mapping[str, str] | None = None,
    *,
    bug: Callable[[], None] = no_bug,
) -> Iterator[Target]:
    """Run a broker under watch.

    At the end it must be alive and stop as it should, its store sound, and all else untouched.
    """
    run = folder / _RUN
    run.mkdir()
    ports = lease_ports(BROKER_PORTS)
    root = {"storePathRootDir": str(folder / _STORE)}
    settings = broker_settings(run, ports.first, {**LARGE, **root, **(config or {})})
    notes = run / "notes"
    program = ("fault.broker_hostile.watched", str(notes), bug.__name__)
    starting = spawn(run, "broker", [], settings, program)
    try:
        found = Target(folder, starting.wait(), notes)
        yield found
        found.check_alive()
        starting.popen.terminate()
        assert starting.popen.wait(_STOP_S) == 0, found.log[-3_000:]
        if bug is no_bug:
            found.check_untouched()
            check_store_sound(found.root)
    finally:
        if starting.popen.poll() is None:
            starting.popen.kill()
            starting.popen.wait()
        starting.close()
        ports.release()


def check_store_sound(root: Path) -> None:
    """What is in a store that has been stopped: no damage, and nothing but legal names."""
    assert store_tool(["check", str(root)]) == 0, "there is damage"
    names = (*queues_kept(root), *names_kept(root))
    illegal = [name for name in names if not _LEGAL.fullmatch(name)]
    assert not illegal, illegal[:5]


def queues_kept(root: Path) -> list[str]:
    """The topics that have messages in a store, by the names of their directories."""
    queues = root / "consumequeue"
    return sorted(path.name for path in queues.iterdir()) if queues.exists() else []


def names_kept(root: Path) -> list[str]:
    """The names of topics and groups in the tables of a store."""
    files, config = Files(), root / "config"
    topics, groups = TopicTable(files, config), GroupTable(files, config)
    offsets = ConsumeOffsetTable(files, config)
    for table in (topics, groups, offsets):
        assert table.load() is None
    return [*topics.topics, *groups.groups, *(name for pair in offsets.pairs() for name in pair)]
