"""What is done to a store to measure it: messages made beforehand, appends, pulls, ticks.

Everything here runs in the process that has the store (store_process.py). Messages are those of a
producer: a unique key, a tag, one key and the WAIT mark; the index is on. 100,000 different ones
are made before the clock runs, and are appended in a circle. Where rates are measured, the next few
are copied just before, with the clock stopped: a broker's messages have just come out of a socket,
and are in the processor's caches. The copies have keys that no message had before, as a producer's
have: eight queues and thousands then find the index in the same state.
"""

import gc
import time
from collections import deque
from collections.abc import Iterator
from itertools import count, cycle
from typing import Final, NamedTuple

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.reading import GetResult
from store_process import Host

PULL: Final = 32
QUEUES_PER_TOPIC: Final = 8
CHUNK: Final = 64
"""Messages between two looks at the clock."""
_HOST: Final = encode_host("127.0.0.1", 10911)


class Kind(NamedTuple):
    """How messages come."""

    body_bytes: int
    batch: int

    @property
    def name(self) -> str:
        size = "1 KiB" if self.body_bytes == 1024 else f"{self.body_bytes} B"
        return f"append {size}" + (f" in batches of {self.batch}" if self.batch > 1 else "")


SMALL: Final = Kind(128, 1)
SMALL_BATCHES: Final = Kind(128, 32)
LARGE: Final = Kind(1024, 1)
LARGE_BATCHES: Final = Kind(1024, 32)
KINDS: Final = (SMALL, SMALL_BATCHES, LARGE, LARGE_BATCHES)


def properties(number: int) -> bytes:
    return encode_properties(
        {
            "UNIQ_KEY": f"7F00000100{number:022X}",
            "WAIT": "true",
            "TAGS": "TagA",
            "KEYS": f"k{number:08}",
        }
    )


_UNIQUE_KEY: Final = b"UNIQ_KEY\x01"
_KEY_BEHIND: Final = properties(0).index(b"k0")
"""How far behind the beginning of the properties the digits of the key are, less one."""


def renumber(text: bytes, numbers: Iterator[int]) -> bytes:
    """A copy of properties, or of a batch, in which each message has new keys."""
    copy = bytearray(text)
    at = text.find(_UNIQUE_KEY)
    while at >= 0:
        number = next(numbers)
        copy[at + 19 : at + 41] = b"%022X" % number
        copy[at + _KEY_BEHIND + 1 : at + _KEY_BEHIND + 9] = b"%08d" % number
        at = text.find(_UNIQUE_KEY, at + _KEY_BEHIND)
    return bytes(copy)


def queue_name(number: int) -> tuple[str, int]:
    """Topic and queue id of a queue: eight to a topic."""
    return f"TopicTest{number // QUEUES_PER_TOPIC}", number % QUEUES_PER_TOPIC


def make_records(kind: Kind, queues: int, messages: int) -> list[Record]:
    """Messages, or batches of them, for all queues in turn; at least one for each."""
    body = bytes(range(256)) * 4
    body = body[: kind.body_bytes]
    contents: list[tuple[bytes, bytes]]
    if kind.batch == 1:
        contents = [(body, properties(number)) for number in range(max(messages, queues))]
    else:
        contents = [
            (
                encode_batch([BatchItem(body, properties(first + n)) for n in range(kind.batch)]),
                b"",
            )
            for first in range(0, messages, kind.batch)
        ]
    records = []
    for number, (content, text) in zip(range(max(len(contents), queues)), cycle(contents)):
        topic, queue_id = queue_name(number % queues)
        records.append(
            Record(
                topic, content, text, queue_id,
                born_time_ms=1_700_000_000_000, born_host=_HOST, store_host=_HOST,
            )
        )  # fmt: skip
    return records


def received(record: Record, numbers: Iterator[int]) -> Record:
    """The same message with new keys, in memory that was just written."""
    body = renumber(bytes(record.body), numbers)
    raw = renumber(record.properties_raw, numbers)
    return Record(
        record.topic, body, raw, record.queue_id, born_time_ms=record.born_time_ms,
        born_host=_HOST, store_host=_HOST,
    )  # fmt: skip


class Load:
    """Messages that are appended in a circle, a chunk at a time."""

    def __init__(self, kind: Kind, queues: int, messages: int) -> None:
        self._is_batch = kind.batch > 1
        records = make_records(kind, queues, messages)
        step = CHUNK // kind.batch
        chunks = [records[at : at + step] for at in range(0, len(records), step)]
        self._chunks = cycle([(chunk, len(chunk) * kind.batch) for chunk in chunks])
        self._numbers = count(messages + queues)
        # A broker has no such heap of messages, and must not be charged for walking over it.
        gc.collect()
        gc.freeze()

    def append_chunk(self, host: Host) -> int:
        """Append the next few messages; return how many."""
        chunk, messages = next(self._chunks)
        self.append(host, chunk)
        return messages

    def receive(self) -> tuple[list[Record], int]:
        """The next few messages as if they had just come; and how many."""
        chunk, messages = next(self._chunks)
        return [received(record, self._numbers) for record in chunk], messages

    def append(self, host: Host, records: list[Record]) -> None:
        append = host.store.append_batch if self._is_batch else host.store.append
        for record in records:
            append(record)


# --- asked for by the benchmark -------------------------------------------------------------------


def prepare(host: Host, kind: Kind, queues: int, messages: int) -> None:
    """Make the messages, and let the store make its first files."""
    load = Load(kind, queues, messages)
    host.kept["load", kind] = load
    host.kept["queues"] = queues
    load.append_chunk(host)
    host.turn(is_first=True)


def append_rate(host: Host, kind: Kind, seconds: float) -> float:
    """Messages per second for a while; the time of the ticks counts."""
    load: Load = host.kept["load", kind]
    count = 0
    taken_s = 0.0
    host.turn_longest_s = 0.0
    while taken_s < seconds:
        records, messages = load.receive()
        started_s = time.perf_counter()
        load.append(host, records)
        host.turn()
        taken_s += time.perf_counter() - started_s
        count += messages
    return count / taken_s


def turn_longest_ms(host: Host) -> float:
    """How long the longest tick since the last measurement began has held up everything else."""
    return host.turn_longest_s * 1e3


def append_messages(host: Host, kind: Kind, messages: int) -> float:
    """Append at least so many, ticking; return the seconds it took."""
    load: Load = host.kept["load", kind]
    started_s = time.perf_counter()
    while messages > 0:
        messages -= load.append_chunk(host)
        host.turn()
    return time.perf_counter() - started_s


def append_bytes(host: Host, kind: Kind, log_bytes: int) -> float:
    """Append until the log has so many bytes, ticking; return the seconds it took."""
    started_s = time.perf_counter()
    topic, queue_id = queue_name(0)
    while _log_end(host, topic, queue_id) < log_bytes:
        append_messages(host, kind, 100 * CHUNK)
    return time.perf_counter() - started_s


def _log_end(host: Host, topic: str, queue_id: int) -> int:
    queue = host.store.queue(topic, queue_id)
    return 0 if queue is None else queue.log_offset_max


def stored(host: Host) -> int:
    """How many messages the queues have."""
    found = 0
    for topic, queue_ids in host.store.topics():
        for queue_id in queue_ids:
            queue = host.store.queue(topic, queue_id)
            found += 0 if queue is None else queue.queue_offset_max
    return found


class Consumers:
    """One consumer per queue; they pull in turns, each from where it was."""

    def __init__(self, queues: int) -> None:
        self._names = [queue_name(number) for number in range(queues)]
        self._begins = [0] * queues
        self._offsets = [0] * queues
        self._turns = cycle(range(queues))
        self._answer: deque[bytes | memoryview] = deque(maxlen=1024)
        """What a connection has yet to send; views, not copies."""

    def skip(self, host: Host) -> None:
        """Begin with what comes from now on."""
        for number, name in enumerate(self._names):
            queue = host.store.queue(*name)
            self._begins[number] = 0 if queue is None else queue.queue_offset_max
        self._offsets = list(self._begins)

    def pull(self, host: Host, *, touch: bool = False) -> int:
        """One pull of 32; who is at the end begins again. Return how many messages came."""
        number = next(self._turns)
        topic, queue_id = self._names[number]
        result = host.store.get(topic, queue_id, self._offsets[number], PULL)
        self._offsets[number] = result.next_offset if result.count else self._begins[number]
        self._send(result)
        if touch:
            for view in result.views:
                bytes(view[::4096])
        return result.count

    def _send(self, result: GetResult) -> None:
        """What a broker does with an answer: its length, and its views behind those of others."""
        size = 0
        for view in result.views:
            size += len(view)
        assert size == result.size
        self._answer.extend(result.views)


def read_rate(host: Host, seconds: float) -> float:
    """Messages per second in pulls of 32, from all queues in turn."""
    consumers = host.kept.get("consumers")
    if consumers is None:
        consumers = host.kept["consumers"] = Consumers(host.kept["queues"])
    count = 0
    started_s = now_s = time.perf_counter()
    while now_s < started_s + seconds:
        for _ in range(8):
            count += consumers.pull(host)
        now_s = time.perf_counter()
    assert count, "there was nothing to read"
    return count / (now_s - started_s)
