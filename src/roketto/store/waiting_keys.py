"""Messages that wait until the index files them, many at a time.

Single messages, and runs of messages of one shape, which wait as one text: what is kept of a
message, and what it takes to look at a thousand of them, is then a small part of a list entry.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from roketto.store.even_properties import EvenProperties, Longs, Runs
from roketto.store.keyhashes import PROPERTIES_BYTES_MAX, KeyHashes

_RUN_BYTES_MAX: Final = PROPERTIES_BYTES_MAX // 4
"""A run with a longer text waits as its messages one by one."""


class WaitingKeys:
    """The messages that wait, in the order of the log; ``count`` says how many.

    waiting.add("T", b"KEYS\\x01k\\x02", log_offset, store_time_ms)
    texts, hashes, log_offsets, times = waiting.look(key_hashes)
    waiting.remove(texts)
    """

    __slots__ = ("_offsets", "_properties", "_runs", "_times", "_topics", "count")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.count: int = 0
        # Of each text: topic, property strings, log offset of the first message, store time.
        self._topics: list[str] = []
        self._properties: list[bytes] = []
        self._offsets: list[int] = []
        self._times: list[int] = []
        # Of each text with many messages, what Runs wants to know.
        self._runs: list[tuple[int, int, int, int]] = []

    def add(self, topic: str, properties: bytes, log_offset: int, store_time_ms: int) -> None:
        """Let one message wait."""
        self._topics.append(topic)
        self._properties.append(properties)
        self._offsets.append(log_offset)
        self._times.append(store_time_ms)
        self.count += 1

    def add_run(
        self,
        topic: str,
        properties: list[bytes] | EvenProperties,
        log_offset: int,
        sizes: list[int],
        store_time_ms: int,
    ) -> None:
        """Let messages wait that follow each other in the log; ``sizes`` are their records'."""
        if not isinstance(properties, list):
            if len(properties.text) <= _RUN_BYTES_MAX:
                run = (len(self._topics), properties.count, properties.each_bytes, sizes[0])
                self._runs.append(run)
                self.add(topic, properties.text, log_offset, store_time_ms)
                self.count += properties.count - 1
                return
            properties = properties.split()
        count = len(properties)
        self._topics += [topic] * count
        self._properties += properties
        self._offsets += accumulate(sizes[:-1], initial=log_offset)
        self._times += [store_time_ms] * count
        self.count += count

    def look(self, key_hashes: KeyHashes) -> tuple[int, Longs, Longs, Longs]:
        """What to file of the first texts, of all unless they have much to say.

        How many texts; and of each key its hash, and log offset and store time of its message.
        """
        properties: Sequence[bytes] = self._properties
        texts = len(properties)
        ends = np.fromiter(accumulate(map(len, properties)), np.int64, texts)
        if ends[-1] + texts > PROPERTIES_BYTES_MAX:
            texts = max(1, int(ends.searchsorted(PROPERTIES_BYTES_MAX - texts)))
        log_offsets = np.fromiter(self._offsets, np.int64, texts)
        times = np.fromiter(self._times, np.int64, texts)
        found = [run for run in self._runs if run[0] < texts]
        runs = Runs(texts, found) if found else None
        numbers, hashes = key_hashes.many(self._topics[:texts], properties[:texts], runs)
        if runs is not None:
            log_offsets, times = runs.log_offsets(log_offsets), times[runs.owners]
        return texts, hashes, log_offsets[numbers], times[numbers]

    def remove(self, texts: int) -> None:
        """The messages of the first texts wait no more."""
        left = [run for run in self._runs if run[0] >= texts]
        self._runs = [(run[0] - texts, run[1], run[2], run[3]) for run in left]
        for waiting in (self._topics, self._properties, self._offsets, self._times):
            del waiting[:texts]
        self.count = len(self._topics) + sum([run[1] - 1 for run in self._runs])
