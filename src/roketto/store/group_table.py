"""The consumer groups of a broker, and what they may not read: ``subscriptionGroup.json``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from roketto.store.entry_table import EntryTable
from roketto.store.files import Files

__all__ = ["GROUPS_FILE", "GroupTable"]

GROUPS_FILE: Final = "subscriptionGroup.json"

GROUPS_MAX: Final = 200_000
"""As many as topics; some 130 MB of JSON."""

FORBIDDEN_MAX: Final = 10_000
"""Topics that one group may not read: by hand, so a handful."""

_MEMBER: Final = "subscriptionGroupTable"


class GroupTable(EntryTable[SubscriptionGroupWrapper]):
    """Group -> its configuration on this broker. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(
            files, config / GROUPS_FILE, SubscriptionGroupWrapper, _MEMBER, clock_ms=clock_ms
        )

    @property
    def groups(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups by name."""
        return self._body.subscription_group_table

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self._body.subscription_group_table.get(group)

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Add or replace a group; TableFullError if there are too many, or if it is too large."""
        table = self._body.subscription_group_table
        self._put(table, group.group_name, group, GROUPS_MAX, _MEMBER)

    def remove(self, group: str) -> SubscriptionGroupConfig | None:
        """Take a group out, with what it may not read; what it was, None if it was not there."""
        forbidden = self._body.forbidden_table.pop(group, None)
        removed = self._body.subscription_group_table.pop(group, None)
        if removed is not None or forbidden is not None:
            self._mark(group)
            self._change()
        return removed

    def forbidden(self, group: str, topic: str) -> int:
        """What ``group`` may not do with ``topic``, as bits; 0 if it may do everything."""
        forbidden = self._body.forbidden_table
        return forbidden.get(group, {}).get(topic, 0) if forbidden else 0

    def forbid(self, group: str, topic: str, bits: int) -> None:
        """Set these bits; 0 takes the entry away, and only that of this topic."""
        assert 0 <= bits < 1 << 31, f"{bits} is no positive Java int"
        topics = self._body.forbidden_table.get(group, {})
        if topics.get(topic, 0) == bits:
            return
        if bits:
            if topic not in topics:
                self._make_room(len(topics), FORBIDDEN_MAX)
            if not topics:
                self._make_room(len(self._body.forbidden_table), GROUPS_MAX)
            topics[topic] = bits
            self._body.forbidden_table[group] = topics
        else:
            del topics[topic]
            if not topics:
                del self._body.forbidden_table[group]
        self._change()
