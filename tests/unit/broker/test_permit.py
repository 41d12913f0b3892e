"""A permit to read holds until what it was given for is replaced."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roketto.broker.groups import READ_FORBIDDEN
from roketto.broker.permit import Permit
from roketto.broker.wanted import ALL
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import MessageModel, SubscriptionData
from roketto.protocol.bodies.topics import TopicConfig
from unit.broker.pull_rig import PullRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path / "store")
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_broadcast_enable=False))
    rig.join()
    yield rig
    rig.close()


def permit_of(rig: PullRig, *, by_heartbeat: bool = True) -> Permit:
    context = rig.context
    topic, group = context.topics.get("T"), context.groups.get("G")
    assert topic is not None
    assert group is not None
    subscription = context.clients.subscription("G", "T") if by_heartbeat else None
    return Permit(topic, group, subscription, ALL)


def subscribe(rig: PullRig) -> None:
    rig.join(SubscriptionData(topic="T", sub_string="a", sub_version=2))


OF_ALL: dict[str, Callable[[PullRig], object]] = {
    "topic": lambda rig: rig.context.topics.put(TopicConfig(topic_name="T")),
    "no topic": lambda rig: rig.context.topics.remove("T"),
    "group": lambda rig: rig.context.groups.put(SubscriptionGroupConfig(group_name="G")),
    "no group": lambda rig: rig.context.groups.remove("G"),
}
BY_HEARTBEAT: dict[str, Callable[[PullRig], object]] = {
    "subscription": subscribe,
    "other topic": lambda rig: rig.join(SubscriptionData(topic="U", sub_version=3)),
    "offline": lambda rig: rig.context.clients.forget(rig.connection.as_connection),
    "broadcast": lambda rig: rig.join(model=MessageModel.BROADCASTING),
    "forbidden": lambda rig: rig.context.groups.forbid("G", "T", READ_FORBIDDEN),
}


@pytest.mark.parametrize("change", OF_ALL | BY_HEARTBEAT)
@pytest.mark.parametrize("by_heartbeat", [True, False])
def test_a_permit_holds_until_something_of_it_changes(
    rig: PullRig, change: str, by_heartbeat: bool
) -> None:
    """Heartbeats are of no account where the pull itself says what it wants."""
    permit = permit_of(rig, by_heartbeat=by_heartbeat)
    assert permit.holds(rig.context, "T", "G")
    (OF_ALL | BY_HEARTBEAT)[change](rig)
    assert permit.holds(rig.context, "T", "G") is (change in BY_HEARTBEAT and not by_heartbeat)


def test_the_same_heartbeat_once_more_changes_nothing(rig: PullRig) -> None:
    """As it comes every half a minute."""
    permit = permit_of(rig)
    rig.join()
    assert permit.holds(rig.context, "T", "G")


def test_who_may_broadcast_may_go_on(rig: PullRig) -> None:
    """It is the group that says so."""
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    rig.join(model=MessageModel.BROADCASTING)
    assert permit_of(rig).holds(rig.context, "T", "G")
