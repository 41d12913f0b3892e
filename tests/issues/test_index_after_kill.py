"""Seen on 5.5.0 (and #8007): after a kill, queries by key missed most of the messages.

The index file that was not full was dropped, and only what recovery happened to read was put back.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fault.broker.planted import lose_index, planted
from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, find_by_key
from fault.small_store import SETTINGS, SmallStore
from roketto.remoting.connection import Connection


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


async def ids_of(connection: Connection, key: str) -> list[str]:
    """The ids of the messages that a broker finds by a key."""
    return [record.offset_id for record in await find_by_key(connection, "T", key)]


async def find_all(
    folder: Path, lives: int, least: int, *, program: Sequence[str] = ("roketto",)
) -> int:
    """Kill a broker some times, and ask the next one for every key; how many files its log has.

    In each life so many requests are acknowledged at the least.
    """
    producers = Producers([Queue("T", number) for number in range(4)], seed=1)
    with Site(folder, SMALL, program=program) as site:
        for _ in range(lives):
            async with producers.sending_to(site.start().address):
                await producers.until_more(least, 30)
                site.kill()
        server = site.start()
        places = {sent.value: sent.place for sent in producers.evidence if sent.place}
        assert len(places) >= lives * least
        async with connected(server.address) as connection:
            missing = [
                key
                for value, place in places.items()
                for key in (f"K{value}", f"U{value}")
                if await ids_of(connection, key) != [place.message_id]
            ]
        assert not missing, f"{len(missing)} of {2 * len(places)} keys, such as {missing[:3]}"
        return len(list((site.root / "commitlog").iterdir()))


async def test_every_key_of_a_killed_broker_is_found(tmp_path: Path) -> None:
    """Over the wire, after three kills, in a log of several files."""
    assert await find_all(tmp_path, lives=3, least=200) > 3


async def test_an_index_that_is_begun_anew_is_noticed(tmp_path: Path) -> None:
    """Planted: what Java does. The third life does not read again what the first one has sent."""
    with pytest.raises(AssertionError, match=r"^\d+ of \d+ keys, such as "):
        await find_all(tmp_path, lives=2, least=20, program=planted(lose_index))
