"""#467: a message that was in the log but in no queue when the broker stopped was never consumed.

The next ones took its place: "logic queue order maybe wrong".
"""

import pytest

from fault.small_store import SmallStore
from roketto.store.dispatch import Dispatcher


def test_a_message_that_was_not_dispatched_is_dispatched_by_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has it, its queue has not: it comes back at its place, and others follow."""
    rig = SmallStore().open()
    for _ in range(3):
        rig.append()
    rig.sync()
    held: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(Dispatcher, "dispatch_one", lambda *stored: held.append(stored))
        rig.append()
    assert len(held) == 1
    image = rig.image()
    rig.store._files.close()
    after = rig.reopen(image)
    assert after.recovered is not None
    assert (after.recovered.records, after.recovered.misplaced) == (1, 0)
    after.append()
    after.check()
    after.close()
