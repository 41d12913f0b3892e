"""The directory of a store: what is in it, in which state it was left, and who has it open."""

import errno
import fcntl
import os
import struct
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import Node, parse
from roketto.store.checkpoint import Checkpoint, load_checkpoint
from roketto.store.errors import StoreError
from roketto.store.files import Files
from roketto.storetool.index_files import IndexTable
from roketto.storetool.log import Log
from roketto.storetool.queue_files import QueueTable

_FLOCK_DARWIN: Final = "qqihh"
_FLOCK_LINUX: Final = "hhqqi"


class NotAStoreError(StoreError):
    """The directory is not one of a store."""


class State(Enum):
    """How a store was left."""

    CLEAN = "clean"
    """Its broker has stopped in order: all of it must be sound."""
    CRASHED = "crashed"
    """The abort mark is there and no broker: the next start repairs what can be repaired."""
    OPEN = "open"
    """A broker has it open: it changes while it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user knows better than the files tell it."""

    commitlog: Path | None = None
    """storePathCommitLog, if it is not below the store's directory."""
    queue_file_bytes: int | None = None
    """mappedFileSizeConsumeQueue"""
    index_slots: int | None = None
    """maxHashSlotNum"""
    index_entries: int | None = None
    """maxIndexNum"""


class StoreDirectory:
    """The parts of one store. It is looked at and never changed; close it in the end.

    Not for the process that has the store open itself, unless it says so: the system drops a lock
    as soon as its holder closes the file a second time.
    """

    def __init__(
        self, root: Path, files: Files, now_ms: int, options: Options, *, has_lock: bool = False
    ) -> None:
        """``has_lock`` says that this process holds the lock, and nobody need be asked for it."""
        self.root = root
        self.files = files
        log_directory = options.commitlog or root / "commitlog"
        if not log_directory.is_dir():
            raise NotAStoreError(_reason(root, log_directory))
        self.state = self._state(has_lock)
        self.log = Log(files, log_directory)
        self.queues = QueueTable(files, root / "consumequeue", options.queue_file_bytes)
        self.index = IndexTable(files, root / "index", options.index_slots, options.index_entries)
        self.checkpoint_path = root / "checkpoint"
        self.checkpoint: Checkpoint = load_checkpoint(files, self.checkpoint_path, now_ms)

    @property
    def abort_path(self) -> Path:
        return self.root / "abort"

    def _state(self, has_lock: bool) -> State:
        if not has_lock and is_locked(self.root / "lock"):
            return State.OPEN
        return State.CRASHED if self.files.size(self.abort_path) is not None else State.CLEAN

    def excuse(self, log_offset: int, trusted_until: int, *, is_tail: bool) -> str:
        """Why it is no damage that queues or index lack or have too much of a message; or "".

        While a broker runs they may be behind the log, at their ends. After it has crashed, they
        need not be right from ``trusted_until`` in the log on.
        """
        if self.state is State.OPEN and is_tail:
            return "still being written"
        if self.state is State.CRASHED and log_offset >= trusted_until:
            return "the next start puts it right"
        return ""

    def config_paths(self) -> list[Path]:
        """The JSON tables and their backups."""
        config = self.root / "config"
        names = self.files.names(config)
        return [config / name for name in names if name.endswith((".json", ".json.bak"))]

    def known_topics(self) -> frozenset[str] | None:
        """The topics of ``config/topics.json``, None if that does not tell."""
        text = self.files.read(self.root / "config" / "topics.json")
        try:
            node: Node = parse(text) if text else None
        except BodyError:
            return None
        table = node.get("topicConfigTable") if isinstance(node, dict) else None
        if not isinstance(table, dict):
            return None
        return frozenset(name for name in table if isinstance(name, str))

    def close(self) -> None:
        self.log.close()
        self.queues.close()
        self.files.close()


def _reason(root: Path, log_directory: Path) -> str:
    if not root.exists():
        return f"{root} does not exist; give the directory of a store (storePathRootDir)"
    if not root.is_dir():
        return f"{root} is a file; give the directory of a store (storePathRootDir)"
    return (
        f"{root} is no store: there is no directory {log_directory}; give the storePathRootDir of"
        " a broker, and --commitlog if its log lies elsewhere"
    )


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a store; asks, and takes nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise
    is_darwin = sys.platform == "darwin"
    try:
        if is_darwin:
            asked = struct.pack(_FLOCK_DARWIN, 0, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
            answer = struct.unpack(_FLOCK_DARWIN, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[3]
        else:
            asked = struct.pack(_FLOCK_LINUX, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            answer = struct.unpack(_FLOCK_LINUX, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
    finally:
        os.close(descriptor)
    return bool(answer != fcntl.F_UNLCK)
