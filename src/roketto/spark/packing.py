"""Parts of Arrow batches as requests of a good size; what is left waits for the next part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.rows import Part

__all__ = ["Packer", "Parcel"]

_HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Rows of many topics and queues that wait for others; beyond it all of them leave."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Messages that go with one request; ``body`` is a batch as protocol/batch.py describes it."""

    topic: str
    queue: MessageQueue | None
    """None: any of the topic."""
    body: bytes
    count: int


class _Waiting:
    __slots__ = ("chunks", "count", "size")

    def __init__(self) -> None:
        self.chunks: list[bytes | memoryview] = []
        self.size = 0
        self.count = 0


class Packer:
    """Fills requests, for one task.

    packer = Packer(batch_bytes=1_048_576)
    for part in parts:
        sender.send(packer.add(part))
    sender.send(packer.flush())
    """

    def __init__(self, batch_bytes: int, held_bytes_max: int = _HELD_BYTES_MAX) -> None:
        self._batch_bytes = batch_bytes
        self._held_bytes_max = held_bytes_max
        self._waiting: dict[tuple[str, MessageQueue | None], _Waiting] = {}
        self._held_bytes = 0

    def add(self, part: Part) -> Iterator[Parcel]:
        """Take messages; what comes out is full. A message that is larger goes by itself."""
        items = part.items
        count = len(items)
        _, offset_buffer, data_buffer = items.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[items.offset : items.offset + count + 1]
        data = memoryview(data_buffer)
        key = (part.topic, part.queue)
        start = 0
        while start < count:
            waiting = self._waiting.setdefault(key, _Waiting())
            room = int(offsets[start]) + self._batch_bytes - waiting.size
            end = int(np.searchsorted(offsets, room, "right")) - 1
            if end <= start and not waiting.count:
                end = start + 1
            if end > start:
                chunk = data[int(offsets[start]) : int(offsets[end])]
                waiting.chunks.append(chunk)
                waiting.size += len(chunk)
                self._held_bytes += len(chunk)
                waiting.count += end - start
                start = end
            if start < count:
                yield self._leave(key)
        waiting = self._waiting[key]
        # A copy: a view would keep the whole Arrow batch in memory.
        waiting.chunks[-1] = bytes(waiting.chunks[-1])
        if waiting.size >= self._batch_bytes:
            yield self._leave(key)
        if self._held_bytes > self._held_bytes_max:
            yield from self.flush()

    def flush(self) -> Iterator[Parcel]:
        """All that waits."""
        for key in list(self._waiting):
            yield self._leave(key)

    def _leave(self, key: tuple[str, MessageQueue | None]) -> Parcel:
        waiting = self._waiting.pop(key)
        self._held_bytes -= waiting.size
        chunks = waiting.chunks
        body = bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)
        return Parcel(*key, body, waiting.count)
