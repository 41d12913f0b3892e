"""Messages that wait until the index files them, many at a time.

Those of a batch wait as one text: what it takes to keep a message, and to look at a thousand of
them, is then a small part of a list entry.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from roketto.store.keyhashes import PROPERTIES_BYTES_MAX, KeyHashes
from roketto.store.run_properties import Longs, RunProperties, Runs

_RUN_BYTES_MAX: Final = PROPERTIES_BYTES_MAX // 4
"""A run with a longer text waits as its messages one by one."""


class WaitingKeys:
    """The messages that wait, in the order of the log; ``count`` says how many.

    waiting.add("T", b"KEYS\\x01k\\x02", log_offset, store_time_ms)
    texts, hashes, log_offsets, times = waiting.look(key_hashes)
    waiting.remove(texts)
    """

    __slots__ = ("_counts", "_lengths", "_offsets", "_texts", "_times", "_topics", "count")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.count: int = 0
        # Of each text: topic, property strings, store time, number of messages.
        self._topics: list[str] = []
        self._texts: list[bytes] = []
        self._times: list[int] = []
        self._counts: list[int] = []
        # Of each message: log offset, bytes of its property string.
        self._offsets: array[int] = array("q")
        self._lengths: array[int] = array("q")

    def add(self, topic: str, properties: bytes, log_offset: int, store_time_ms: int) -> None:
        """Let one message wait."""
        self._topics.append(topic)
        self._texts.append(properties)
        self._times.append(store_time_ms)
        self._counts.append(1)
        self._offsets.append(log_offset)
        self._lengths.append(len(properties))
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
        each, text = properties.each, properties.text
        if len(text) > _RUN_BYTES_MAX:
            for raw, size in zip(each, sizes, strict=True):
                self.add(topic, raw, log_offset, store_time_ms)
                log_offset += size
            return
        self._topics.append(topic)
        self._texts.append(text)
        self._times.append(store_time_ms)
        self._counts.append(len(each))
        self._offsets.extend(accumulate(sizes[:-1], initial=log_offset))
        self._lengths.extend(map(len, each))
        self.count += len(each)

    def look(self, key_hashes: KeyHashes) -> tuple[int, Longs, Longs, Longs]:
        """What to file of the first texts, of all unless they have much to say.

        How many texts; and of each key its hash, and log offset and store time of its message.
        """
        properties: Sequence[bytes] = self._texts
        texts = len(properties)
        ends = np.fromiter(accumulate(map(len, properties)), np.int64, texts)
        if ends[-1] + texts > PROPERTIES_BYTES_MAX:
            texts = max(1, int(ends.searchsorted(PROPERTIES_BYTES_MAX - texts)))
        times = np.fromiter(self._times, np.int64, texts)
        counts = np.fromiter(self._counts, np.int64, texts)
        owners = np.repeat(np.arange(texts), counts)
        # Copies: an array that somebody has a view of does not change its length.
        lengths = np.frombuffer(self._lengths, np.int64, owners.size).copy()
        log_offsets = np.frombuffer(self._offsets, np.int64, owners.size).copy()
        runs = Runs(owners, lengths)
        numbers, hashes = key_hashes.many(self._topics[:texts], properties[:texts], runs)
        return texts, hashes, log_offsets[numbers], times[owners[numbers]]

    def remove(self, texts: int) -> None:
        """The messages of the first texts wait no more."""
        messages = sum(self._counts[:texts])
        for of_text in (self._topics, self._texts, self._times, self._counts):
            del of_text[:texts]
        for of_message in (self._offsets, self._lengths):
            del of_message[:messages]
        self.count -= messages
