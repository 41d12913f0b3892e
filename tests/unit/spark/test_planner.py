"""Planning: every offset is read once, in as many tasks as options ask for."""

import random

import pytest

from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.planner import QueueRange, RangesPartition, plan, share_rows


def ranges_of(*sizes: int) -> list[QueueRange]:
    return [QueueRange("T", "b", number, 100, 100 + size) for number, size in enumerate(sizes)]


def read_by(partitions: list[RangesPartition]) -> list[tuple[int, int]]:
    """Every offset that is read, with its queue."""
    return [
        (one.queue_id, offset)
        for partition in partitions
        for one in partition.ranges
        for offset in range(one.start, one.end)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_is_read_once_whatever_is_asked_for(seed: int) -> None:
    chance = random.Random(seed)
    ranges = ranges_of(*(chance.randrange(50) for _ in range(chance.randrange(1, 9))))
    partitions = plan(
        chance.sample(ranges, len(ranges)),
        partitions_min=chance.choice([None, 1, 3, 40]),
        partition_rows_max=chance.choice([None, 1, 7, 1_000]),
        partition_rows_min=chance.choice([None, 1, 30]),
    )
    expected = [(one.queue_id, offset) for one in ranges for offset in range(one.start, one.end)]
    assert sorted(read_by(partitions)) == expected, f"seed {seed}"


def test_small_ranges_share_a_task_and_large_ones_do_not() -> None:
    partitions = plan(ranges_of(5, 5, 5, 100), partition_rows_min=10)
    assert [[one.rows for one in each.ranges] for each in partitions] == [[5, 5], [5, 100]]
    assert len(plan(ranges_of(5, 5, 5, 100), partition_rows_min=1)) == 4


@pytest.mark.parametrize(
    ("rows", "tasks"),
    [(10, 1), (10_000, 1), (100_000, 2), (500_000, 4), (2_000_000, 8), (80_000_000, 8)],
)
def test_tasks_get_more_and_larger_with_what_there_is_to_read(rows: int, tasks: int) -> None:
    """Eight queues: of a little one task reads all, of a batch each half of them, of much one."""
    sizes = [[one.rows for one in each.ranges] for each in plan(ranges_of(*[rows // 8] * 8))]
    assert len(sizes) == tasks
    assert all(len(each) == 8 // tasks for each in sizes)


def test_at_least_so_many_partitions_as_are_asked_for() -> None:
    assert len(plan(ranges_of(100), partitions_min=7)) >= 7
    assert len(plan(ranges_of(1, 1), partitions_min=7)) == 2


def test_no_partition_has_more_rows_than_it_may() -> None:
    partitions = plan(ranges_of(25, 3, 3), partition_rows_max=10, partition_rows_min=100)
    assert all(sum(one.rows for one in each.ranges) <= 10 for each in partitions)
    assert len(partitions) == 4


def test_nothing_to_read_is_no_partition() -> None:
    assert plan(ranges_of(0, 0)) == []


@pytest.mark.parametrize("rows_max", [1, 2, 10, 99, 100, 1_000])
def test_a_limit_is_shared_in_proportion_and_used_up(rows_max: int) -> None:
    available = {MessageQueue("b", number, "T"): size for number, size in enumerate([70, 20, 10])}
    shares = share_rows(available, rows_max)
    assert sum(shares.values()) == min(rows_max, 100)
    assert all(shares[queue] <= available[queue] for queue in available)
    if rows_max == 10:
        assert list(shares.values()) == [7, 2, 1]
