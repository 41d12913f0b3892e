"""The consumer groups of a broker: made on first use, configured by operators, kept in a table."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from roketto.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from roketto.protocol.bodies.topics import DataVersion
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.names import check_group, is_system_group
from roketto.store.group_table import GroupTable

__all__ = ["FIXED_GROUPS", "READ_FORBIDDEN", "Groups"]

log = logging.getLogger(__name__)

FIXED_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Groups that every broker has, whether or not it makes others on first use."""

READ_FORBIDDEN: Final = 1 << 2
"""The bit of ``forbidden`` that says a group may not read a topic."""


class GroupConfig(Protocol):
    """What is configured about groups."""

    auto_create_subscription_group: bool
    enable_create_sys_group: bool


class Groups:
    """Group -> its configuration on this broker.

    ``find`` is for clients, which bring groups into being by using them; ``get`` only looks.
    ``on_change`` is called after each change: it should be saved soon.
    """

    def __init__(self, table: GroupTable, config: GroupConfig) -> None:
        self._table = table
        self._config = config
        self.on_change: Callable[[], None] = _ignore

    def create_fixed_groups(self) -> None:
        """Make the groups that every broker has, where the table lacks them."""
        for group in FIXED_GROUPS:
            if self._table.get(group) is None:
                self._table.put(SubscriptionGroupConfig(group_name=group))

    @property
    def groups(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups by name."""
        return self._table.groups

    @property
    def data_version(self) -> DataVersion:
        """The version of the whole table."""
        return self._table.body.data_version

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group as it is configured, None if there is none."""
        return self._table.get(group)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group, made now if it may be; None if it may not, also for an illegal name."""
        found = self._table.get(group)
        if found is not None or not self._may_create(group):
            return found
        try:
            check_group(group)
        except IllegalNameError as error:
            log.debug("no group was made: %s", error)
            return None
        made = SubscriptionGroupConfig(group_name=group)
        self._table.put(made)
        self.on_change()
        log.info("group %s was made on first use", group)
        return made

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Add or replace a group; IllegalNameError, or TableFullError if there are too many."""
        check_group(group.group_name)
        self._table.put(group)
        self.on_change()

    def remove(self, group: str) -> bool:
        """Take a group out, with what it may not read; whether it was there."""
        removed = self._table.remove(group)
        self.on_change()
        return removed is not None

    def forbidden(self, group: str, topic: str) -> int:
        """What a group may not do with a topic, as bits; see READ_FORBIDDEN."""
        return self._table.forbidden(group, topic)

    def forbid(self, group: str, topic: str, bits: int) -> None:
        """Set what a group may not do with a topic; TableFullError if there is too much of it."""
        self._table.forbid(group, topic, bits)
        self.on_change()

    def wrapper(self, names: Iterable[str] | None = None) -> SubscriptionGroupWrapper:
        """These groups, or all, with what they may not read, as slaves and tools fetch them."""
        body = self._table.body
        if names is None:
            return body
        chosen = set(names)
        return SubscriptionGroupWrapper(
            data_version=body.data_version,
            forbidden_table={g: t for g, t in body.forbidden_table.items() if g in chosen},
            subscription_group_table={g: c for g, c in self.groups.items() if g in chosen},
        )

    def save(self) -> bool:
        """Bring changes to the disk; whether there were any."""
        return self._table.save_if_changed()

    def _may_create(self, group: str) -> bool:
        config = self._config
        return config.auto_create_subscription_group or (
            config.enable_create_sys_group and is_system_group(group)
        )


def _ignore() -> None:
    """Nobody listens."""
