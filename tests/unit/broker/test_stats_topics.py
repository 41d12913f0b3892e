"""What is counted for a topic knows what kind of topic it is, and all of its meters."""

import pytest

from roketto.broker.stats_topics import GROUP_METERS, GroupStats, TopicStats
from roketto.broker.stats_window import Meter


@pytest.mark.parametrize(
    ("topic", "is_system", "is_aside", "has_queues"),
    [
        ("T", False, False, False),
        ("%RETRY%G", False, False, False),
        ("%DLQ%G", False, False, False),
        ("rmq_sys_wheel_timer", True, False, False),
        ("SCHEDULE_TOPIC_XXXX", True, False, True),
        ("RMQ_SYS_TRANS_HALF_TOPIC", True, False, False),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", True, True, False),
        ("TRANS_CHECK_MAX_TIME_TOPIC", True, True, False),
    ],
)
def test_kinds_of_topics(topic: str, is_system: bool, is_aside: bool, has_queues: bool) -> None:
    """What is not as system topics are counted, must be one."""
    found = TopicStats(topic)
    assert (found.is_system, found.is_aside, found.has_queues) == (is_system, is_aside, has_queues)


def test_every_meter_of_a_topic_is_known() -> None:
    """They are let go with it."""
    found = TopicStats("T")
    taken = found.groups["G"] = GroupStats()
    assert len(taken.meters()) == GROUP_METERS == 3
    for place in (found.latency, found.queues, taken.latency, taken.queues):
        place[0] = Meter()
    own = {found.put, taken.get, taken.send_back, taken.dead}
    by_queue = {found.latency[0], found.queues[0], taken.latency[0], taken.queues[0]}
    assert set(found.meters()) == own | by_queue
