"""Groups that were reset by time go on there without a restart, told by the broker or by 220.

They are reset by test_offsets.py, or here if that did not run: Java's clients wait ten seconds
before they go anywhere else.
"""

import pytest

from interop.broker.clients import eventually, eventually_equal
from interop.broker.moved_groups import AFTER, BY_BROKER, BY_CLIENTS, EARLY, LATE, MovedGroups

PATIENCE_S = 60.0
"""Ten seconds, a rebalance, and what a busy machine takes."""


@pytest.mark.parametrize("group", [BY_BROKER, BY_CLIENTS])
def test_a_running_group_goes_on_where_it_was_reset_to(moved: MovedGroups, group: str) -> None:
    """What is behind that comes a second time, what is before it does not."""

    def is_again() -> bool:
        counts = moved.counts(group)
        return all(counts[body] >= 2 for body in LATE) and all(counts[body] for body in AFTER)

    eventually(is_again, f"the late messages to come to {group} again", PATIENCE_S)
    counts = moved.counts(group)
    assert {body: counts[body] for body in EARLY} == dict.fromkeys(EARLY, 1)
    assert {body: counts[body] for body in LATE} == dict.fromkeys(LATE, 2)
    expected = {"broker-a:0": 5, "broker-a:1": 5}
    eventually_equal(moved.consumers[group].offsets, expected, f"the offsets of {group}")
