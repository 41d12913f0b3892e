"""Where a message is, or the messages of a batch are, once the store has taken them."""

from itertools import accumulate
from typing import NamedTuple

from roketto.protocol.ids import encode_offset_id, encode_offset_ids

__all__ = ["BatchResult", "PutResult"]


class PutResult(NamedTuple):
    """Where a message is. It is safe once ``Store.flushed`` has reached ``end``."""

    queue_offset: int
    log_offset: int
    size: int
    store_time_ms: int
    store_host: bytes

    @property
    def end(self) -> int:
        return self.log_offset + self.size

    @property
    def message_id(self) -> str:
        """The broker's id of the message."""
        return encode_offset_id(self.store_host, self.log_offset)


class BatchResult(NamedTuple):
    """Where the messages of a batch are: one behind the other. Safe as PutResult says."""

    queue_offset: int
    log_offset: int
    sizes: list[int]
    store_time_ms: int
    store_host: bytes

    @property
    def end(self) -> int:
        return self.log_offset + sum(self.sizes)

    @property
    def message_ids(self) -> list[str]:
        """The broker's ids of the messages, in order."""
        return self.joined_message_ids.split(",")

    @property
    def joined_message_ids(self) -> str:
        """The same as one text, with commas between them, as a producer is told."""
        log_offsets = accumulate(self.sizes[:-1], initial=self.log_offset)
        return encode_offset_ids(self.store_host, log_offsets)
