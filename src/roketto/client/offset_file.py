"""The file in which a consumer that gets everything keeps its offsets, in the format of Java's.

::

    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:12}}

What was there before is kept beside it as ``.bak``, and is read where the file itself is damaged.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from threading import get_ident
from typing import Final

from roketto.client.errors import ClientError
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.offsets import ResetOffsetBody
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.errors import BodyError

__all__ = ["OffsetFileError", "backup_of", "read_offsets", "write_offsets"]

log = logging.getLogger(__name__)

_BYTES_MAX: Final = 64 * 1024 * 1024
"""Some 500,000 queues: anything larger is something else."""


class OffsetFileError(ClientError):
    """A file of offsets that cannot be read or written."""


def backup_of(path: Path) -> Path:
    """Where the previous content is."""
    return path.with_name(path.name + ".bak")


def read_offsets(path: Path) -> dict[MessageQueue, int]:
    """The offsets of a file, or of the one before it; none if there was never one.

    OffsetFileError if it is damaged and there is no good one before it: to begin anywhere would
    lose messages or repeat them, which is not ours to choose.
    """
    content = _read(path)
    backup = backup_of(path)
    damage: BodyError | None = None
    if content:
        try:
            return _parse(content)
        except BodyError as error:
            damage = error
            log.warning("offsets in %s are damaged (%s); %s counts", path, error.reason, backup)
    previous = _read(backup)
    if not previous and damage is None:
        return {}
    try:
        return _parse(previous or b"")
    except BodyError as error:
        first = f"{path}: {damage.reason}; " if damage else ""
        raise OffsetFileError(
            f"offsets are damaged ({first}{backup}: {error.reason}): put a good copy there, or"
            " delete both files to begin where a new consumer does"
        ) from error


def write_offsets(path: Path, offsets: Mapping[MessageQueue, int]) -> None:
    """Replace the file, so that a crash leaves the old content or the new one, whole."""
    content = encode_body(ResetOffsetBody(offset_table=dict(offsets)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (previous := _good(path)) is not None:
            _replace(backup_of(path), previous)
        _replace(path, content)
    except OSError as error:
        raise OffsetFileError(f"offsets cannot be written to {path}: {error}") from error


def _good(path: Path) -> bytes | None:
    """The content of a file if it is sound: nothing else may replace a backup."""
    content = _read(path)
    try:
        _parse(content)
    except BodyError:
        return None
    return content


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise OffsetFileError(f"offsets cannot be read from {path}: {error}") from error


def _parse(content: bytes) -> dict[MessageQueue, int]:
    if len(content) > _BYTES_MAX:
        raise BodyError(f"it has more than {_BYTES_MAX} bytes")
    found = decode_body(ResetOffsetBody, content).offset_table
    return {queue: offset for queue, offset in found.items() if offset >= 0}


def _replace(path: Path, content: bytes) -> None:
    # Whoever shares the id of this client shares its file, and must not write into this one.
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name is durable only with its directory
    finally:
        os.close(folder)
