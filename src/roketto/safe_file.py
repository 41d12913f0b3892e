"""Replace a small file so that a crash leaves the old content or the new one, whole."""

import os
from pathlib import Path

_MODE_OF_NEW = 0o644


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def replace_file(path: Path, content: bytes, previous: bytes | None) -> None:
    """Write ``content``, keeping ``previous``, the last that was good, as the .bak beside it."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else _MODE_OF_NEW
    if previous is not None:
        _replace(backup_of(path), previous, mode)
    _replace(path, content, mode)


def _replace(path: Path, content: bytes, mode: int) -> None:
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the new name is durable only with its directory
    finally:
        os.close(directory)
