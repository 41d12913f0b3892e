"""What a producer knows of a topic follows its route, and keeps its turn and its bounds."""

import pytest

from roketto.client import targets as module
from roketto.client.errors import IllegalMessageError, TopicNotFoundError
from roketto.client.message import MessageQueue
from roketto.client.targets import Targets
from unit.client.core_rig import TOPIC, Rig, route_data


def make(namespace: str = "") -> tuple[Rig, Targets]:
    rig = Rig(lambda address, command: command.answer(), namespace)
    return rig, Targets(rig.client, "TBW102", 2)


async def test_a_topic_is_known_after_it_was_found_and_follows_its_route() -> None:
    rig, targets = make()
    assert targets.known(TOPIC) is None
    target = await targets.find(TOPIC)
    assert targets.known(TOPIC) is target
    assert (len(target.queues), target.masters) == (4, {"broker-a": "10.0.0.1:10911"})
    turn = target.turn
    rig.routes[TOPIC] = route_data({"broker-b": {0: "10.0.0.9:10911"}}, queues=1)
    await rig.client.routes.refresh(TOPIC)
    assert targets.known(TOPIC) is target
    assert (target.queues, target.turn) == ((MessageQueue("broker-b", 0, TOPIC),), turn)


async def test_a_route_without_queues_to_write_is_none() -> None:
    rig, targets = make()
    await targets.find(TOPIC)
    rig.routes[TOPIC] = route_data({"broker-a": {0: "10.0.0.1:10911"}}, perm=4)
    await rig.client.routes.refresh(TOPIC)
    assert targets.known(TOPIC) is None
    with pytest.raises(TopicNotFoundError, match="no queue of it that can be written"):
        await targets.find(TOPIC)


async def test_a_topic_that_brokers_will_make_is_like_their_template() -> None:
    rig, targets = make()
    with pytest.raises(TopicNotFoundError, match="autoCreateTopicEnable"):
        await targets.find("New")
    rig.routes["TBW102"] = route_data({"broker-a": {0: "10.0.0.1:10911"}}, queues=8)
    assert len((await targets.find("New")).queues) == 2


async def test_a_namespace_is_the_brokers_business_only() -> None:
    rig, targets = make("ns")
    rig.routes["ns%Orders"] = rig.routes.pop(TOPIC)
    rig.routes["c_REPLY_TOPIC"] = rig.routes["ns%Orders"]
    target = await targets.find(TOPIC)
    assert (target.name, {queue.topic for queue in target.queues}) == ("ns%Orders", {TOPIC})
    assert (await targets.find("c_REPLY_TOPIC")).name == "c_REPLY_TOPIC"


async def test_names_are_checked_and_their_number_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, targets = make()
    for name in ("", "no blanks", "SCHEDULE_TOPIC_XXXX"):
        with pytest.raises(IllegalMessageError):
            await targets.find(name)
    monkeypatch.setattr(module, "_TARGETS_MAX", 2)
    for name in ("A", "B", "C"):
        rig.routes[name] = rig.routes[TOPIC]
        await targets.find(name)
    assert targets.known("A") is None
    assert targets.known("C") is not None
