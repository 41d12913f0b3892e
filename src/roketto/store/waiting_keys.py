"""Messages that wait until the index files them, many at a time.

Those of a batch wait as one text: what it takes to keep a message, and to look at a thousand of
them, is then a small part of a list entry.

Compiled code hashes the keys at once, which it does faster than it would keep the messages; what
waits are then the entries of the index, three numbers each.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from librt.strings import BytesWriter

from roketto.protocol.properties import Spans, find_spans
from roketto.store.keyhashes import PROPERTIES_BYTES_MAX, KeyHashes
from roketto.store.run_properties import Longs, RunProperties, Runs

_RUN_BYTES_MAX: Final = PROPERTIES_BYTES_MAX // 4
"""A run with a longer text waits as its messages one by one."""


_NUMBER: Final = np.dtype("<i8")


class _Run(NamedTuple):
    """A text with many messages: its place among all texts, and what is in it."""

    place: int
    properties: RunProperties
    sizes: list[int]
    """Of the records."""


class WaitingKeys:
    """The messages that wait, in the order of the log; ``count`` says how many.

    waiting.add("T", b"KEYS\\x01k\\x02", log_offset, store_time_ms)
    texts, hashes, log_offsets, times = waiting.look(key_hashes)
    waiting.remove(texts)
    """

    __slots__ = ("_offsets", "_runs", "_texts", "_times", "_topics", "count")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.count: int = 0
        # Of each text: topic, property strings, log offset of the first message, store time.
        self._topics: list[str] = []
        self._texts: list[bytes] = []
        self._offsets: list[int] = []
        self._times: list[int] = []
        self._runs: list[_Run] = []

    def add(self, topic: str, properties: bytes, log_offset: int, store_time_ms: int) -> None:
        """Let one message wait."""
        self._topics.append(topic)
        self._texts.append(properties)
        self._offsets.append(log_offset)
        self._times.append(store_time_ms)
        self.count += 1

    def add_run(
        self,
        topic: str,
        properties: RunProperties,
        log_offset: int,
        sizes: list[int],
        store_time_ms: int,
    ) -> None:
        """Let messages wait that follow each other in the log; ``sizes`` are their records'."""
        each = properties.each
        if len(properties.text) > _RUN_BYTES_MAX:
            for raw, size in zip(each, sizes, strict=True):
                self.add(topic, raw, log_offset, store_time_ms)
                log_offset += size
            return
        self._runs.append(_Run(len(self._texts), properties, sizes))
        self.add(topic, properties.text, log_offset, store_time_ms)
        self.count += len(each) - 1

    def add_found(
        self, topic: str, properties: bytes, spans: Spans, log_offset: int, store_time_ms: int
    ) -> None:
        """Let one message wait of which it is known where its keys are."""
        self.add(topic, properties, log_offset, store_time_ms)

    def look(self, key_hashes: KeyHashes) -> tuple[int, Longs, Longs, Longs]:
        """What to file of the first texts, of all unless they have much to say.

        How many texts; and of each key its hash, and log offset and store time of its message.
        """
        properties: Sequence[bytes] = self._texts
        texts = len(properties)
        ends = np.fromiter(accumulate(map(len, properties)), np.int64, texts)
        if ends[-1] + texts > PROPERTIES_BYTES_MAX:
            texts = max(1, int(ends.searchsorted(PROPERTIES_BYTES_MAX - texts)))
        log_offsets = np.fromiter(self._offsets, np.int64, texts)
        times = np.fromiter(self._times, np.int64, texts)
        topics, properties = self._topics[:texts], properties[:texts]
        found = [run for run in self._runs if run.place < texts]
        if not found:
            numbers, hashes = key_hashes.many(topics, properties)
            return texts, hashes, log_offsets[numbers], times[numbers]
        runs, befores = _unfold(properties, found)
        numbers, hashes = key_hashes.many(topics, properties, runs)
        owners = runs.owners[numbers]
        return texts, hashes, log_offsets[owners] + befores[numbers], times[owners]

    def remove(self, texts: int) -> None:
        """The messages of the first texts wait no more."""
        gone = [run for run in self._runs if run.place < texts]
        left = self._runs[len(gone) :]
        self._runs = [_Run(run.place - texts, run.properties, run.sizes) for run in left]
        self.count -= texts + sum([len(run.sizes) - 1 for run in gone])
        for waiting in (self._topics, self._texts, self._offsets, self._times):
            del waiting[:texts]


class HashedKeys(WaitingKeys):
    """The same for compiled code, with the keys hashed when they come."""

    __slots__ = ("_entries", "_hashes")

    def __init__(self, hashes: KeyHashes) -> None:
        super().__init__()
        self._hashes: KeyHashes = hashes

    def clear(self) -> None:
        self.count = 0
        self._entries: BytesWriter = BytesWriter()

    def add(self, topic: str, properties: bytes, log_offset: int, store_time_ms: int) -> None:
        self.add_found(topic, properties, find_spans(properties), log_offset, store_time_ms)

    def add_run(
        self,
        topic: str,
        properties: RunProperties,
        log_offset: int,
        sizes: list[int],
        store_time_ms: int,
    ) -> None:
        for raw, size in zip(properties.each, sizes, strict=True):
            self.add(topic, raw, log_offset, store_time_ms)
            log_offset += size

    def add_found(
        self, topic: str, properties: bytes, spans: Spans, log_offset: int, store_time_ms: int
    ) -> None:
        self.count += 1
        self._hashes.write_entries(
            self._entries, topic, properties, spans, log_offset, store_time_ms
        )

    def look(self, key_hashes: KeyHashes) -> tuple[int, Longs, Longs, Longs]:
        entries = np.frombuffer(self._entries.getvalue(), _NUMBER).astype(np.int64).reshape(-1, 3)
        hashes, log_offsets, times = entries.T
        return self.count, hashes, log_offsets, times

    def remove(self, texts: int) -> None:
        assert texts == self.count, "all are looked at together"
        self.clear()


def _unfold(texts: Sequence[bytes], found: list[_Run]) -> tuple[Runs, Longs]:
    """Which messages are in these texts, and how far each lies behind the first of its text."""
    places = [run.place for run in found]
    counts = np.ones(len(texts), np.int64)
    counts[places] = [len(run.sizes) for run in found]
    firsts = np.cumsum(counts) - counts
    owners = np.repeat(np.arange(len(texts)), counts)
    text_lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    text_lengths[places] = [run.properties.each_bytes for run in found]
    lengths = text_lengths[owners]
    text_steps = np.zeros(len(texts), np.int64)
    text_steps[places] = [run.sizes[0] for run in found]
    steps = text_steps[owners]
    for run in found:
        if run.properties.each_bytes < 0:  # not all messages are of one length
            begin = int(firsts[run.place])
            end = begin + len(run.sizes)
            lengths[begin:end] = [len(raw) for raw in run.properties.each]
            steps[begin:end] = run.sizes
    befores = np.cumsum(steps) - steps
    return Runs(owners, lengths), befores - befores[firsts][owners]
