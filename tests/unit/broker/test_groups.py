"""Consumer groups: made on first use where that is allowed, changed by operators, kept."""

from pathlib import Path

import pytest

from roketto.broker.groups import FIXED_GROUPS, Groups
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.errors import IllegalNameError
from roketto.store.files import Files
from roketto.store.group_table import GroupTable
from unit.broker.peers import ClientOptions


class Rig:
    """The groups of a directory, and how often they said that they have changed."""

    def __init__(self, path: Path) -> None:
        self.options = ClientOptions()
        self.table = GroupTable(Files(), path)
        assert self.table.load() is None
        self.groups = Groups(self.table, self.options)
        self.changes = 0
        self.groups.on_change = self.count

    def count(self) -> None:
        self.changes += 1


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_group_is_made_on_first_use(rig: Rig) -> None:
    """With Java's defaults, once; looking alone makes nothing."""
    assert rig.groups.get("G") is None
    made = rig.groups.find("G")
    assert made is not None
    assert (made.group_name, made.retry_max_times, made.retry_queue_nums) == ("G", 16, 1)
    assert rig.groups.find("G") is made
    assert rig.changes == 1
    assert rig.groups.data_version.counter == 1


def test_no_group_is_made_where_that_is_not_allowed(rig: Rig) -> None:
    """autoCreateSubscriptionGroup=false leaves it to operators, but for groups of the system."""
    rig.options.auto_create_subscription_group = False
    assert rig.groups.find("G") is None
    assert rig.groups.find("CID_RMQ_SYS_X") is not None
    rig.options.enable_create_sys_group = False
    assert rig.groups.find("CID_RMQ_SYS_Y") is None


@pytest.mark.parametrize("name", ["", " ", "a b", "../x", "g" * 121, "grüße"])
def test_no_group_is_made_with_an_illegal_name(rig: Rig, name: str) -> None:
    """A client with such a group is not served, and nothing is stored of it."""
    assert rig.groups.find(name) is None
    with pytest.raises(IllegalNameError):
        rig.groups.put(SubscriptionGroupConfig(group_name=name))
    assert not rig.groups.groups
    assert rig.changes == 0


def test_every_broker_has_some_groups(rig: Rig) -> None:
    """Those of tools and of the broker itself; what an operator made of one stays."""
    rig.groups.put(SubscriptionGroupConfig(group_name="TOOLS_CONSUMER", retry_max_times=3))
    rig.groups.create_fixed_groups()
    rig.groups.create_fixed_groups()
    assert sorted(rig.groups.groups) == sorted(FIXED_GROUPS)
    assert rig.groups.groups["TOOLS_CONSUMER"].retry_max_times == 3


def test_groups_outlive_the_process(rig: Rig, tmp_path: Path) -> None:
    """Once saved, and a removed one is gone with what it may not read."""
    rig.groups.find("G")
    rig.groups.find("H")
    changes = rig.changes
    rig.groups.forbid("H", "T", 4)
    assert rig.changes == changes + 1
    assert rig.groups.forbidden("H", "T") == 4
    assert rig.groups.remove("H")
    assert not rig.groups.remove("H")
    assert rig.groups.save()
    again = Rig(tmp_path).groups
    assert list(again.groups) == ["G"]
    assert again.forbidden("H", "T") == 0


def test_some_groups_are_told_with_what_they_may_not_read(rig: Rig) -> None:
    """A page has its own groups only; without names it is the whole table."""
    rig.groups.find("G")
    rig.groups.find("H")
    rig.table.forbid("G", "T", 4)
    rig.table.forbid("H", "T", 4)
    page = rig.groups.wrapper(["H"])
    assert list(page.subscription_group_table) == ["H"]
    assert page.forbidden_table == {"H": {"T": 4}}
    assert page.data_version == rig.groups.data_version
    assert list(rig.groups.wrapper().subscription_group_table) == ["G", "H"]
