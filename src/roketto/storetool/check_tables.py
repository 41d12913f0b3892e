"""Check the small files of a store: the checkpoint and the JSON tables."""

from pathlib import Path
from typing import Final

from roketto.protocol.errors import BodyError
from roketto.protocol.fastjson import parse
from roketto.store.checkpoint import CHECKPOINT_BYTES
from roketto.store.files import BACKUP_SUFFIX
from roketto.storetool.directory import State, StoreDirectory
from roketto.storetool.findings import Findings

_LONG_BYTES: Final = 8
_TIMES: Final = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")
_OFFSETS: Final = ("masterFlushedOffset", "confirmPhyOffset", "logicsPhysicalOffset")
_CLOCK_STEP_MAX_MS: Final = 24 * 3600 * 1000


def check_tables(store: StoreDirectory, findings: Findings) -> int:
    """Parse each JSON table and its backup; how many were read."""
    read = 0
    for path in store.config_paths():
        text = store.files.read(path)
        if text is None:
            continue  # replaced meanwhile
        try:
            parse(text)
        except BodyError as error:
            findings.damage("table", path, 0, f"{error}; {_remedy(store, path)}")
        else:
            read += 1
    return read


def _remedy(store: StoreDirectory, path: Path) -> str:
    if path.name.endswith(BACKUP_SUFFIX):
        return "the next save replaces this backup"
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    if store.files.size(backup) is None:
        return "there is no backup of it"
    return f"a broker reads {backup.name} instead"


def check_checkpoint(
    store: StoreDirectory, findings: Findings, now_ms: int, last_time_ms: int
) -> None:
    """The checkpoint says nothing that cannot be; the newest message was stored at a time."""
    path = store.checkpoint_path
    text = store.files.read(path)
    if text is None:
        if store.log.segments:
            findings.note("checkpoint", path, 0, "there is none; a start after a crash reads all")
        return
    if len(text) != CHECKPOINT_BYTES:
        findings.damage(
            "checkpoint", path, len(text), f"{len(text)} bytes, it must have {CHECKPOINT_BYTES}"
        )
    latest_ms = now_ms + _CLOCK_STEP_MAX_MS
    for number, name in enumerate(_TIMES + _OFFSETS):
        at = number * _LONG_BYTES
        value = int.from_bytes(text[at : at + _LONG_BYTES], signed=True)
        if value < 0 or (name in _TIMES and value > latest_ms):
            findings.damage("checkpoint", path, at, f"{name} is {value}, which cannot be")
    known_ms = store.checkpoint.physic_timestamp
    if known_ms > last_time_ms and store.state is not State.OPEN:
        findings.damage(
            "checkpoint", path, 0,
            f"physicMsgTimestamp knows of messages stored at {known_ms}, the newest in the log was"
            f" stored at {last_time_ms}: the end of the log is lost",
        )  # fmt: skip
