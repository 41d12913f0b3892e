"""What a broker of ours writes into its store: records of every kind, and the tables beside them.

    python -m interop.stores.ours ROOT PORT COUNT

writes COUNT more messages to a store, prints what it wrote, and kills itself: the newest units of
the queues are still in its memory then.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.hosts import encode_host
from roketto.protocol.names import HALF_OP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.store import Store, StoreSettings
from roketto.store.topic_table import TopicTable

SEGMENT_BYTES: Final = 262_144
LEVELS: Final = "1s 2s 6s 1h 2h"
"""The delay levels of every broker of these tests, Java's messageDelayLevel."""
DELAYS_MS: Final = (1_000, 2_000, 6_000, 3_600_000, 7_200_000)

ONE: Final = "OursOne"
TWO: Final = "OursTwo"
LATE: Final = "OursLate"
SURE: Final = "OursSure"
NEW: Final = "OursNew"
GROUP: Final = "OursGroup"
PRODUCER_GROUP: Final = "OursTransactions"
QUEUES: Final = 2
BODY_BYTES: Final = 2_500


def settings(*, append_crc: bool = False) -> StoreSettings:
    """As the brokers of these tests are configured: small files, and more than one of each."""
    return StoreSettings(
        segment_bytes=SEGMENT_BYTES, queue_file_bytes=1_000, index_slots=100, index_entries=600,
        append_crc=append_crc,
    )  # fmt: skip


def delay_of_level(level: int) -> int:
    return DELAYS_MS[min(level, len(DELAYS_MS)) - 1]


def open_store(root: Path, *, append_crc: bool = False) -> Store:
    store = Store(root, settings(append_crc=append_crc), delay_of_level=delay_of_level)
    store.open(os.getpid())
    return store


@dataclass(frozen=True, slots=True)
class Written:
    """One message of ours and where it went."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    message_id: str
    properties: dict[str, str]
    body: str
    kind: str = "plain"

    @property
    def unique_key(self) -> str:
        return self.properties["UNIQ_KEY"]


class Writer:
    """Appends messages as a broker on ``port`` would; ``written`` has them in order."""

    def __init__(self, store: Store, port: int, first: int = 0) -> None:
        self._store = store
        self._host = encode_host("127.0.0.1", port)
        self._number = first
        self.written: list[Written] = []

    def plain(self, topic: str, queue_id: int) -> Written:
        return self._append(topic, queue_id, self._properties(), "plain")

    def batch(self, topic: str, queue_id: int, count: int) -> None:
        """As a client sends it: nothing is added to the properties of its messages."""
        messages = [self._client_properties() for _ in range(count)]
        bodies = [body_of(number_of(properties)) for properties in messages]
        items = [
            BatchItem(body.encode(), encode_properties(properties))
            for body, properties in zip(bodies, messages, strict=True)
        ]
        result = self._store.append_batch(self._record(topic, queue_id, encode_batch(items)))
        for number, message_id in enumerate(result.message_ids):
            self.written.append(
                Written(
                    topic, queue_id, result.queue_offset + number, int(message_id[-16:], 16),
                    message_id, messages[number], bodies[number], "batch",
                )
            )  # fmt: skip

    def delayed(self, level: int, *, is_delivered: bool = False) -> None:
        """As it waits for its time, and as it is delivered: the same properties in the topic."""
        properties = self._properties() | {
            "DELAY": str(level), "REAL_TOPIC": LATE, "REAL_QID": "1",
        }  # fmt: skip
        self._append(SCHEDULE_TOPIC, level - 1, properties, f"delay {level}")
        if is_delivered:
            self._append(LATE, 1, properties, "delivered")

    def transaction(self, decision: str) -> None:
        """A half message and what was decided about it: commit, rollback, or nothing yet."""
        properties = self._properties()
        properties |= {
            "TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP, "REAL_TOPIC": SURE, "REAL_QID": "0",
            "__transactionId__": properties["UNIQ_KEY"],
        }  # fmt: skip
        half = self._append(HALF_TOPIC, 0, properties, f"half {decision}")
        if decision == "commit":
            del properties["REAL_TOPIC"], properties["REAL_QID"]
            record = self._record(SURE, 0, half.body.encode(), properties)
            record.sys_flag = TRANSACTION_COMMIT
            record.prepared_log_offset = half.log_offset
            self._store_one(record, properties, half.body, "committed")
        if decision != "nothing":
            # One offset and no comma: brokers of 4.9 cannot read what 5.x appends to it.
            body = str(half.queue_offset)
            record = self._record(HALF_OP_TOPIC, 0, body.encode(), {"TAGS": "d"})
            self._store_one(record, {"TAGS": "d"}, body, "decision")

    def _append(self, topic: str, queue_id: int, properties: dict[str, str], kind: str) -> Written:
        body = body_of(number_of(properties))
        record = self._record(topic, queue_id, body.encode(), properties)
        return self._store_one(record, properties, body, kind)

    def _store_one(
        self, record: Record, properties: dict[str, str], body: str, kind: str
    ) -> Written:
        where = self._store.append(record)
        written = Written(
            record.topic, record.queue_id, where.queue_offset, where.log_offset,
            where.message_id, dict(properties), body, kind,
        )  # fmt: skip
        self.written.append(written)
        return written

    def _record(
        self, topic: str, queue_id: int, body: bytes, properties: dict[str, str] | None = None
    ) -> Record:
        return Record(
            topic, body, encode_properties(properties or {}), queue_id,
            born_time_ms=time.time_ns() // 1_000_000, born_host=self._host, store_host=self._host,
        )  # fmt: skip

    def _client_properties(self) -> dict[str, str]:
        number = self._number
        self._number += 1
        # mqadmin names files after it, in a folder that all runs of these tests share.
        unique_key = f"{os.getpid():08X}{number:024X}"
        return {
            "KEYS": f"key{number} many{number % 9}", "TAGS": f"Tag{number % 3}",
            "UNIQ_KEY": unique_key, "名": f"é {number}",
        }  # fmt: skip

    def _properties(self) -> dict[str, str]:
        """With what a broker adds."""
        added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "keeper"}
        return self._client_properties() | {"WAIT": "true"} | added


def number_of(properties: dict[str, str]) -> int:
    return int(properties["UNIQ_KEY"][8:], 16)


def body_of(number: int) -> str:
    return f"written here {number} ".ljust(BODY_BYTES, "ü" if number % 2 else "u")


def write_everything(store: Store, port: int, count: int, first: int = 0) -> list[Written]:
    """``count`` messages in two topics, every tenth time three in a batch; delays, transactions."""
    writer = Writer(store, port, first)
    for number in range(count):
        topic = TWO if number % 3 == 0 else ONE
        if number % 10 == 9:
            writer.batch(topic, number % QUEUES, 3)
        else:
            writer.plain(topic, number % QUEUES)
    if not first:
        writer.delayed(1, is_delivered=True)
    for level in (1, 3, 5):
        writer.delayed(level)
    for decision in ("commit", "rollback", "nothing"):
        writer.transaction(decision)
    return writer.written


def write_tables(root: Path, consumed: Iterable[int]) -> None:
    """Topics, how far a group has consumed the first of them, and what was delivered."""
    (root / "config").mkdir()
    for topic in (ONE, TWO, LATE, SURE):
        add_topic(root, topic)
    offsets = load_table(ConsumeOffsetTable, root)
    for queue_id, offset in enumerate(consumed):
        offsets.put(ONE, GROUP, queue_id, offset)
    delays = load_table(DelayOffsetTable, root)
    delays.put(1, 1)
    assert offsets.save_if_changed()
    assert delays.save_if_changed()


def add_topic(root: Path, topic: str) -> None:
    topics = load_table(TopicTable, root)
    topics.put(TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    assert topics.save_if_changed()


def rewind(root: Path, count: int) -> None:
    """Let the group consume the last ``count`` messages of a queue again."""
    offsets = load_table(ConsumeOffsetTable, root)
    offset = offsets.get(ONE, GROUP, 0)
    assert offset is not None
    offsets.put(ONE, GROUP, 0, offset - count)
    assert offsets.save_if_changed()


T = TypeVar("T", ConsumeOffsetTable, DelayOffsetTable, TopicTable)


def load_table(kind: type[T], root: Path) -> T:
    table = kind(Files(), root / "config")
    table.load()
    return table


def main(root: Path, port: int, count: int) -> None:
    store = open_store(root, append_crc=True)
    written = write_everything(store, port, count, first=10_000)
    newest = store.record_at(written[-1].log_offset)
    while store.flushed < newest.log_offset + newest.size:
        time.sleep(0.01)
    store.tick()  # queues, index and checkpoint are as a running broker leaves them
    written += write_everything(store, port, count // 10, first=20_000)
    writer = Writer(store, port, first=30_000)
    writer.plain(NEW, 0)
    written += writer.written
    sys.stdout.write(json.dumps([asdict(one) for one in written]))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
