"""#467: a message that was in the log but in no queue when the broker stopped was never consumed.

The next ones took its place: "logic queue order maybe wrong".
"""

from fault.small_store import SmallStore
from roketto.store.dispatch import Dispatcher, Stored, StoredBatch


def test_a_message_that_was_not_dispatched_is_dispatched_by_recovery() -> None:
    """The log has it, its queue has not: it comes back at its place, and others follow."""
    rig = SmallStore().open()
    for _ in range(3):
        rig.append()
    rig.sync()
    dispatcher = rig.store._dispatcher
    held: list[object] = []

    class Idle(Dispatcher):
        def dispatch(self, stored: Stored | StoredBatch) -> None:
            held.append(stored)

    dispatcher.__class__ = Idle
    rig.append()
    rig.append()
    assert len(held) == 2
    image = rig.image()
    dispatcher.__class__ = Dispatcher
    rig.store._files.close()
    after = rig.reopen(image)
    assert after.recovered is not None
    assert (after.recovered.records, after.recovered.misplaced) == (2, 0)
    after.check()
    after.close()
