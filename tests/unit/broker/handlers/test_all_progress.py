"""All groups of a broker and how far each has come, in one answer that leaves others their turn."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import all_progress
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.stats import ConsumeStatsList, OffsetWrapper
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.broker.peers import Peer
from unit.broker.pull_rig import START_MS, PullRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path)
    for group in ("G", "H"):
        rig.context.groups.put(SubscriptionGroupConfig(group_name=group))
    yield rig
    rig.close()


async def ask(rig: PullRig, *, is_order: bool = False) -> ConsumeStatsList:
    request = Command(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": str(is_order).lower()})
    work = all_progress.ROUTES[RequestCode(317)](rig.context, Peer(), request)
    assert inspect.iscoroutine(work)
    answer = await work
    assert answer.code == 0
    return decode_body(ConsumeStatsList, answer.body)


async def test_every_group_is_there_with_its_queues(rig: PullRig) -> None:
    """Those without an offset have nothing to show; the differences are added up."""
    rig.send(5)
    rig.send(3, queue_id=2)
    rig.context.offsets.commit("T", "G", 0, 2)
    rig.context.offsets.note_pulled("T", "G", 0, 4)
    found = await ask(rig)
    assert found.broker_addr == "10.0.0.1:10911"
    (of_g,) = (entry["G"] for entry in found.consume_stats_list if "G" in entry)
    assert {"H": []} in found.consume_stats_list
    assert len(of_g) == 1
    broker = rig.config.broker_name
    assert of_g[0].offset_table == {
        MessageQueue(broker, 0, "T"): OffsetWrapper(5, 2, START_MS, 4),
        MessageQueue(broker, 1, "T"): OffsetWrapper(),
        MessageQueue(broker, 2, "T"): OffsetWrapper(3, 0, 0, 0),
        MessageQueue(broker, 3, "T"): OffsetWrapper(),
    }
    assert (found.total_diff, found.total_inflight_diff) == (3 + 3, 2)


async def test_topics_are_left_out_that_are_gone_unordered_or_unsubscribed(rig: PullRig) -> None:
    rig.context.topics.put(TopicConfig(topic_name="Ordered", order=True, write_queue_nums=1))
    for topic in ("T", "Ordered", "Gone"):
        rig.context.offsets.commit(topic, "G", 0, 1)

    async def topics(*, is_order: bool = False) -> set[str]:
        found = await ask(rig, is_order=is_order)
        return {
            queue.topic
            for entry in found.consume_stats_list
            for stats in entry.get("G", ())
            for queue in stats.offset_table
        }

    assert await topics() == {"T", "Ordered"}
    assert await topics(is_order=True) == {"Ordered"}
    rig.join(SubscriptionData(topic="T"))
    assert await topics() == {"T"}


async def test_others_get_their_turn_meanwhile(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_progress, "QUEUES_PER_TURN", 4)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for number in range(5):
        rig.context.topics.put(TopicConfig(topic_name=f"T{number}", write_queue_nums=4))
        rig.context.offsets.commit(f"T{number}", "G", 0, 1)
    other = asyncio.create_task(count())
    await ask(rig)
    assert turns >= 5
    other.cancel()
