"""What a record says of where it can be found: its queue, its tag's code and its keys."""

from typing import Final, NamedTuple

from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.property_names import DELAY, KEYS, TAGS, UNIQ_KEY
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    INNER_BATCH,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TYPE,
)
from roketto.protocol.tags import tag_code
from roketto.protocol.utf8 import decode_utf8

EXT_ADDRESS_MAX: Final = -0x8000_0001
"""Tags codes are 32-bit numbers; what is below them is a place in ``consumequeue_ext``."""

_KEY_SEPARATOR: Final = " "
_TAG_KEY_PREFIX: Final = "T#"

_ITEM_END: Final = b"\x02"
_NAME_END: Final = b"\x01"
_DELAY, _KEYS, _TAGS, _UNIQ_KEY = (name.encode() for name in (DELAY, KEYS, TAGS, UNIQ_KEY))
_WANTED: Final = frozenset({_DELAY, _KEYS, _TAGS, _UNIQ_KEY})


class Expected(NamedTuple):
    """The unit and the entries that a record must have."""

    takes_place: bool
    """Whether it has a unit in its queue; half messages and rollbacks have none."""
    tags_code: int | None
    """None if any will do: when a delayed message is due depends on the broker's levels."""
    keys: list[str]
    """What the index has it under, its unique key first."""
    tag_key: str | None
    """What Java 5.5 files it under as well: others, and ours, do not."""


def expect(record: Record) -> Expected:
    """Return what dispatching ``record`` must have left behind."""
    kind = record.sys_flag & TRANSACTION_TYPE
    values = _read(record.properties_raw)
    is_delayed = record.topic == SCHEDULE_TOPIC and _DELAY in values
    tag = _text(values, _TAGS)
    return Expected(
        kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK),
        None if is_delayed else tag_code(tag),
        [] if kind == TRANSACTION_ROLLBACK else _keys(values),
        f"{_TAG_KEY_PREFIX}{tag}" if tag and kind != TRANSACTION_ROLLBACK else None,
    )


def keys_of(record: Record) -> list[str]:
    """The unique key and the keys of a message."""
    return _keys(_read(record.properties_raw))


def _read(raw: bytes) -> dict[bytes, bytes]:
    """The few properties that count, in one pass; asked for one by one they take twice as long."""
    values: dict[bytes, bytes] = {}
    for item in raw.split(_ITEM_END):
        name, _, value = item.partition(_NAME_END)
        if value and name in _WANTED:
            values[name] = value
    return values


def _text(values: dict[bytes, bytes], name: bytes) -> str:
    value = values.get(name)
    return "" if value is None else decode_utf8(value)


def _keys(values: dict[bytes, bytes]) -> list[str]:
    keys = [key for key in _text(values, _KEYS).split(_KEY_SEPARATOR) if key]
    unique_key = _text(values, _UNIQ_KEY)
    return [unique_key, *keys] if unique_key else keys


def is_inner_batch(record: Record) -> bool:
    """Whether the record is a whole batch, which queues of another kind lead to."""
    return bool(record.sys_flag & INNER_BATCH)
