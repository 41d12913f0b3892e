"""How far consumer groups have come: what they have committed, and what they have been sent.

Committed offsets are kept in a table that is saved every few seconds, as Java's are: after a crash
a group consumes the last seconds again. What was sent is known in memory only, for operators.

An operator may reset a group while it consumes. Its clients know their own offsets, so each queue
has to be told: the reset waits until the next pull of the queue is answered with it, and what the
group commits until then is of before the reset and does not count.
"""

import logging
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from roketto.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from roketto.store.offset_table import ConsumeOffsetTable

__all__ = ["Offsets", "Sent"]

log = logging.getLogger(__name__)

PULLED_MAX: Final = 200_000
"""Queues of groups whose last pull is remembered; beyond it, what was committed stands in."""


class Sent:
    """Up to which offset a group was sent messages of a queue.

    Whoever sends them often keeps it, until it ``is_forgotten``.
    """

    __slots__ = ("is_forgotten", "offset")

    def __init__(self) -> None:
        self.offset: int = 0
        self.is_forgotten: bool = False


class Offsets:
    """Topic, group and queue -> the offset of the next message."""

    def __init__(self, table: ConsumeOffsetTable) -> None:
        self._table = table
        self._sent: dict[tuple[str, str, int], Sent] = {}
        self._resets: dict[tuple[str, str, int], int] = {}
        """Resets that no client has heard of; each is in the table, too, which bounds them."""

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
        anything, and must not throw their group back to the beginning by it. Nor does anything move
        while a reset waits.
        """
        if self._resets and (topic, group, queue_id) in self._resets:
            return
        if offset < 0 or queue_id < 0:
            log.debug("%s commits %d in queue %d of %s", client, offset, queue_id, topic)
            return
        before = self._table.put(topic, group, queue_id, offset)
        if before is not None and offset < before:
            log.warning(
                "%s moves group %s back in queue %d of topic %s: from %d to %d",
                client, group, queue_id, topic, before, offset,
            )  # fmt: skip

    # --- resets -----------------------------------------------------------------------------------

    def reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Let a group go on elsewhere, also while it consumes; TableFullError as ``commit``."""
        assert offset >= 0, offset
        assert queue_id >= 0, queue_id
        self._table.put(topic, group, queue_id, offset)
        self._resets[topic, group, queue_id] = offset

    def has_reset(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether a reset waits for the next pull of a queue."""
        return bool(self._resets) and (topic, group, queue_id) in self._resets

    def take_reset(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset that the next pull is answered with; it waits no more. None without one."""
        return self._resets.pop((topic, group, queue_id), None) if self._resets else None

    def clone(self, topic: str, source: str, target: str) -> None:
        """Give a group the offsets of another one in a topic, in place of its own."""
        offsets = dict(self._table.offsets(topic, source))
        if not offsets or source == target:
            return
        self._table.remove(topic, target)
        for queue_id, offset in offsets.items():
            self._table.put(topic, target, queue_id, offset)
            self._resets.pop((topic, target, queue_id), None)

    # --- what was sent ----------------------------------------------------------------------------

    def sent(self, topic: str, group: str, queue_id: int) -> Sent | None:
        """Where to note what a group is sent of a queue; None if that is not remembered."""
        key = (topic, group, queue_id)
        found = self._sent.get(key)
        if found is None and len(self._sent) < PULLED_MAX:
            found = self._sent[key] = Sent()
        return found

    def note_pulled(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Remember the offset that a group was sent messages up to."""
        sent = self.sent(topic, group, queue_id)
        if sent is not None:
            sent.offset = offset

    def pulled(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset that a group was sent messages up to; what it committed if nobody knows."""
        sent = self._sent.get((topic, group, queue_id))
        return self.get(topic, group, queue_id) if sent is None else sent.offset

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
        self._forget(0, topic)

    def remove_group(self, group: str) -> None:
        """Forget the offsets of a group in every topic."""
        self._table.remove_group(group)
        self._forget(1, group)

    def wrapper(self) -> ConsumerOffsetSerializeWrapper:
        """The whole table, as slaves fetch it."""
        topics: dict[str, list[str]] = {}
        for topic, group in self._table.pairs():
            topics.setdefault(group, []).append(topic)
        return replace(self._table.body, group_topic_map=topics)

    def save(self) -> bool:
        """Bring changes to the disk; whether there were any."""
        return self._table.save_if_changed()

    def _forget(self, part: int, name: str) -> None:
        for key in [key for key in self._sent if key[part] == name]:
            self._sent.pop(key).is_forgotten = True
        for key in [key for key in self._resets if key[part] == name]:
            del self._resets[key]
