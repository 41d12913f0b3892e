"""How far consumer groups have come: what they have committed, and what they have been sent.

Committed offsets are kept in a table that is saved every few seconds, as Java's are: after a crash
a group consumes the last seconds again. What was sent is known in memory only, for operators.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roketto.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from roketto.store.offset_table import ConsumeOffsetTable

__all__ = ["Offsets"]

log = logging.getLogger(__name__)

PULLED_MAX: Final = 200_000
"""Queues of groups whose last pull is remembered; beyond it, what was committed stands in."""


class Offsets:
    """Topic, group and queue -> the offset of the next message."""

    def __init__(self, table: ConsumeOffsetTable) -> None:
        self._table = table
        self._pulled: dict[tuple[str, str, int], int] = {}

    def get(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset of the next message, None if the group has consumed nothing there.

        A negative one, which Java's brokers leave in their files when a client commits it, counts
        as none, as it does there.
        """
        offset = self._table.get(topic, group, queue_id)
        return None if offset is None or offset < 0 else offset

    def commit(self, topic: str, group: str, queue_id: int, offset: int, client: str = "") -> None:
        """Set an offset, also to a smaller one; TableFullError if there are too many.

        A negative offset or queue moves nothing. Some clients commit -1 before they have consumed
        anything, and must not throw their group back to the beginning by it.
        """
        if offset < 0 or queue_id < 0:
            log.debug("%s commits %d in queue %d of %s", client, offset, queue_id, topic)
            return
        before = self._table.put(topic, group, queue_id, offset)
        if before is not None and offset < before:
            log.warning(
                "%s moves group %s back in queue %d of topic %s: from %d to %d",
                client, group, queue_id, topic, before, offset,
            )  # fmt: skip

    def note_pulled(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Remember the offset that a group was sent messages up to."""
        pulled, key = self._pulled, (topic, group, queue_id)
        if len(pulled) < PULLED_MAX or key in pulled:
            pulled[key] = offset

    def pulled(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset that a group was sent messages up to; what it committed if nobody knows."""
        offset = self._pulled.get((topic, group, queue_id))
        return self.get(topic, group, queue_id) if offset is None else offset

    def offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """Queue -> offset, as far as there are any."""
        return self._table.offsets(topic, group)

    def topics_by_group(self) -> dict[str, list[str]]:
        """Every group that has offsets, with their topics."""
        found: dict[str, list[str]] = {}
        for topic, group in self._table.pairs():
            found.setdefault(group, []).append(topic)
        return found

    def topics_of(self, group: str) -> list[str]:
        """The topics in which a group has offsets."""
        return [topic for topic, name in self._table.pairs() if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        return [group for name, group in self._table.pairs() if name == topic]

    def remove_topic(self, topic: str) -> None:
        """Forget the offsets of every group in a topic."""
        self._table.remove_topic(topic)
        self._forget_pulled(0, topic)

    def remove_group(self, group: str) -> None:
        """Forget the offsets of a group in every topic."""
        self._table.remove_group(group)
        self._forget_pulled(1, group)

    def wrapper(self) -> ConsumerOffsetSerializeWrapper:
        """The whole table, as slaves fetch it."""
        return self._table.body

    def save(self) -> bool:
        """Bring changes to the disk; whether there were any."""
        return self._table.save_if_changed()

    def _forget_pulled(self, part: int, name: str) -> None:
        for key in [key for key in self._pulled if key[part] == name]:
            del self._pulled[key]
