"""Every record finds its queue and its keys once, whoever dispatches it and however often."""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from roketto.protocol.tags import tag_code
from roketto.store import dispatch
from roketto.store.commitlog import CommitLog
from roketto.store.dispatch import Arrival, Dispatcher, Stored, StoredBatch, read_stored
from roketto.store.files import Files
from roketto.store.index import Index
from roketto.store.queues import Queues
from roketto.store.record_check import BLANK_BYTES
from roketto.store.run_properties import RunProperties
from roketto.store.segments import Segments

NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 2_048


class Rig:
    """A small store without its façade."""

    def __init__(
        self, folder: Path, *, with_index: bool = True, looks_at_bytes: bool = False
    ) -> None:
        self.files = Files()
        self.segments = Segments(self.files, folder / "commitlog", SEGMENT_BYTES, BLANK_BYTES)
        self.segments.load()
        self.segments.roll()
        self.log = CommitLog(self.segments, lambda: NOW_MS, memory_bytes=1 << 30)
        self.queues = Queues(self.files, folder / "consumequeue", 2_000)
        self.index = Index(
            self.files, folder / "index", lambda: NOW_MS, UTC, 100, 400,
            hashes_at_once=looks_at_bytes,
        )  # fmt: skip
        self.arrivals: list[Arrival] = []
        self.dispatcher = Dispatcher(
            self.queues, self.index if with_index else None, self.arrivals.append, lambda n: n * 10,
            looks_at_bytes=looks_at_bytes,
        )  # fmt: skip

    def append(
        self, queue_offset: int, topic: str = "T", sys_flag: int = 0, **properties: str
    ) -> Stored:
        record = Record(topic, b"body", encode_properties(properties), sys_flag=sys_flag)
        where = self.log.append(record, queue_offset)
        return read_stored(self.log.read(where.log_offset, where.size), 0)

    def units(self, topic: str = "T") -> list[tuple[int, int, int]]:
        queue = self.queues.get(topic, 0)
        if queue is None:
            return []
        found = [queue.unit(n) for n in range(queue.queue_offset_min, queue.queue_offset_max)]
        return [(unit.log_offset, unit.size, unit.tags_code) for unit in found if unit]

    def find(self, key: str, topic: str = "T") -> list[int]:
        return self.index.query(topic, key, 32, 0, NOW_MS * 2)

    def close(self) -> None:
        self.index.close()
        self.segments.close()
        self.files.close()


@pytest.fixture(params=[False, True], ids=["as plain code looks", "as compiled code looks"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(tmp_path, looks_at_bytes=request.param)
    yield rig
    rig.close()


def test_a_record_enters_its_queue_and_is_found_by_all_its_keys(rig: Rig) -> None:
    """Unique key and each of several keys; the tag as its hash."""
    stored = rig.append(0, TAGS="TagA", KEYS="k1 k2", UNIQ_KEY="U")
    rig.dispatcher.dispatch(stored)
    assert rig.units() == [(stored.log_offset, stored.size, tag_code("TagA"))]
    for key in ("k1", "k2", "U"):
        assert rig.find(key) == [stored.log_offset]
    assert rig.find("TagA") == []


def test_an_arrival_is_announced_once(rig: Rig) -> None:
    """A repeat changes nothing and wakes nobody."""
    stored = rig.append(0, TAGS="TagA")
    for _ in range(3):
        rig.dispatcher.dispatch(stored)
    assert rig.arrivals == [
        Arrival("T", 0, 0, tag_code("TagA"), NOW_MS, encode_properties({"TAGS": "TagA"}))
    ]
    assert len(rig.units()) == 1


@pytest.mark.parametrize("looks_at_bytes", [True, False])
@pytest.mark.parametrize("with_index", [True, False])
def test_a_batch_is_dispatched_as_its_messages_one_by_one(
    tmp_path: Path, with_index: bool, looks_at_bytes: bool
) -> None:
    """Arrivals are the same once asked for."""
    together, apart = (
        Rig(tmp_path / name, with_index=with_index, looks_at_bytes=looks_at_bytes) for name in "ab"
    )
    for topic in ("T", SCHEDULE_TOPIC):
        stored = []
        for number in range(3):
            tag, unique_key = f"t{number}", f"u{number}"
            one, other = (
                each.append(number, topic, TAGS=tag, UNIQ_KEY=unique_key, KEYS="x y", DELAY="2")
                for each in (together, apart)
            )
            stored.append(one)
            apart.dispatcher.dispatch(other)
        raws = [each.properties_raw for each in stored]
        together.dispatcher.dispatch(
            StoredBatch(
                topic, 0, 0, stored[0].log_offset, [each.size for each in stored],
                stored[0].store_time_ms, RunProperties(raws),
            )
        )  # fmt: skip
        assert together.units(topic) == apart.units(topic)
        assert len(together.units(topic)) == 3
    assert len(together.arrivals) == 2
    assert [each for batch in together.arrivals for each in batch.each()] == apart.arrivals
    assert apart.arrivals[0].each() == apart.arrivals[:1]
    if with_index:
        assert together.find("x") == apart.find("x")
        assert len(together.find("u1")) == 1
    together.dispatcher.on_arrival = None
    none = RunProperties([b""])
    together.dispatcher.dispatch(StoredBatch("U", 0, 0, 10**6, [100], NOW_MS, none))
    assert together.units("U") == [(10**6, 100, 0)]


TAG = b"TAGS\x01a\x02"


@pytest.mark.parametrize(
    "raws",
    [
        [TAG] * 3,
        [b"", b""],
        [b"KEYS\x01k\x02" + TAG, b"KEYS\x01l\x02" + TAG],
        [TAG, b"TAGS\x01b\x02", TAG],
        [TAG, b"K\x01k\x02" + TAG],
        [TAG, b""],
        [b"", TAG + TAG],
        [TAG + b"TAGS\x01b\x02", b""],
        [TAG, b"", b"TAGS\x01b\x02" + TAG],
        [b"X" + TAG] * 2,
        [b"\x02" + TAG, b"X" + TAG],
        [b"X" + TAG, b"\x02" + TAG],
        [b"TAGS\x01a"] * 2,
        [b"TAGS\x01a", b"TAGS\x01ab"],
        [b"TAGS\x01ab", b"TAGS\x01a"],
        [b"TAGS\x01\x02"] * 2,
    ],
)
def test_messages_of_a_batch_have_the_codes_that_each_has_alone(
    tmp_path: Path, raws: list[bytes]
) -> None:
    """One tag at one place, or whatever else their property strings have."""
    rig = Rig(tmp_path)
    expected = [rig.dispatcher.tags_code(raw) for raw in raws]
    for topic, before in (("T", b""), ("U", b"TAGS\x01other\x02")):
        rig.dispatcher.tags_code(before)
        rig.dispatcher.dispatch(
            StoredBatch(topic, 0, 0, 0, [100] * len(raws), NOW_MS, RunProperties(raws))
        )
        assert [unit[2] for unit in rig.units(topic)] == expected


def test_arrivals_are_told_only_where_somebody_waits(tmp_path: Path) -> None:
    """Of single messages and of batches; queues and index have them all the same."""
    rig = Rig(tmp_path)
    waited: dict[tuple[str, int], object] = {}
    told: list[Arrival] = []
    dispatcher = Dispatcher(rig.queues, rig.index, told.append, None, waited)
    for number in range(3):
        dispatcher.dispatch(rig.append(number))
        waited["U", 0] = waited["T", number] = None
    dispatcher.dispatch(StoredBatch("T", 0, 3, 10**6, [100], NOW_MS, RunProperties([b""])))
    none = RunProperties([b""])
    dispatcher.dispatch(StoredBatch("T", 7, 0, 10**6 + 100, [100], NOW_MS, none))
    assert [arrival.queue_offset for arrival in told] == [1, 2, 3]
    assert len(rig.units()) == 4
    rig.close()


@pytest.mark.parametrize(
    ("raw", "tag"),
    [
        (b"", None),
        (b"TAGS\x01a\x02", "a"),
        (b"TAGS\x01a", "a"),
        (b"x\x01y\x02TAGS\x01a\x02z\x01\x02", "a"),
        (b"TAGS\x01b\x02TAGS\x01a\x02", "a"),
        (b"TAGS\x01a\x02TAGS\x01\x02KEYS\x02\x01\x02xTAGS\x01no", "a"),
        (b"xTAGS\x01a\x02", None),
        (b"TAGS\x01\x02", None),
        (b"TAGS\x01ab\x02", "ab"),
        (b"TAGS\x01\xc3\xa9\xff\x02", "\u00e9\ufffd"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"TAGS\x01a\x02", b"TAGS\x01\x02"])
def test_the_tag_is_the_last_with_a_text(
    rig: Rig, before: bytes, raw: bytes, tag: str | None
) -> None:
    """Whatever the message before had: a tag that comes again is told by its bytes."""
    for number, text in enumerate((before, raw)):
        rig.dispatcher.dispatch(Stored("T", 0, number, 100 * number, 100, 0, NOW_MS, text))
    assert rig.units()[1][2] == (tag_code(tag) if tag else 0)


def test_nobody_has_to_listen(rig: Rig) -> None:
    """Recovery dispatches before there is a broker."""
    rig.dispatcher.on_arrival = None
    rig.dispatcher.dispatch(rig.append(0))
    assert [unit[2] for unit in rig.units()] == [0]


@pytest.mark.parametrize(
    ("kind", "in_queue", "in_index"),
    [
        (TRANSACTION_COMMIT, True, True),
        (TRANSACTION_PREPARED, False, True),
        (TRANSACTION_ROLLBACK, False, False),
    ],
)
def test_transactions_show_what_java_shows(
    rig: Rig, kind: int, in_queue: bool, in_index: bool
) -> None:
    """Half messages have keys but no place in a queue, rollbacks neither."""
    rig.dispatcher.dispatch(rig.append(0, sys_flag=kind, UNIQ_KEY="U"))
    assert bool(rig.units()) == in_queue
    assert bool(rig.find("U")) == in_index


@pytest.mark.parametrize(
    ("level", "code"),
    [("3", NOW_MS + 30), ("x", NOW_MS + 1_000), ("٣", NOW_MS + 1_000)],
)
def test_a_delayed_message_carries_its_time(rig: Rig, level: str, code: int) -> None:
    """In the queue of its level the tags code is the time at which it is due."""
    rig.dispatcher.dispatch(rig.append(0, SCHEDULE_TOPIC, DELAY=level, TAGS="TagA"))
    assert [unit[2] for unit in rig.units(SCHEDULE_TOPIC)] == [code]


def test_a_message_without_a_level_among_the_delayed_has_its_tag(rig: Rig) -> None:
    rig.dispatcher.dispatch(rig.append(0, SCHEDULE_TOPIC, TAGS="a"))
    assert rig.units(SCHEDULE_TOPIC)[0][2] == tag_code("a")


def test_a_delay_without_a_table_of_levels_is_a_second(tmp_path: Path) -> None:
    """And a store without an index dispatches all the same."""
    rig = Rig(tmp_path, with_index=False)
    rig.dispatcher = Dispatcher(rig.queues, None)
    rig.dispatcher.dispatch(rig.append(0, SCHEDULE_TOPIC, DELAY="3"))
    assert [unit[2] for unit in rig.units(SCHEDULE_TOPIC)] == [NOW_MS + 1_000]
    rig.close()


def test_hashes_of_tags_are_kept_within_bounds(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are made up by clients; their hashes must not fill the memory."""
    monkeypatch.setattr(dispatch, "_CODES_KEPT_MAX", 2)
    for n in range(5):
        rig.dispatcher.dispatch(rig.append(n, TAGS=f"t{n % 3}"))
    assert [unit[2] for unit in rig.units()] == [tag_code(f"t{n % 3}") for n in range(5)]
    assert len(rig.dispatcher._codes) <= 2
