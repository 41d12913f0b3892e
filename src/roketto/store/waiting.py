"""Messages that are in the log and in no queue yet: they wait for the disk, or for room on it.

Under SYNC_FLUSH every message waits until it is on the disk. Otherwise those wait whose unit or
keys found no room. They stay in the order of the log.
"""

from collections import deque

from roketto.store.dispatch import Stored, StoredBatch

__all__ = ["Waiting"]


class Waiting:
    """The messages of one store that wait.

    waiting.add(end, stored, queue_offset + 1)
    while (stored := waiting.first(flushed)) is not None:
        dispatch(stored)
        waiting.remove_first()
    """

    __slots__ = ("messages", "places")

    def __init__(self) -> None:
        self.messages: deque[tuple[int, Stored | StoredBatch]] = deque()
        """Each with where it ends in the log."""
        self.places: dict[tuple[str, int], int] = {}
        """By topic and queue id, the place in the queue behind those that wait for it."""

    def add(self, end: int, stored: Stored | StoredBatch, next_offset: int | None) -> None:
        """Let a message, or a batch, wait. None: it takes no place in a queue."""
        self.keep_place(stored, next_offset)
        self.messages.append((end, stored))

    def keep_place(self, stored: Stored | StoredBatch, next_offset: int | None) -> None:
        """Let no other message have the place of one that is in the log."""
        if next_offset is not None:
            self.places[stored.topic, stored.queue_id] = next_offset

    def log_offset(self) -> int | None:
        """Where the first of them lies in the log, None without one."""
        return self.messages[0][1].log_offset if self.messages else None

    def first(self, until: int) -> Stored | StoredBatch | None:
        """The first of them, if it ends at ``until`` in the log or before."""
        messages = self.messages
        return messages[0][1] if messages and messages[0][0] <= until else None

    def remove_first(self) -> None:
        """It waits no more. With the last one, all places are those of the queues again."""
        self.messages.popleft()
        if not self.messages:
            self.places.clear()

    def forget_topic(self, topic: str) -> None:
        """Forget the messages of a topic, and their places."""
        self.messages = deque(entry for entry in self.messages if entry[1].topic != topic)
        for key in [key for key in self.places if key[0] == topic]:
            del self.places[key]
