"""How long and how large the benchmark of the store is: the real one, and a first look."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from roketto.store.retention import RetentionSettings
from roketto.store.store import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The defaults are the real ones."""

    settings: StoreSettings = field(
        # With 40 % of 32 GiB no part of the backlog counts as being on the disk, so that a pull has
        # 32 messages everywhere; beyond, Java's limits let it have 8.
        default_factory=lambda: StoreSettings(
            memory_bytes=32 << 30, retention=RetentionSettings(is_forced_enabled=False)
        )
    )
    """Files of the sizes that a broker makes; none is removed when the disk gets full."""
    rounds: int = 5
    pairs: int = 15
    """Rounds of a second where two stores are compared: single ones differ by a fifth."""
    second_s: float = 1.0
    """How long a second of the store lasts."""
    round_s: float = 2.0
    read_s: float = 1.0
    messages: int = 100_000
    """Different ones, made beforehand."""
    step_messages: int = 4_096
    step_passes: int = 16
    """So often are they appended: a new index has 5,000 pages of slots, and with a few thousand
    messages the first touch of these would be most of what is measured."""
    step_rounds: int = 3
    queues: tuple[int, ...] = (10_000, 50_000)
    queues_s: float = 11.0
    queue_s: float = 0.0002
    """Longer than a store needs from one sync of its queues to the next, and so much more for each
    queue, so that one is in it."""
    backlog_bytes: int = 10 << 30
    checkpoints: int = 3
    """How many of them a process lives to see before it is killed."""
    checkpoint_wait_s: float = 90.0
    old_read_s: float = 3.0
    flush_s: float = 3.0
    rebuild_bytes: int = 64 << 20
    rebuild_rounds: int = 3


QUICK = Sizes(
    settings=StoreSettings(
        segment_bytes=1 << 22,
        queue_file_bytes=3_000 * 20,
        index_slots=50_000,
        index_entries=400_000,
    ),
    rounds=1,
    pairs=1,
    second_s=0.02,
    round_s=0.1,
    read_s=0.05,
    messages=2_000,
    step_messages=512,
    step_passes=2,
    step_rounds=1,
    queues=(16, 32),
    queues_s=0.25,
    queue_s=0.0,
    backlog_bytes=12 << 20,
    checkpoints=2,
    old_read_s=0.1,
    flush_s=0.1,
    rebuild_bytes=2 << 20,
    rebuild_rounds=1,
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for stores, gone afterwards. $TMPDIR says on which disk."""
    folder = Path(tempfile.mkdtemp(prefix="roketto-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def evict(folder: Path) -> bool:
    """Take the files below a folder out of the system's cache, as after a start of the machine.

    False where the system has no such call. Nobody may have them mapped.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return True


def missing_room(folder: Path, wanted_bytes: int) -> str:
    """Why there is no room for so much, empty if there is."""
    free = shutil.disk_usage(folder).free
    if free >= wanted_bytes:
        return ""
    return (
        f"it needs {wanted_bytes / 2**30:.1f} GiB in {folder}, {free / 2**30:.1f} are free: "
        "make room, or set TMPDIR to a folder on another disk"
    )


def modified_ns(path: Path) -> int:
    """When a file was last changed, 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def size_text(size: int) -> str:
    """A size as people say it."""
    return f"{size / 2**30:.0f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"


def file_system(folder: Path) -> str:
    """What kind of file system a folder is on; empty if the system does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except FileNotFoundError:
        return ""
    fitting = [mount for mount in mounts if folder.is_relative_to(mount[1])]
    return max(fitting, key=lambda mount: len(mount[1]))[2] if fitting else ""
