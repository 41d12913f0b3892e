"""How far each group has consumed each queue: ``config/consumerOffset.json``."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from roketto.store.entry_table import EntryTable
from roketto.store.files import Files

__all__ = ["CONSUME_OFFSETS_FILE", "ConsumeOffsetTable"]

CONSUME_OFFSETS_FILE: Final = "consumerOffset.json"

OFFSETS_MAX: Final = 1_000_000
"""Queues of all groups: 20 groups on each of 50,000 queues; some 40 MB of JSON."""

VERSION_STEP: Final = 500
"""Java's consumerOffsetUpdateVersionStep: commits are many, and slaves copy the table anyway."""

_SEPARATOR: Final = "@"
_GROUPS: Final = 1
"""Which map of the table has the topics of each group."""


class ConsumeOffsetTable(EntryTable[ConsumerOffsetSerializeWrapper]):
    """Topic and group -> queue -> the offset of the next message. See ``Table``.

    Java writes, and never reads, which topics each group has offsets of, and how far it has
    pulled. The first is made anew when it is to be saved; the second stays as it was found.
    """

    def __init__(
        self,
        files: Files,
        config: Path,
        *,
        version_step: int = VERSION_STEP,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._count = 0
        self._are_groups_known = False
        """Whether the topics of each group are what they should be."""
        super().__init__(
            files, config / CONSUME_OFFSETS_FILE, ConsumerOffsetSerializeWrapper,
            "offsetTable", "groupTopicMap", version_step=version_step, clock_ms=clock_ms,
        )  # fmt: skip

    def load(self) -> str | None:
        """See ``Table.load``."""
        problem = super().load()
        self._count = sum(map(len, self._body.offset_table.values()))
        self._are_groups_known = False
        return problem

    def text(self) -> bytes:
        """See ``Table.text``."""
        self._renew_groups()
        return super().text()

    def prepare(self, count_max: int) -> bool:
        """See ``Table.prepare``."""
        self._renew_groups()
        return super().prepare(count_max)

    def _renew_groups(self) -> None:
        if self._are_groups_known or not self._is_changed:
            return
        topics: dict[str, list[str]] = {}
        for topic, group in self.pairs():
            topics.setdefault(group, []).append(topic)
        before = self._body.group_topic_map or {}
        for group in {**before, **topics}:
            if before.get(group) != topics.get(group):
                self._mark(group, _GROUPS)
        self._body.group_topic_map = topics
        self._are_groups_known = True

    def __len__(self) -> int:
        """How many offsets there are."""
        return self._count

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every topic and group that there is an offset of."""
        for key in self._body.offset_table:
            topic, _, group = key.rpartition(_SEPARATOR)  # no group has that character
            yield topic, group

    def offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """Queue -> offset, as far as there are any."""
        return self._body.offset_table.get(topic + _SEPARATOR + group, {})

    def get(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset of the next message, None if the group has consumed nothing there."""
        offsets = self._body.offset_table.get(topic + _SEPARATOR + group)
        return None if offsets is None else offsets.get(queue_id)

    def put(self, topic: str, group: str, queue_id: int, offset: int) -> int | None:
        """Set an offset, also to a smaller one; return what it was, None if there was none.

        TableFullError if there are too many.
        """
        assert -(1 << 31) <= queue_id < 1 << 31, f"queue {queue_id} is no Java int"
        assert -(1 << 63) <= offset < 1 << 63, f"offset {offset} is no Java long"
        key = topic + _SEPARATOR + group
        offsets = self._body.offset_table.get(key)
        before = None if offsets is None else offsets.get(queue_id)
        if offsets is None or before is None:
            self._make_room(self._count, OFFSETS_MAX)
            self._count += 1
            offsets = self._body.offset_table.setdefault(key, {})
            self._are_groups_known = False
        elif before == offset:
            return before
        offsets[queue_id] = offset
        self._mark(key)
        self._change()
        return before

    def remove(self, topic: str, group: str) -> None:
        """Forget the offsets of a group in a topic."""
        self._remove([topic + _SEPARATOR + group])

    def remove_topic(self, topic: str) -> None:
        """Forget the offsets of every group in a topic."""
        self._remove([f"{t}{_SEPARATOR}{g}" for t, g in self.pairs() if t == topic])

    def remove_group(self, group: str) -> None:
        """Forget the offsets of a group in every topic."""
        self._remove([f"{t}{_SEPARATOR}{g}" for t, g in self.pairs() if g == group])

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            removed = self._body.offset_table.pop(key, None)
            if removed is not None:
                self._count -= len(removed)
                self._are_groups_known = False
                self._mark(key)
                self._change()
            if self._body.pull_offset_table is not None:
                self._body.pull_offset_table.pop(key, None)
