"""A message is stored the same with and without a record of its own, and found when it is safe."""

import threading
from pathlib import Path

import pytest

from roketto.protocol.errors import IllegalNameError
from roketto.protocol.record import Record, encode_topic
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.store import Store
from unit.store.test_store import SETTINGS, SYNC, WAIT_S, Rig, bodies, message


def copy(number: int, topic: str = "T", queue_id: int = 0) -> Record:
    """A message that was stored before, and given back by a consumer."""
    record = message(number, topic, queue_id)
    record.reconsume_times, record.prepared_log_offset = number % 3, 7 * number
    return record


def append_fields(store: Store, number: int, topic: str = "T", queue_id: int = 0) -> int:
    """The same as ``store.append(copy(number))``; its log offset."""
    record = copy(number, topic, queue_id)
    place = store.appender.append_fields(
        topic, encode_topic(topic), queue_id, record.flag, record.sys_flag, record.born_time_ms,
        record.born_host, record.store_host, record.body, record.properties_raw,
        record.reconsume_times, record.prepared_log_offset,
    )  # fmt: skip
    return place[1]


def test_both_ways_leave_the_same_files(tmp_path: Path) -> None:
    """Log, queue and what is announced, over the end of a segment."""
    by_record, by_fields = (Rig(tmp_path / name) for name in ("record", "fields"))
    for rig in (by_record, by_fields):
        rig.store.open(1)
    places = [
        (by_record.store.append(copy(number)).log_offset, append_fields(by_fields.store, number))
        for number in range(100)
    ]
    assert all(first == second for first, second in places)
    assert places[-1][0] > SETTINGS.segment_bytes
    assert by_record.arrivals == by_fields.arrivals
    for rig in (by_record, by_fields):
        assert bodies(rig.store) == [b"message %d" % number for number in range(100)]
        rig.store.close()
    logs = [sorted((rig.root / "commitlog").iterdir()) for rig in (by_record, by_fields)]
    assert [path.read_bytes() for path in logs[0]] == [path.read_bytes() for path in logs[1]]


def test_fields_are_refused_as_records_are(tmp_path: Path) -> None:
    """A store that is not open, one that is full, and a queue that cannot have a directory."""
    rig = Rig(tmp_path / "store")
    with pytest.raises(PutRefusedError, match="is not open"):
        append_fields(rig.store, 0)
    rig.store.open(1)
    with pytest.raises(IllegalNameError):
        append_fields(rig.store, 0, queue_id=-1)
    rig.store.gate.hold("no room")
    with pytest.raises(PutRefusedError) as refused:
        append_fields(rig.store, 0)
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    rig.store.gate.retry()
    assert append_fields(rig.store, 0) == 0
    rig.store.close()


def test_no_file_for_the_log_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes next is refused without another attempt, until the store tries again."""
    rig = Rig(tmp_path / "store")
    rig.store.open(1)
    monkeypatch.setattr(
        rig.store.log.segments, "roll", lambda blank: (_ for _ in ()).throw(OSError("no space"))
    )
    with pytest.raises(PutRefusedError) as refused:
        append_fields(rig.store, 0)
    assert refused.value.status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert rig.store.gate.reason is not None
    monkeypatch.undo()
    rig.store.gate.retry()
    assert append_fields(rig.store, 0) == 0
    rig.store.close()


def test_fields_wait_for_the_disk_and_keep_their_places(tmp_path: Path) -> None:
    """Under SYNC_FLUSH the next one takes the place behind those that nobody sees yet."""
    wanted: list[None] = []
    store = Store(tmp_path, SYNC, on_wanted=lambda: wanted.append(None))
    store.open(1)
    for number in range(3):
        append_fields(store, number)
    assert len(wanted) == 3
    assert bodies(store) == []
    store.close()
    store = Store(tmp_path, SYNC)
    store.open(1)
    assert bodies(store) == [b"message 0", b"message 1", b"message 2"]
    store.close()


def test_whoever_wants_to_sync_for_many_messages_at_once_is_asked(tmp_path: Path) -> None:
    """Then the flushing thread is not: one sync covers what was appended until it is requested."""
    wanted: list[None] = []
    synced = threading.Event()
    store = Store(
        tmp_path, SYNC, on_flushed=lambda offset: synced.set(),
        on_wanted=lambda: wanted.append(None),
    )  # fmt: skip
    store.request_flush()
    store.open(1)
    results = [store.append(message(number)) for number in range(3)]
    assert len(wanted) == 3
    assert store.flushed == 0
    store.request_flush()
    assert synced.wait(WAIT_S)
    assert store.advance() == results[-1].end
    assert len(bodies(store)) == 3
    store.close()
