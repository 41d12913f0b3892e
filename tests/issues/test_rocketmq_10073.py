"""#10073, #10074: the checkpoint's time of the queues was that of units in memory."""

from fault.small_store import SmallStore


def test_the_time_of_the_queues_is_that_of_synced_units() -> None:
    """It moves when they are on the disk, not when a message arrives or the log is synced."""
    rig = SmallStore().open()
    rig.append()
    rig.flush()
    rig.sync()
    checkpoint = rig.store._checkpoint
    synced_ms = checkpoint.logics_timestamp
    assert synced_ms == rig.store.record_at(rig.known[-1].log_offset).store_time_ms
    for _ in range(3):
        rig.append()
    rig.store._queues.flush()
    rig.flush()
    rig.flush()
    last_ms = rig.store.record_at(rig.known[-1].log_offset).store_time_ms
    assert checkpoint.physic_timestamp == last_ms
    assert checkpoint.logics_timestamp == synced_ms < last_ms
    rig.sync()
    assert checkpoint.logics_timestamp == last_ms
    rig.close()
