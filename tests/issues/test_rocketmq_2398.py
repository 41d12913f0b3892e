"""#2398: the disk was full, other data was moved away, and queues stayed unwritable all the same.

Only a restart made the broker take messages again.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from roketto.protocol.record import Record, decode_records
from roketto.store.put_status import PutRefusedError
from roketto.store.store import Store, StoreSettings
from sim.files import CrashFiles
from sim.small_disk import SmallDisk

SETTINGS = StoreSettings(segment_bytes=65_536, queue_file_bytes=4_000, index_enable=False)
DISK_BYTES = 1 << 20
NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


def test_moving_other_data_away_is_enough() -> None:
    """Units that found no room are written then, and no restart is needed."""
    disk = SmallDisk(DISK_BYTES)
    files = CrashFiles(disk)
    now_ms = NOON_MS
    store = Store(Path("/store"), SETTINGS, files=files, clock_ms=lambda: now_ms, zone=UTC)
    store.open(1)
    sent: list[bytes] = []

    def send() -> None:
        body = b"%d" % len(sent)
        assert store.append(Record("T", body)).queue_offset == len(sent)
        sent.append(body)

    for _ in range(10):
        send()
    disk.taken_bytes = disk.usage(Path("/")).free  # somebody else's
    for _ in range(300):
        send()
    now_ms += 60_000
    store.tick()
    assert "consumequeue" in {call.path.parts[2] for call in disk.hits}
    with pytest.raises(PutRefusedError, match="the disk of /store/commitlog is 100 % full"):
        store.append(Record("T", b"refused"))
    disk.taken_bytes = 0
    now_ms += 1_000
    store.tick()
    send()
    store.close()

    store = Store(Path("/store"), SETTINGS, files=files, clock_ms=lambda: now_ms, zone=UTC)
    store.open(2)
    found: list[bytes] = []
    while len(found) < len(sent):
        result = store.get("T", 0, len(found), 32)
        assert result.count, f"{len(found)} of {len(sent)} messages are there"
        records = [record for view in result.views for record in decode_records(view)]
        found += [bytes(record.body) for record in records]
    assert found == sent
    store.close()
