"""The store by itself: how many messages a second one core appends and reads through its API."""

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.store import Store, StoreSettings

BATCH = 32
QUEUES = 8
_HOST = encode_host("127.0.0.1", 10911)
_SETTINGS = StoreSettings(segment_bytes=1 << 28, index_slots=500_000, index_entries=4_000_000)


def properties(number: int) -> bytes:
    """What a producer's message carries: a unique key, a tag, a key and the WAIT mark."""
    return encode_properties(
        {
            "UNIQ_KEY": f"7F00000100{number:022X}",
            "WAIT": "true",
            "TAGS": "TagA",
            "KEYS": f"k{number}",
        }
    )


def message(number: int, body: bytes) -> Record:
    return Record(
        "TopicTest", body, properties(number), number % QUEUES,
        born_time_ms=1_700_000_000_000, born_host=_HOST, store_host=_HOST,
    )  # fmt: skip


def store_rates(count: int) -> dict[str, float]:
    """Messages per second for each kind of work, each in a store of its own."""
    rates = {}
    for size in (128, 1024):
        records = [message(number, bytes(size)) for number in range(count)]
        rates[f"append {size} B"] = _in_store(partial(_append, records), count)
        batches = [_batch(number, size) for number in range(count // BATCH)]
        rates[f"append {size} B in batches of {BATCH}"] = _in_store(
            partial(_append_batches, batches), count
        )
    rates[f"read 128 B in pulls of {BATCH}"] = _read_rate(count)
    return rates


def _batch(number: int, size: int) -> Record:
    items = [BatchItem(bytes(size), properties(number * BATCH + n)) for n in range(BATCH)]
    batch = message(number, b"")
    batch.body = encode_batch(items)
    return batch


def _append(records: list[Record], store: Store) -> None:
    append = store.append
    for record in records:
        append(record)


def _append_batches(batches: list[Record], store: Store) -> None:
    for batch in batches:
        store.append_batch(batch)


def _in_store(work: Callable[[Store], None], count: int) -> float:
    folder = Path(tempfile.mkdtemp(prefix="roketto-bench-"))
    store = Store(folder, _SETTINGS)
    store.open(1)
    try:
        started_s = time.perf_counter()
        work(store)
        return count / (time.perf_counter() - started_s)
    finally:
        store.close()
        shutil.rmtree(folder)


def _read_rate(count: int) -> float:
    taken_s = [0.0]

    def work(store: Store) -> None:
        _append([message(number, bytes(128)) for number in range(count)], store)
        started_s = time.perf_counter()
        for queue_id in range(QUEUES):
            offset = 0
            while (result := store.get("TopicTest", queue_id, offset, BATCH)).count:
                offset = result.next_offset
        taken_s[0] = time.perf_counter() - started_s

    _in_store(work, count)
    return count / taken_s[0]
