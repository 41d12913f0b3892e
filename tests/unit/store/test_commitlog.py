"""Proves that what is appended can be read, byte for byte as Java stores it, or leaves nothing."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.record.vectors import load
from roketto.clock import wall_ms
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.errors import RecordError
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_record, record_size
from roketto.protocol.record_layout import MAGIC_BLANK
from roketto.store.commitlog import CommitLog
from roketto.store.errors import CorruptStoreError, DiskFullError, StoreError
from roketto.store.files import Files, MappedFile
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.record_check import BLANK, BLANK_BYTES, check_record
from roketto.store.segments import OutsideLogError, Segments
from sim.worker import InlineWorker

SIZE = 4_096
WORKED = bytes.fromhex(
    "000000a6daa320a769c865ed000000030000000000000000000000050000000000001000000000000000018bcfe56800"
    "7f0000010000c3500000018bcfe5687b7f00000100002a9f0000000000000000000000000000000e48656c6c6f20526f"
    "636b65744d5109546f70696354657374003454414753015461674102554e49515f4b4559013746303030303031414243"
    "44303030303030303030303030303030303030304102"
)

OpenLog = Callable[..., CommitLog]


class Clock:
    """Shows the time that it is told."""

    now_ms = 1_700_000_000_123

    def __call__(self) -> int:
        return self.now_ms


class BrokenDisk(Files):
    """Refuses to make files with ``error``."""

    error: Exception | None = None

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        if self.error is not None:
            raise self.error
        return super().create_mapped(path, size)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_log(tmp_path: Path, clock: Clock) -> Iterator[OpenLog]:
    opened: list[Segments] = []

    def open_it(
        *, files: Files | None = None, size: int = SIZE, memory: int = 1_000, **options: Any
    ) -> CommitLog:
        segments = Segments(files or Files(), tmp_path / "commitlog", size, BLANK_BYTES)
        segments.load()
        opened.append(segments)
        return CommitLog(segments, clock, memory, **options)

    yield open_it
    for segments in opened:
        segments.close()


def message(body: bytes = b"body", topic: str = "TopicTest", queue_id: int = 0) -> Record:
    return Record(topic, body, b"TAGS\x01A\x02", queue_id)


def of_size(size: int) -> Record:
    """A message whose record takes ``size`` bytes."""
    return message(bytes(size - record_size(message(b""))))


def batch_of(*bodies: bytes) -> Record:
    return message(encode_batch([BatchItem(body, b"TAGS\x01A\x02") for body in bodies]))


def assert_untouched(log: CommitLog, written: int) -> None:
    """Nothing but zeros lies behind the end: a recovery would find nothing."""
    assert log.written == written
    for index in range(len(log.segments)):
        segment = log.segments[index]
        rest = log.segments.view(segment)[max(0, written - segment.start) :]
        assert not any(rest)


# --- appending ------------------------------------------------------------------------------------


def test_the_worked_record_is_stored_byte_for_byte(open_log: OpenLog) -> None:
    """At log offset 4096, with the id that Java gives it."""
    log = open_log()
    log.append_raw(SIZE, b"")
    record = Record(
        "TopicTest",
        b"Hello RocketMQ",
        encode_properties({"TAGS": "TagA", "UNIQ_KEY": "7F000001ABCD0000000000000000000A"}),
        queue_id=3,
        born_time_ms=1_700_000_000_000,
        born_host=encode_host("127.0.0.1", 50_000),
        store_host=encode_host("127.0.0.1", 10_911),
    )
    where = log.append(record, queue_offset=5)
    assert bytes(log.read(where.log_offset, where.size)) == WORKED
    assert (where.log_offset, where.size, where.end) == (4_096, 166, 4_262)
    assert where.store_time_ms == 1_700_000_000_123
    found = log.record_by_id("7F00000100002A9F0000000000001000")
    assert (found.queue_offset, found.body, found.offset_id) == (
        5,
        b"Hello RocketMQ",
        record.offset_id,
    )


def test_a_log_is_the_file_of_a_java_store(open_log: OpenLog, clock: Clock) -> None:
    """Singles, IPv6, a long topic and a batch, with the CRC property, as 5.5.0 wrote them."""
    log = open_log(append_crc=True)
    expected = b""
    for row in load("stored"):
        stored = [bytes.fromhex(record["record"]) for record in row["records"]]
        expected += b"".join(stored)
        first = decode_record(stored[0])
        clock.now_ms = first.store_time_ms
        if row["name"] == "batch":
            records = [decode_record(data) for data in stored]
            first.body = encode_batch(
                [BatchItem(it.body, it.properties_raw[:-20], it.flag) for it in records]
            )
            log.append_batch(first, first.queue_offset)
        else:
            first.properties_raw = bytes.fromhex(row["given"])
            log.append(first, first.queue_offset)
    assert bytes(log.read(0, log.written)) == expected


@pytest.mark.parametrize("left", range(BLANK_BYTES, 140))
def test_a_blank_ends_the_segment_at_every_remainder(open_log: OpenLog, left: int) -> None:
    """A record goes into it if 8 bytes are left then, and else into the next, behind a blank."""
    log = open_log()
    log.append(of_size(SIZE - left), 0)
    record = message()
    size = record_size(record)
    where = log.append(record, 1)
    if size + BLANK_BYTES <= left:
        assert where.log_offset == SIZE - left
        assert len(log.segments) == 1
    else:
        assert where.log_offset == SIZE
        assert BLANK.unpack(log.read(SIZE - left, BLANK_BYTES)) == (left, MAGIC_BLANK)
        assert check_record(log.segments.view(log.segments[0]), SIZE - left, SIZE - left) == 0
    assert [offset for offset, _, _ in log.records(0)] == [0, where.log_offset]
    assert decode_record(log.read(where.log_offset, where.size)).log_offset == where.log_offset


def test_a_batch_moves_to_the_next_segment_as_a_whole(open_log: OpenLog) -> None:
    """Its first records would have fitted."""
    log = open_log()
    log.append(of_size(SIZE - 400), 0)
    where = log.append_batch(batch_of(*[bytes(20)] * 4), 10)
    assert where.log_offset == SIZE
    assert where.end == log.written == SIZE + sum(where.sizes)
    assert where.size == sum(where.sizes)
    assert where.properties.each == [b"TAGS\x01A\x02"] * 4
    records = [decode_record(view) for _, _, view in log.records(SIZE)]
    assert [record.queue_offset for record in records] == [10, 11, 12, 13]
    assert [record.size for record in records] == where.sizes


def test_a_batch_that_fits_exactly_stays(open_log: OpenLog) -> None:
    """And one byte more moves it."""
    log = open_log()
    size = log.append_batch(batch_of(b"a", b"b"), 0).size
    log.segments.truncate(0)
    log.append(of_size(SIZE - BLANK_BYTES - size), 0)
    assert log.append_batch(batch_of(b"a", b"b"), 0).end == SIZE - BLANK_BYTES
    assert log.append_batch(batch_of(b"a"), 0).log_offset == SIZE


def test_pages_that_are_made_ahead_do_not_show_in_the_log(tmp_path: Path, clock: Clock) -> None:
    """The same bytes, with records and batches of less than a step and of more than one."""
    contents = []
    for name in ("plain", "ahead"):
        segments = Segments(Files(), tmp_path / name, SIZE, BLANK_BYTES)
        segments.load()
        if name == "ahead":
            segments.look_ahead(InlineWorker(), 256, 512)
        log = CommitLog(segments, clock, 1_000)
        for body_bytes in (10, 100, 700, 40, 2_000, 1_500, 3_900, 20, 90):
            log.append(message(bytes(body_bytes)), 0)
            log.append_batch(batch_of(*[bytes(body_bytes // 20)] * 5), 1)
        contents.append(
            bytes(b"".join(map(segments.view, (segments[n] for n in range(len(segments))))))
        )
        assert len(segments) > 4
        segments.close()
    assert contents[0] == contents[1]


def test_store_times_never_go_back(open_log: OpenLog, clock: Clock) -> None:
    """Neither with the clock nor below what recovery has found."""
    log = open_log()
    times = []
    for now_ms in (1_000, 2_000, 500, 2_000, 3_000):
        clock.now_ms = now_ms
        times.append(log.append(message(), 0).store_time_ms)
        times.append(log.append_batch(batch_of(b"x"), 0).store_time_ms)
    assert times == [1_000, 1_000, 2_000, 2_000, 2_000, 2_000, 2_000, 2_000, 3_000, 3_000]
    log.store_time_ms = 9_000
    assert log.append(message(), 0).store_time_ms == 9_000
    assert decode_record(next(log.records(0))[2]).store_time_ms == 1_000


# --- refusals -------------------------------------------------------------------------------------

TOO_LARGE = 40_000
REFUSED: dict[str, tuple[Record, PutStatus, str]] = {
    "body": (
        message(bytes(TOO_LARGE + 1)),
        PutStatus.MESSAGE_ILLEGAL,
        "40001 bytes.*maxMessageSize",
    ),
    "properties": (Record("T", b"", bytes(32_768)), PutStatus.PROPERTIES_SIZE_EXCEEDED, "32768"),
    "topic": (message(topic="T" * 128), PutStatus.MESSAGE_ILLEGAL, "128 bytes; 127 are allowed"),
    "topic in bytes": (message(topic="é" * 64), PutStatus.MESSAGE_ILLEGAL, "128 bytes; 127"),
    "retry topic": (
        message(topic="%RETRY%" + "g" * 249),
        PutStatus.MESSAGE_ILLEGAL,
        "255 are allowed",
    ),
    "segment": (message(bytes(20_000)), PutStatus.MESSAGE_ILLEGAL, "mappedFileSizeCommitLog"),
    "number": (message(queue_id=2**31), PutStatus.MESSAGE_ILLEGAL, "does not fit its field"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_large_is_refused_and_leaves_nothing(open_log: OpenLog, name: str) -> None:
    """With the status, the value, the bound and the remedy."""
    log = open_log(message_bytes_max=TOO_LARGE)
    record, status, reason = REFUSED[name]
    written = log.append(message(), 0).end
    with pytest.raises(PutRefusedError, match=reason) as caught:
        log.append(record, 0)
    assert caught.value.status is status
    assert_untouched(log, written)


def test_the_bounds_themselves_are_taken(open_log: OpenLog) -> None:
    """The largest body with the longest topic and properties."""
    log = open_log(size=1 << 17, message_bytes_max=TOO_LARGE)
    largest = Record("%RETRY%" + "g" * 248, bytes(TOO_LARGE), bytes(32_767))
    where = log.append(largest, 0)
    assert log.record_at(where.log_offset).size == where.size
    assert log.append(message(topic="é" * 63), 0).end == log.written


def test_properties_need_room_for_the_crc_property(open_log: OpenLog) -> None:
    """20 bytes of the properties are taken by it."""
    log = open_log(size=1 << 17, append_crc=True)
    log.append(Record("T", b"", b"A\x01" + b"x" * 32_744 + b"\x02"), 0)
    with pytest.raises(PutRefusedError) as caught:
        log.append(Record("T", b"", b"A\x01" + b"x" * 32_745 + b"\x02"), 0)
    assert caught.value.status is PutStatus.PROPERTIES_SIZE_EXCEEDED


def test_a_message_for_several_queues_counts_as_a_whole(open_log: OpenLog) -> None:
    """Only where such messages are enabled, as in Java."""
    many = Record("T", bytes(TOO_LARGE - 50), b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
    single = Record("T", bytes(TOO_LARGE - 50), b"A\x01B\x02")
    small = Record("T", bytes(TOO_LARGE - 500), b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
    log = open_log(size=1 << 19, message_bytes_max=TOO_LARGE, lmq=True)
    log.append(single, 0)
    written = log.append(small, 0).end
    with pytest.raises(PutRefusedError, match="several queues") as caught:
        log.append(many, 0)
    assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
    assert_untouched(log, written)
    open_log(size=1 << 19, message_bytes_max=TOO_LARGE).append(many, 0)


def test_the_bound_for_messages_can_change(open_log: OpenLog) -> None:
    """An administrator may raise it while the broker runs."""
    log = open_log(message_bytes_max=10)
    with pytest.raises(PutRefusedError):
        log.append(message(bytes(11)), 0)
    log.limit_messages(11)
    log.append(message(bytes(11)), 0)


@pytest.mark.parametrize(
    ("batch", "status", "reason"),
    [
        (message(b""), PutStatus.UNKNOWN_ERROR, "batch of 0 bytes"),
        (message(bytes(TOO_LARGE + 1)), PutStatus.UNKNOWN_ERROR, "1 to 40000"),
        (message(b"\0\0\0\x20 is no batch"), PutStatus.UNKNOWN_ERROR, "ends within the item"),
        (batch_of(*[bytes(100)] * 40), PutStatus.MESSAGE_ILLEGAL, "mappedFileSizeCommitLog"),
        (message(b"x", "T" * 128), PutStatus.MESSAGE_ILLEGAL, "127 are allowed"),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_nothing(
    open_log: OpenLog, batch: Record, status: PutStatus, reason: str
) -> None:
    """Not even its sound first items."""
    log = open_log(message_bytes_max=TOO_LARGE)
    written = log.append(message(), 0).end
    with pytest.raises(PutRefusedError, match=reason) as caught:
        log.append_batch(batch, 0)
    assert caught.value.status is status
    assert_untouched(log, written)


def test_what_is_refused_was_stored_at_no_time(open_log: OpenLog, clock: Clock) -> None:
    """The checkpoint would know of messages that are not there, and take the log for cut."""
    log = open_log()
    log.append(message(), 0)
    stored_ms, clock.now_ms = clock.now_ms, clock.now_ms + 1_000
    damaged = batch_of(b"one", b"two")
    damaged.body = damaged.body[:-1]
    for refuse in (
        lambda: log.append_batch(damaged, 1),
        lambda: log.append(of_size(SIZE), 1),
        lambda: log.append_batch(batch_of(bytes(SIZE)), 1),
    ):
        with pytest.raises(PutRefusedError):
            refuse()
        assert log.store_time_ms == stored_ms
    log.append_batch(batch_of(b"one"), 1)
    assert log.store_time_ms == clock.now_ms


@pytest.mark.parametrize("error", [DiskFullError("no room"), OSError(errno.EIO, "input/output")])
def test_without_a_next_file_the_message_is_refused_and_smaller_ones_go_on(
    open_log: OpenLog, error: Exception
) -> None:
    """No blank is written before there is somewhere to go on."""
    files = BrokenDisk()
    log = open_log(files=files)
    written = log.append(of_size(SIZE - 200), 0).end
    files.error = error
    for refuse in (
        lambda: log.append(message(bytes(200)), 0),
        lambda: log.append_batch(batch_of(bytes(200)), 0),
    ):
        with pytest.raises(PutRefusedError, match=r"no room|input/output") as caught:
            refuse()
        assert caught.value.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert_untouched(log, written)
    assert log.append(message(), 0).log_offset == written
    files.error = None
    assert log.append(message(bytes(200)), 0).log_offset == SIZE


def test_a_closed_log_takes_nothing(open_log: OpenLog) -> None:
    """The broker answers that the service is not available."""
    log = open_log()
    log.append(message(), 0)
    log.segments.close()
    with pytest.raises(PutRefusedError) as caught:
        log.append(message(), 0)
    assert caught.value.status is PutStatus.SERVICE_NOT_AVAILABLE


# --- replication ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 100, 1_000, 10_000])
def test_a_slave_has_its_masters_bytes(open_log: OpenLog, tmp_path: Path, chunk: int) -> None:
    """In chunks of any size, blanks included; records show up when they are whole."""
    master = open_log()
    for number in range(60):
        master.append(message(bytes(number * 3)), number)
    data = b"".join(
        bytes(master.segments.view(master.segments[index])) for index in range(len(master.segments))
    )[: master.written]
    segments = Segments(Files(), tmp_path / "slave", SIZE, BLANK_BYTES)
    segments.load()
    slave = CommitLog(segments, Clock(), 0)
    expected = [(offset, size) for offset, size, _ in master.records(0)]
    for at in range(0, len(data), chunk):
        slave.append_raw(at, data[at : at + chunk])
        if at % 50 == 0:
            whole = [(offset, size) for offset, size in expected if offset + size <= slave.written]
            assert [(offset, size) for offset, size, _ in slave.records(0)] == whole
    assert slave.max_offset == master.max_offset
    assert [(offset, size) for offset, size, _ in slave.records(0)] == expected
    segments.close()


def test_raw_bytes_must_continue_where_the_log_ends(open_log: OpenLog) -> None:
    """A hole or an overlap is refused with the offset to ask for."""
    log = open_log()
    with pytest.raises(StoreError, match="cannot begin at 5"):
        log.append_raw(5, b"x")
    log.append_raw(0, b"12345")
    for offset in (0, 4, 6, SIZE):
        with pytest.raises(StoreError, match="ends at 5"):
            log.append_raw(offset, b"x")
    log.append_raw(5, b"6")
    assert bytes(log.read(0, 6)) == b"123456"


# --- reading --------------------------------------------------------------------------------------


def test_marks_and_sync(open_log: OpenLog) -> None:
    """Written runs ahead, flushed follows what was synced."""
    log = open_log()
    end = log.append(message(), 0).end
    assert (log.min_offset, log.max_offset, log.written, log.flushed) == (0, end, end, 0)
    log.sync(log.flushed, log.written)
    log.segments.mark_flushed(end)
    assert log.flushed == end


def test_what_was_written_lately_is_likely_in_memory(open_log: OpenLog) -> None:
    """40 % of 1,000 bytes by default, as Java's accessMessageInMemoryMaxRatio."""
    log = open_log(memory=1_000)
    log.append(of_size(1_000), 0)
    assert log.is_likely_in_memory(600)
    assert not log.is_likely_in_memory(599)


def test_no_record_is_found_where_none_begins(open_log: OpenLog) -> None:
    """Ids come from users: they may name any place."""
    log = open_log()
    inner = decode_record(WORKED)
    first = log.append(message(WORKED), 0)
    log.append(of_size(3_500), 1)
    log.append(of_size(1_000), 2)
    assert log.record_at(0).body == WORKED
    for offset in (1, 88, first.end + 1, SIZE - 100):
        with pytest.raises(RecordError):
            log.record_at(offset)
    with pytest.raises(RecordError, match=f"says that it lies at {inner.log_offset}"):
        log.record_at(88)
    for offset in (-1, log.written, log.written + 10 * SIZE):
        with pytest.raises(OutsideLogError):
            log.record_at(offset)
    with pytest.raises(RecordError, match="not hexadecimal"):
        log.record_by_id("nonsense")


def test_records_of_a_range_end_with_the_last_whole_one(open_log: OpenLog) -> None:
    """The end may lie anywhere."""
    log = open_log()
    places = [log.append(of_size(120), number) for number in range(3)]
    for end, count in ((0, 0), (5, 0), (119, 0), (120, 1), (359, 2), (360, 3), (9_999, 3)):
        assert len(list(log.records(0, end))) == count
    assert [offset for offset, _, _ in log.records(120)] == [
        where.log_offset for where in places[1:]
    ]


@pytest.mark.parametrize(
    ("at", "patch"), [(120, b"\0" * 8), (120, b"\0\0\0\5"), (120, b"\0\0\x0f\x90")]
)
def test_damage_in_the_middle_is_named_not_skipped(
    open_log: OpenLog, at: int, patch: bytes
) -> None:
    """The file and the byte in it."""
    log = open_log()
    for number in range(3):
        log.append(of_size(120), number)
    log.segments.room[at : at + len(patch)] = patch
    records = log.records(0)
    assert next(records)[:2] == (0, 120)
    with pytest.raises(CorruptStoreError) as caught:
        next(records)
    assert (caught.value.path, caught.value.offset) == (log.segments[0].path, at)


def test_reading_goes_on_while_maps_come_and_go(tmp_path: Path) -> None:
    """A reader in an old segment is not disturbed by others that make its map go."""
    segments = Segments(Files(), tmp_path, SIZE, BLANK_BYTES, maps_max=1)
    segments.load()
    log = CommitLog(segments, Clock(), 0)
    for number in range(20):
        log.append(of_size(1_000), number)
    segments.mark_flushed(log.written)
    views = []
    for offset, _, view in log.records(0):
        log.read((offset + 2 * SIZE) % (4 * SIZE), 10)
        views.append(view)
    assert [decode_record(view).queue_offset for view in views] == list(range(20))
    del views, view
    segments.close()


steps = st.one_of(
    st.integers(0, 3_000),
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.sampled_from(["reopen", "flush"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=40), st.booleans())
def test_any_sequence_of_appends_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, sequence: list[int | list[int] | str], crc: bool
) -> None:
    """Each record where it was said to be, at its queue offset, and nothing else."""
    segments = Segments(Files(), tmp_path_factory.mktemp("log"), SIZE, BLANK_BYTES, maps_max=2)
    segments.load()
    log = CommitLog(segments, Clock(), 0, append_crc=crc)
    expected: list[tuple[int, int, bytes]] = []
    for number, step in enumerate(sequence):
        if isinstance(step, int):
            body = bytes((number,)) * step
            where = log.append(message(body), len(expected))
            expected.append((where.log_offset, where.size, body))
        elif isinstance(step, list):
            bodies = [bytes((number,)) * size for size in step]
            batch = log.append_batch(batch_of(*bodies), len(expected))
            log_offset = batch.log_offset
            for size, body in zip(batch.sizes, bodies, strict=True):
                expected.append((log_offset, size, body))
                log_offset += size
        elif step == "reopen":
            written = segments.written
            segments.close()
            segments.load()
            segments.set_positions(written, written)
        else:
            log.sync(log.flushed, log.written)
            segments.mark_flushed(log.written)
    found = []
    for index, (log_offset, size, view) in enumerate(log.records(0)):
        segment = segments.find(log_offset)
        content = segments.view(segment)
        assert check_record(content, log_offset - segment.start, log_offset) == size
        record = decode_record(view)
        assert record.queue_offset == index
        found.append((log_offset, size, bytes(record.body)))
    assert found == expected
    segments.close()


def test_the_wall_clock_stamps_records_where_it_is_the_clock(tmp_path: Path) -> None:
    segments = Segments(Files(), tmp_path, SIZE, BLANK_BYTES)
    segments.load()
    log = CommitLog(segments, wall_ms, 0)
    before_ms = wall_ms()
    times = [log.append(message(), number).store_time_ms for number in range(2)]
    times.append(log.append_batch(Record("T", encode_batch([BatchItem(b"one")])), 2).store_time_ms)
    assert before_ms <= times[0] <= times[1] <= times[2] <= wall_ms()
    segments.close()
