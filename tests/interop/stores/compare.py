"""Whether a store has what Java's clients saw in it and what was written to it here."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from interop.stores.java_view import JavaView, Message
from interop.stores.ours import Written
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.property_names import KEYS, UNIQ_KEY
from roketto.protocol.record import Record, decode_records
from roketto.store.store import Store

_EVER: Final = (0, 1 << 60)
_QUERY_MAX: Final = 64
_NEAR_MS: Final = 10_000


def read_queue(store: Store, topic: str, queue_id: int) -> list[Record]:
    """Every message of a queue, as a consumer reads it."""
    queue = store.queue(topic, queue_id)
    if queue is None:
        return []
    found: list[Record] = []
    offset = queue.queue_offset_min
    while (result := store.get(topic, queue_id, offset, 32)).count:
        found += [record for view in result.views for record in decode_records(view, strict=True)]
        offset = result.next_offset
    assert len(found) == queue.queue_offset_max - queue.queue_offset_min, (topic, queue_id)
    return found


def read_all(store: Store) -> list[Record]:
    return [
        record
        for topic, queue_ids in store.topics()
        for queue_id in queue_ids
        for record in read_queue(store, topic, queue_id)
    ]


def check_view(store: Store, view: JavaView) -> int:
    """Every queue and every message that Java's client saw is here; how many messages that were.

    The store may have more than was there when the client looked.
    """
    for (topic, queue_id), (first, following) in view.queues.items():
        queue = store.queue(topic, queue_id)
        assert queue is not None or not following, f"{topic} {queue_id}"
        if queue is None:
            continue
        assert queue.queue_offset_min == first, f"{topic} {queue_id}"
        assert queue.queue_offset_max >= following, f"{topic} {queue_id}"
        # The broker may add to its own topics between the look at the end and the last pull.
        seen = [one for one in view.messages[topic, queue_id] if one.queue_offset < following]
        here = read_queue(store, topic, queue_id)[: following - first]
        if (topic, queue_id) not in view.refused:
            assert len(here) == len(seen), f"{topic} {queue_id}"
            for record, message in zip(here, seen, strict=True):
                assert as_seen(record) == message, f"{as_seen(record)} is not {message}"
        for record in here:
            unit = queue.unit(record.queue_offset)
            assert unit is not None
            assert (unit.log_offset, unit.size) == (record.log_offset, record.size)
    for sent in view.sent:
        queue = store.queue(sent.topic, sent.queue_id)
        unit = None if queue is None else queue.unit(sent.queue_offset)
        place = decode_offset_id(sent.message_id)
        assert unit is not None, f"{sent} is not in its queue"
        assert unit.log_offset == place.log_offset, f"{sent} at {place} is {unit} of its queue"
        record = store.record_by_id(sent.message_id)
        assert (record.topic, record.queue_id, record.queue_offset) == sent[:3]
        assert record.get_property(UNIQ_KEY) == sent.unique_key
    return len(view.all_messages())


def as_seen(record: Record) -> Message:
    """A record as Java's client shows it."""
    record.decompress()
    return Message(
        record.topic, record.queue_id, record.queue_offset, record.log_offset, record.size,
        record.store_time_ms, record.born_time_ms, record.sys_flag, record.flag,
        record.reconsume_times, record.prepared_log_offset, record.body_crc,
        body_digest(record.body), dict(record.properties),
    )  # fmt: skip


def body_digest(body: bytes | memoryview) -> str:
    """As Java prints it: without leading zeros."""
    return f"{int.from_bytes(hashlib.sha256(body).digest()):x}"


def check_keys(store: Store, records: Iterable[Record]) -> int:
    """Every message is found by its unique key and by each of its keys; how many keys that were."""
    checked = 0
    for record in records:
        keys = (record.get_property(KEYS) or "").split(" ")
        for key in filter(None, [record.get_property(UNIQ_KEY), *keys]):
            assert record.log_offset in _find(store, record, key), f"{record} by {key}"
            checked += 1
    return checked


def _find(store: Store, record: Record, key: str) -> list[int]:
    """What is found by a key of a record, or of it what is of the record's time if it is too much.

    Java writes a half message anew each time it asks about it, and so it does while a test is slow.
    """
    found = store.query(record.topic, key, _QUERY_MAX, *_EVER)
    if len(found) < _QUERY_MAX:
        return found
    time_ms = record.store_time_ms
    return store.query(record.topic, key, _QUERY_MAX, time_ms - _NEAR_MS, time_ms + _NEAR_MS)


def check_written(store: Store, written: Iterable[Written]) -> int:
    """What was written here is where it was; how many messages that were."""
    checked = 0
    for one in written:
        record = store.record_by_id(one.message_id)
        assert (record.topic, record.queue_id, record.queue_offset, record.log_offset) == (
            one.topic, one.queue_id, one.queue_offset, one.log_offset,
        )  # fmt: skip
        assert bytes(record.body).decode() == one.body
        assert record.properties.items() >= one.properties.items()
        queue = store.queue(one.topic, one.queue_id)
        unit = queue.unit(one.queue_offset) if queue is not None else None
        assert unit is not None
        assert (unit.log_offset, unit.size) == (record.log_offset, record.size)
        checked += 1
    return checked


# --- files --------------------------------------------------------------------------------------


def queue_files(root: Path) -> dict[str, bytes]:
    """The bytes of all queues that have files, by topic and queue: their files joined."""
    found: dict[str, bytes] = {}
    for directory in sorted((root / "consumequeue").glob("*/*")):
        name = os.fspath(directory.relative_to(root / "consumequeue"))
        data = b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
        if data.strip(b"\0"):
            found[name] = data
    return found


def units_end(data: bytes) -> int:
    """Where the units of a queue end and the zeros begin; the last one may end in zeros."""
    end = len(data.rstrip(b"\0"))
    return -(-end // 20) * 20
