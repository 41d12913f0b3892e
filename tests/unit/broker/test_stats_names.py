"""Every statistic that Java's tools ask for is found by its name and key, and nothing else is."""

import pytest

from roketto.broker.stats import Statistics
from roketto.broker.stats_names import Item, find_item

CLUSTER = "C"


def statistics(*, queues: bool = True) -> Statistics:
    return Statistics(now_s=lambda: 0.0, clock_ms=lambda: 1_000, enable_detail_stat=queues)


@pytest.fixture
def stats() -> Statistics:
    """Ten seconds of a broker that everybody uses."""
    stats = statistics()
    stats.note_put("T", 1, 4, 400, 990)
    stats.note_put("T", 1, 1, 100, 1_000)
    stats.note_put("SCHEDULE_TOPIC_XXXX", 2, 1, 150)
    stats.note_put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1, 80)
    stats.note_put_back("%DLQ%G", 0, 90, 1_000)
    stats.note_delivered(2, 140)
    stats.note_get("T", "G", 1, 3, 300, 8)
    stats.note_get("rmq_sys_TRACE_DATA", "G", 1, 2, 200)
    stats.note_send_back("T", "G")
    stats.note_dead("T", "G")
    stats.tick(10)
    return stats


@pytest.mark.parametrize(
    ("name", "key", "total", "average"),
    [
        ("TOPIC_PUT_NUMS", "T", 5, 2.5),
        ("TOPIC_PUT_SIZE", "T", 500, 250.0),
        ("TOPIC_PUT_LATENCY", "1@T", 10, 10.0),
        ("TOPIC_PUT_LATENCY", "0@T", 0, 0.0),
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2", 1, 1.0),
        ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@2", 150, 150.0),
        ("GROUP_GET_NUMS", "T@G", 3, 3.0),
        ("GROUP_GET_SIZE", "T@G", 300, 300.0),
        ("GROUP_GET_LATENCY", "1@T@G", 8, 8.0),
        ("GROUP_GET_LATENCY", "2@T@G", 0, 0.0),
        ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER", 1, 1.0),
        ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 1, 1.0),
        ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 140, 140.0),
        ("SNDBCK_PUT_NUMS", "T@G", 1, 1.0),
        ("SNDBCK2DLQ_TIMES", "null@T@G@SEND_BACK_TO_DLQ", 1, 1.0),
        ("BROKER_PUT_NUMS", CLUSTER, 6, 0.0),
        ("BROKER_GET_NUMS", CLUSTER, 5, 0.0),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER, 5, 0.0),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", CLUSTER, 3, 0.0),
    ],
)
def test_figures_are_found(
    stats: Statistics, name: str, key: str, total: int, average: float
) -> None:
    item = find_item(stats, CLUSTER, name, key)
    assert item is not None
    assert (item.minute.sum, item.minute.average) == (total, average)
    assert item.minute.tps == pytest.approx(total / 10)
    assert item.hour.sum == item.day.sum == 0


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "U"),
        ("TOPIC_PUT_NUMS", ""),
        ("TOPIC_PUT_NUMS", "rmq_sys_TRACE_DATA"),  # it was only read
        ("TOPIC_PUT_NUMS", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),  # Java counts it for the store only
        ("TOPIC_PUT_LATENCY", "0@RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        ("TOPIC_PUT_NUMS", "%DLQ%G"),
        ("TOPIC_PUT_LATENCY", "T"),
        ("TOPIC_PUT_LATENCY", "1@U"),
        ("TOPIC_PUT_LATENCY", "0@rmq_sys_TRACE_DATA"),
        ("TOPIC_PUT_LATENCY", "x@T"),
        ("TOPIC_PUT_LATENCY", "-1@T"),
        ("TOPIC_PUT_LATENCY", f"{10**12}@T"),
        ("QUEUE_PUT_NUMS", "T@1"),  # only delay levels have their own
        ("QUEUE_PUT_NUMS", "U@1"),
        ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX"),
        ("GROUP_GET_NUMS", "T"),
        ("GROUP_GET_NUMS", "T@H"),
        ("GROUP_GET_NUMS", "U@G"),
        ("GROUP_GET_LATENCY", "T@G"),
        ("GROUP_GET_LATENCY", "1@U@G"),
        ("GROUP_GET_LATENCY", "x@T@G"),
        ("GROUP_GET_LATENCY", "1@T@H"),
        ("QUEUE_GET_NUMS", "T@1@G"),
        ("QUEUE_GET_NUMS", "T@1@H"),
        ("SNDBCK_PUT_NUMS", "T@H"),
        ("SNDBCK_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER"),  # nothing was given back
        ("SNDBCK2DLQ_TIMES", "T@G"),
        ("SNDBCK2DLQ_TIMES", "null@T@H@SEND_BACK_TO_DLQ"),
        ("BROKER_PUT_NUMS", "D"),
        ("COMMERCIAL_SEND_TIMES", "T"),
        ("DLQ_PUT_NUMS", "T@G"),
        ("GROUP_ACK_NUMS", "T@G"),
        ("GROUP_GET_FALL_SIZE", "1@T@G"),
        ("no such name", "T"),
    ],
)
def test_what_nobody_has_counted_is_not_there(stats: Statistics, name: str, key: str) -> None:
    """It is refused; tools take that for 0."""
    assert find_item(stats, CLUSTER, name, key) is None


def test_without_detail_the_latencies_of_a_group_are_one() -> None:
    stats = statistics(queues=False)
    stats.note_get("T", "G", 1, 3, 300, 8)
    stats.note_get("T", "G", 2, 3, 300, 4)
    stats.tick(10)
    item = find_item(stats, CLUSTER, "GROUP_GET_LATENCY", "T@G")
    assert item is not None
    assert item.minute == (12, 1.2, 6.0, 2)
    assert find_item(stats, CLUSTER, "GROUP_GET_LATENCY", "1@T@G") is None


def test_a_broker_that_nobody_uses_has_no_totals() -> None:
    """Neither has one that only keeps its own records."""
    stats = statistics()
    stats.note_put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1, 80)
    stats.tick(10)
    for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS", "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"):
        assert find_item(stats, CLUSTER, name, CLUSTER) is None


def test_the_three_windows_of_a_day() -> None:
    """One message a second for two hours, then silence: each window has its share."""
    stats = statistics()
    for now_s in range(1, 7_201):
        stats.note_put("T", 0, 1, 100)
        stats.tick(now_s)
    assert sums(stats) == [60, 3_600, 7_200]
    for now_s in range(7_201, 9_001):
        stats.tick(now_s)
    assert sums(stats) == [0, 1_800, 7_200]
    for now_s in range(9_001, 24 * 3_600 + 1):
        stats.tick(now_s)
    assert sums(stats) == [0, 0, 7_200]
    for now_s in range(24 * 3_600 + 1, 25 * 3_600 + 1):
        stats.tick(now_s)
    assert sums(stats) == [0, 0, 3_600]


def sums(stats: Statistics) -> list[int]:
    item = find_item(stats, CLUSTER, "TOPIC_PUT_NUMS", "T")
    total = find_item(stats, CLUSTER, "BROKER_PUT_NUMS", CLUSTER)
    assert isinstance(item, Item)
    assert total is not None
    found = [figures.sum for figures in item]
    assert found == [figures.sum for figures in total]
    return found
