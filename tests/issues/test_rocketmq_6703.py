"""#6703: the confirmed offset stayed beyond the end of a log that had lost its unflushed tail."""

from fault.small_store import ROOT, SmallStore, cut
from roketto.store.checkpoint import load_checkpoint


def test_nothing_is_confirmed_that_the_log_does_not_have() -> None:
    """ASYNC_FLUSH, and the machine goes down: the offset is that of the last sound message."""
    rig = SmallStore().open()
    for _ in range(3):
        rig.append()
    rig.sync()
    safe_end = rig.end
    rig.append()
    rig.store._checkpoint.confirm_offset = rig.end
    rig.sync()
    rig.store._checkpoint.marks = rig.store._take_marks()._replace(flushed=safe_end)
    rig.store._save_checkpoint(rig.store._checkpoint.marks)
    image = rig.image()
    rig.close()
    assert load_checkpoint(image, ROOT / "checkpoint", rig.now_ms).confirm_offset > safe_end
    cut(image, safe_end + 20)
    after = rig.reopen(image)
    assert load_checkpoint(image, ROOT / "checkpoint", rig.now_ms).confirm_offset == safe_end
    after.check(rig.known[:3])
    after.close()
