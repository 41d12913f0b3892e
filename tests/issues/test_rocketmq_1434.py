"""#1434: only the messages of the last file of the log were dispatched again after a crash.

The last ones of the file before it, which were in no queue either, stayed lost.
"""

from fault.small_store import SETTINGS, SmallStore


def test_messages_on_both_sides_of_a_segments_end_come_back() -> None:
    """The crash comes right after the first message of a new file."""
    rig = SmallStore().open()
    while rig.end < SETTINGS.segment_bytes * 3 // 4:
        rig.append()
    rig.sync()
    synced = len(rig.known)
    while rig.end < SETTINGS.segment_bytes:
        rig.append(queue_id=len(rig.known) % 2)
    assert rig.known[-1].log_offset == SETTINGS.segment_bytes
    image = rig.image()
    rig.close()
    after = rig.reopen(image)
    assert after.recovered is not None
    assert after.recovered.records == len(rig.known) - synced > 1
    after.check()
    after.close()
