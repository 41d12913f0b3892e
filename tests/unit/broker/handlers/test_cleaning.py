"""Operators let go what is old or unused, and nothing that somebody still needs."""

import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers.cleaning import ROUTES
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.broker.peers import Peer
from unit.broker.pull_rig import PullRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path, segment_bytes=4_096)
    yield rig
    rig.close()


def ask(rig: PullRig, code: int) -> None:
    request = Command(code, opaque=7)
    reply = ROUTES[RequestCode(code)](rig.context, Peer(), request)
    answer = asyncio.run(_wait(reply)) if inspect.iscoroutine(reply) else reply
    assert isinstance(answer, Command)
    assert (answer.code, answer.opaque) == (0, 7)


async def _wait(reply: object) -> object:
    return await reply  # type: ignore[misc]


def topics_of(rig: PullRig) -> dict[str, list[int]]:
    return dict(rig.store.topics())


def age_log(rig: PullRig) -> None:
    """Let all but the last file of the log be old."""
    rig.send(200, topic="Filler")
    rig.store.close()
    for path in sorted((rig.store.root / "commitlog").iterdir())[:-1]:
        os.utime(path, (0, 0))
    rig.store.open(1)


def pass_time(rig: PullRig) -> None:
    """Some minutes in the evening, when nothing is removed by itself."""
    for _ in range(20):
        rig.now_ms += 11_000
        rig.store.tick()


def test_the_queues_of_what_is_no_topic_go(rig: PullRig) -> None:
    """Those of topics and of the system stay."""
    for topic in ("T", "Gone", "SCHEDULE_TOPIC_XXXX", "%LMQ%light"):
        rig.send(topic=topic)
    ask(rig, 316)
    assert topics_of(rig).keys() == {"T", "SCHEDULE_TOPIC_XXXX", "%LMQ%light"}


def test_queues_go_that_have_no_messages_and_no_user(rig: PullRig) -> None:
    """Not those that their topic still has, nor those that a group has an offset in."""
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=2))
    for queue_id in range(4):
        rig.send(queue_id=queue_id)
    rig.send(topic="Gone")
    rig.send(topic="SCHEDULE_TOPIC_XXXX", queue_id=3)
    rig.context.offsets.commit("T", "G", 2, 1)
    ask(rig, 306)
    assert topics_of(rig)["T"] == [0, 1, 2, 3]
    age_log(rig)
    ask(rig, 329)
    pass_time(rig)
    ask(rig, 306)
    assert topics_of(rig)["T"] == [0, 1, 2]
    assert "Gone" not in topics_of(rig)
    assert topics_of(rig)["SCHEDULE_TOPIC_XXXX"] == [3]
    rig.send()
    queue = rig.store.queue("T", 0)
    assert queue is not None
    assert (queue.queue_offset_min, queue.queue_offset_max) == (1, 2)


def test_old_files_of_the_log_go_at_once(rig: PullRig) -> None:
    """Without waiting for the hour of the day."""
    age_log(rig)
    pass_time(rig)
    assert rig.store.log.min_offset == 0
    ask(rig, 329)
    pass_time(rig)
    assert rig.store.log.min_offset > 0
