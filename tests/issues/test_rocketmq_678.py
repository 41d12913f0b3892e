"""#678: the checkpoint was saved for another reason and said that queues were on the disk.

They were not, and after a power loss nobody looked for what they lacked.
"""

from fault.small_store import ROOT, SmallStore
from roketto.store.checkpoint import load_checkpoint


def test_a_checkpoint_says_nothing_of_queues_that_are_not_synced() -> None:
    """The log is synced and the checkpoint saved; power loss then takes every unsynced sector."""
    rig = SmallStore().open()
    for _ in range(3):
        rig.append()
    rig.sync()
    derived = rig.end
    for _ in range(30):
        rig.append()
    rig.store._queues.flush()
    rig.flush()
    after_loss = rig.files.crash(1, keep=0.0)
    rig.close()
    assert after_loss.loss.total > 0, "nothing was unsynced"
    checkpoint = load_checkpoint(after_loss, ROOT / "checkpoint", rig.now_ms)
    assert checkpoint.logics_physical_offset == derived
    assert checkpoint.logics_timestamp < checkpoint.physic_timestamp
    after = rig.reopen(after_loss)
    assert after.recovered is not None
    assert (after.recovered.read_from, after.recovered.records) == (derived, 30)
    after.check()
    after.close()
