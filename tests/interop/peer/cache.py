"""Directories outside the repository that are filled once and shared by every process.

A directory appears under its final name only when it is whole: it is filled under a temporary
name beside it, marked, and renamed. A lock file keeps two test workers from filling it twice.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .errors import PeerUnavailableError

MARKER: Final = ".complete"

LOCK_WAIT_S: Final = 1800.0
"""Longer than the slowest fetch seen (under 4 minutes with Ivy) by enough for a thin line."""


def cache_root() -> Path:
    """Where the peer is kept: $ROKETTO_PEER_CACHE, or ~/.cache/roketto/peer."""
    configured = os.environ.get("ROKETTO_PEER_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "roketto" / "peer"


def cached_directory(name: str, fill: Callable[[Path], None]) -> Path:
    """Give the directory `name` of the cache, calling `fill` with an empty one when it lacks."""
    target = cache_root() / name
    if is_cached(name):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".{target.name}.lock")):
        if not (target / MARKER).exists():
            _fill(target, fill)
    return target


def is_cached(name: str) -> bool:
    """Whether the cache has that directory, and the whole of it."""
    return (cache_root() / name / MARKER).exists()


def _fill(target: Path, fill: Callable[[Path], None]) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        staging.chmod(0o755)  # mkdtemp's 0700 would hide a cache that several users share
        fill(staging)
        (staging / MARKER).touch()
        if target.exists():  # left by an interrupted or older filling: it has no marker
            shutil.rmtree(target)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel drops it when the holder dies."""
    deadline = time.monotonic() + LOCK_WAIT_S
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PeerUnavailableError(
                        f"{path} has been locked for {LOCK_WAIT_S:.0f} s by another process that "
                        f"fills this cache; end that process and try again"
                    ) from None
                time.sleep(0.1)
        yield
