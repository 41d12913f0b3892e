"""A process that appends to a store until it is killed; run by test_kill.py.

    python -m fault.appender ROOT EVIDENCE sync|async LIFE [stall|buffer|end]

Eight producers take turns, each with one send under way: single messages, batches, messages of a
transaction, over several topics and queues. Each send is written to the evidence file before it is
appended, each acknowledgement after: under SYNC_FLUSH once the message is on the disk, under
ASYNC_FLUSH once it is appended, for then the kernel has it.

With ``stall`` it stops after some rounds in front of the acknowledgements, says so, and waits to be
killed. With ``buffer`` it has a bug: it acknowledges what it keeps in memory and appends later.
With ``end`` it ends by itself.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from evidence import EvidenceWriter, Place, ok_line, send_line
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from roketto.store.flush import FlushSettings
from roketto.store.store import Store, StoreSettings

PRODUCERS: Final = 8
QUEUES: Final = tuple(
    (topic, queue_id) for topic in ("T", "Other", "%RETRY%group") for queue_id in range(3)
)
HALF: Final = "half"
"""Where the evidence says that messages are which have no place in a queue."""
BUFFERED_MAX: Final = 64
STALL_ROUNDS_MAX: Final = 20
WAIT_S: Final = 30.0
HOST: Final = encode_host("10.0.0.1", 10911)


def settings(*, is_sync: bool) -> StoreSettings:
    """Files so small that a life crosses the ends of several of each kind."""
    return StoreSettings(
        segment_bytes=65_536, queue_file_bytes=2_000, index_slots=500, index_entries=5_000,
        is_flush_sync=is_sync, flush=FlushSettings(interval_ms=20, pages_least=1),
    )  # fmt: skip


def body_of(value: str) -> bytes:
    """The value, and so much behind it that sizes differ; all of it can be foretold."""
    return f"{value} ".encode() * (1 + sum(value.encode()) % 40)


def value_of(body: bytes) -> str:
    """The value in a body; AssertionError if the body is not just that of it."""
    value = body.split(b" ", 1)[0].decode()
    assert body == body_of(value), f"the body of {value} is not what was sent"
    return value


def queue_name(topic: str, queue_id: int) -> str:
    return f"{topic}/{queue_id}"


def properties_of(value: str) -> bytes:
    return encode_properties({"UNIQ_KEY": f"U{value}", "TAGS": "t", "KEYS": "k"})


class Request(NamedTuple):
    """What a producer wants stored: the values of one message, or of one batch."""

    producer: str
    values: tuple[str, ...]
    record: Record
    is_batch: bool

    @property
    def queue(self) -> str:
        if self.record.sys_flag == TRANSACTION_PREPARED:
            return HALF
        return queue_name(self.record.topic, self.record.queue_id)


def make_requests(producer: str, life: int, random: Random) -> Iterator[Request]:
    """What one producer sends in one life, without an end."""
    number = 0
    while True:
        topic, queue_id = random.choice(QUEUES)
        kind = random.choices(("single", "batch", "half", "commit"), (6, 2, 1, 1))[0]
        count = random.randrange(2, 7) if kind == "batch" else 1
        values = tuple(f"{life}-{producer}-{number + n}" for n in range(count))
        number += count
        record = Record(
            topic, body_of(values[0]), properties_of(values[0]), queue_id, store_host=HOST
        )
        if kind == "batch":
            items = [BatchItem(body_of(value), properties_of(value)) for value in values]
            record = Record(topic, encode_batch(items), b"", queue_id, store_host=HOST)
        elif kind != "single":
            record.sys_flag = TRANSACTION_PREPARED if kind == "half" else TRANSACTION_COMMIT
        yield Request(producer, values, record, kind == "batch")


class Stored(NamedTuple):
    """A request in the log: what to tell its producer, and when."""

    end: int
    lines: list[str]


def append(store: Store, request: Request) -> Stored:
    record, queue = request.record, request.queue
    if request.is_batch:
        batch = store.append_batch(record)
        places = [
            Place(queue, batch.queue_offset + n, message_id)
            for n, message_id in enumerate(batch.message_ids)
        ]
        end = batch.end
    else:
        where = store.append(record)
        places = [Place(queue, None if queue == HALF else where.queue_offset, where.message_id)]
        end = where.end
    return Stored(end, [ok_line(*told) for told in zip(request.values, places, strict=True)])


class Appender:
    """The owner of the store: it takes the requests of all producers in turn."""

    def __init__(self, root: Path, evidence: Path, *, is_sync: bool) -> None:
        self.stall_after: int | None = None
        """The round whose messages nobody hears of."""
        self._evidence = EvidenceWriter(evidence)
        self._is_sync = is_sync
        self._told = threading.Semaphore(0)
        self._waiting: dict[str, Stored] = {}
        self._buffered: deque[Request] = deque()
        self._rounds = 0
        self.store = Store(
            root, settings(is_sync=is_sync), zone=UTC,
            on_flushed=lambda offset: self._told.release(),
        )  # fmt: skip

    def round(self, requests: dict[str, Iterator[Request]]) -> None:
        """Let each producer that waits for nothing send, and tell those whose wait is over."""
        wanted = [next(its) for name, its in requests.items() if name not in self._waiting]
        self.announce(wanted)
        for request in wanted:
            self._waiting[request.producer] = append(self.store, request)
        if self._rounds == self.stall_after:
            os.write(1, b"stalled\n")
            threading.Event().wait()
        self._acknowledge()
        self._rounds += 1
        if self._rounds % 16 == 0:
            self.store.tick()

    def announce(self, requests: list[Request]) -> None:
        self._evidence.write(
            send_line(value, request.producer, request.queue)
            for request in requests
            for value in request.values
        )

    def _acknowledge(self) -> None:
        safe = self._wait() if self._is_sync else 1 << 62
        done = [name for name, stored in self._waiting.items() if stored.end <= safe]
        self._evidence.write(line for name in done for line in self._waiting.pop(name).lines)

    def _wait(self) -> int:
        """Wait until something more is safe; return up to where."""
        least = min(stored.end for stored in self._waiting.values())
        while (safe := self.store.advance()) < least:
            assert self._told.acquire(timeout=WAIT_S), "the disk does not answer"
        return safe

    def buffered_round(self, requests: dict[str, Iterator[Request]]) -> None:
        """The planted bug: producers hear "ok" while their messages are in our memory."""
        for its in requests.values():
            request = next(r for r in its if not r.is_batch and r.queue != HALF)
            self.announce([request])
            offset = self._next_offset(request)
            self._evidence.write([ok_line(request.values[0], Place(request.queue, offset))])
            self._buffered.append(request)
        while len(self._buffered) > BUFFERED_MAX:
            append(self.store, self._buffered.popleft())
        self.store.advance()

    def _next_offset(self, request: Request) -> int:
        """The offset that a buffered request will have."""
        topic, queue_id = request.record.topic, request.record.queue_id
        before = sum(other.queue == request.queue for other in self._buffered)
        place = self.store.appender.waiting.places.get((topic, queue_id))
        if place is None:
            queue = self.store.queue(topic, queue_id)
            place = queue.queue_offset_max if queue is not None else 0
        return before + place


def main(root: Path, evidence: Path, mode: str, life: int, plant: str = "") -> None:
    random = Random(life)
    appender = Appender(root, evidence, is_sync=mode == "sync")
    requests = {
        name: make_requests(name, life, random) for name in (f"p{n}" for n in range(PRODUCERS))
    }
    appender.store.open(os.getpid())
    act: Callable[[dict[str, Iterator[Request]]], None] = appender.round
    if plant == "buffer":
        act = appender.buffered_round
        act(requests)  # so that whoever kills it after it is open has something to notice
    if plant == "stall":
        appender.stall_after = random.randrange(STALL_ROUNDS_MAX)
    else:
        os.write(1, b"open\n")
    if plant == "end":
        os._exit(3)
    while True:
        act(requests)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
