"""#9084: queue entries were missing after an abnormal stop, though the log had the messages."""

import pytest

from fault.small_store import SHAPES, SmallStore


@pytest.mark.parametrize("synced", [0, 7, 19])
def test_a_kill_after_any_message_costs_no_entry_of_any_queue(synced: int) -> None:
    """Whatever was synced before: each message of the log is in its queue, and once."""
    rig = SmallStore().open()
    for number in range(20):
        rig.append(SHAPES[number % len(SHAPES)], number % 3)
        if number == synced:
            rig.sync()
        known = list(rig.known)
        after = rig.reopen(rig.image())
        assert after.recovered is not None
        assert after.recovered.misplaced == after.recovered.cut_bytes == 0
        after.check(known)
        after.close()
    rig.close()
