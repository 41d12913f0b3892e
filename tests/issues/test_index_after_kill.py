"""Seen on 5.5.0 (and #8007): after a kill, queries by key missed most of the messages.

The index file that was not full was dropped, and only what recovery happened to read was put back.
"""

import os
from pathlib import Path

import pytest

from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue
from fault.small_store import SETTINGS, SmallStore
from roketto.protocol.ids import decode_offset_id
from roketto.store.store import Store, StoreSettings


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


async def test_every_key_of_a_killed_broker_is_found(tmp_path: Path) -> None:
    """Three lives of a broker, and a log of several files."""
    producers = Producers([Queue("T", number) for number in range(4)], seed=1)
    with Site(tmp_path, SMALL) as site:
        for _ in range(3):
            async with producers.sending_to(site.start().address):
                await producers.until_more(200, 30)
                site.kill()
        settings = StoreSettings(
            segment_bytes=65_536, queue_file_bytes=2_000, index_slots=500, index_entries=5_000
        )
        store = Store(site.root, settings)
        store.open(os.getpid())
        try:
            assert len(store._segments) > 3
            places = {sent.value: sent.place for sent in producers.evidence if sent.place}
            assert len(places) > 600
            for value, place in places.items():
                at = decode_offset_id(place.message_id).log_offset
                for key in (f"K{value}", f"U{value}"):
                    assert store.query("T", key, 9, 0, 1 << 60) == [at], key
        finally:
            store.close()
