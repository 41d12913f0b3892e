"""Seen on 5.5.0 (and #8007): after a kill, queries by key missed most of the messages.

The index file that was not full was dropped, and only what recovery happened to read was put back.
"""

import pytest

from fault.small_store import SETTINGS, SmallStore


@pytest.mark.parametrize("is_synced", [True, False])
def test_every_key_is_found_after_a_kill(is_synced: bool) -> None:
    """In a log of several files, whether or not the index was ever synced."""
    rig = SmallStore().open()
    while rig.end < 4 * SETTINGS.segment_bytes:
        rig.append(queue_id=len(rig.known) % 3)
        if is_synced and len(rig.known) % 20 == 0:
            rig.sync()
    assert len(rig.store._segments) > 3
    image = rig.image()
    rig.close()
    after = rig.reopen(image)
    assert after.recovered is not None
    assert after.recovered.records == (len(rig.known) % 20 if is_synced else len(rig.known))
    for message in rig.known:
        assert message.key is not None
        assert after.store.query("T", message.key, 9, 0, 1 << 60) == [message.log_offset]
    after.close()
