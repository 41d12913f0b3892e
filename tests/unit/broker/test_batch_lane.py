"""The quick lane of batches stores and answers what the ordinary way does, and leaves the rest."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roketto.broker.batch_lane import BatchLane
from roketto.broker.handlers.send import ROUTES
from roketto.broker.send_answers import SendAnswers
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import frame_prefix
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.put_status import PutRefusedError
from unit.broker.dedup_rig import DedupRig
from unit.broker.send_rig import START_MS, SendRig

FIELDS = {
    "a": "G", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": str(START_MS - 5),
    "h": "0", "i": "WAIT\x01true\x02", "j": "0", "k": "false", "m": "true", "n": "broker-a",
}  # fmt: skip
ITEMS = [
    BatchItem(b"first", encode_properties({"UNIQ_KEY": "A1", "KEYS": "k", "TAGS": "x"})),
    BatchItem(b"", encode_properties({"UNIQ_KEY": "A2"})),
    BatchItem(b"third" * 100, b""),
]
BATCH = encode_batch(ITEMS)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    rig.context.topics.target("T", "TBW102", 4, False)  # as after the first message
    yield rig
    rig.close()


def frame_of(
    change: dict[str, object], body: bytes = BATCH, code: int = 320, **members: object
) -> memoryview:
    """A frame as FastJSON would write it, without its length field."""
    header = {
        "code": code, "extFields": {**FIELDS, **change}, "flag": 0, "language": "JAVA",
        "opaque": 7, "serializeTypeCurrentRPC": "JSON", "version": 505, **members,
    }  # fmt: skip
    text = msgspec.json.encode(header)
    return memoryview(frame_prefix(0, len(text), len(body)) + text + body)[4:]


def ask(rig: SendRig, frame: memoryview) -> bool:
    """Whether the lane answers a frame of a kind that it knows."""
    lane = BatchLane(rig.context, SendAnswers(rig.context.sending))
    data = b"before" + frame + b"behind"
    place = (6, 6 + len(frame))
    assert not lane.answer(rig.connection.as_connection, data, *place), "it did not know it"
    return lane.answer(rig.connection.as_connection, data, *place)


def last_records(rig: SendRig, queue_id: int) -> list[Record]:
    queue = rig.store.queue("T", queue_id)
    assert queue is not None
    units = [queue.unit(queue.queue_offset_max - back) for back in (3, 2, 1)]
    return [rig.store.record_at(unit.log_offset) for unit in units if unit is not None]


def facts(record: Record) -> tuple[object, ...]:
    return (
        record.topic, record.queue_id, record.flag, record.sys_flag, record.born_time_ms,
        record.born_host, record.store_time_ms, record.store_host, record.reconsume_times,
        bytes(record.body), record.properties_raw[:-20],
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"e": "3", "h": "12"},
        {"i": ""},
        {"i": "UNIQ_KEY\x01A1,A2,A3\x02WAIT\x01true\x02"},
        {"f": "16"},
    ],
)
def test_both_ways_store_and_answer_the_same(rig: SendRig, change: dict[str, object]) -> None:
    """Byte for byte, but for the places in queue and log."""
    frame = frame_of(change)
    queue_id = int(str(change.get("e", 1)))
    request = decode_command(frame)
    route = ROUTES[RequestCode.SEND_BATCH_MESSAGE]
    told = route(rig.context, rig.connection.as_connection, request)
    assert isinstance(told, Command)
    assert told.ext is not None
    expected = last_records(rig, queue_id)
    assert ask(rig, frame)
    quick = decode_command(memoryview(rig.connection.take_written())[4:])
    assert quick.ext is not None
    found = last_records(rig, queue_id)
    assert [facts(record) for record in found] == [facts(record) for record in expected]
    assert [record.queue_offset for record in found] == [3, 4, 5]
    assert quick.ext["msgId"] == ",".join([record.offset_id for record in found])
    assert quick.ext["queueOffset"] == "3"
    quick.ext.update(msgId=told.ext["msgId"], queueOffset="0")
    assert encode_command(quick) == encode_command(told)
    assert rig.context.stats.requests[320] == 1
    assert rig.context.stats.put.count == 6


def test_one_way_batches_are_stored_and_not_answered(rig: SendRig) -> None:
    """Handled, and nothing to write."""
    assert ask(rig, frame_of({}, flag=2))
    assert rig.connection.written == b""
    assert len(last_records(rig, 1)) == 3


@pytest.mark.parametrize(
    "frame",
    [
        frame_of({"b": "unknown"}),
        frame_of({"e": "4"}),
        frame_of({"f": "4"}),
        frame_of({"f": "1"}),
        frame_of({"m": "false"}),
        frame_of({"i": "DELAY\x013\x02"}),
        frame_of({"i": "UNIQ_KEY\x01\x02"}),
        frame_of({}, BATCH[:-1]),
        frame_of({}, b""),
        frame_of({}, code=310),
        memoryview(b"\1" + bytes(frame_of({}))[1:]),
    ],
)
def test_what_is_not_plain_is_left_alone(rig: SendRig, frame: memoryview) -> None:
    """Nothing is stored, nothing is counted, and the ordinary way decides."""
    assert not ask(rig, frame)
    assert rig.store.queue("T", 1) is None
    assert rig.context.stats.requests[320] == 0
    assert rig.connection.written == b""


def test_a_refusing_store_is_asked_again_by_the_ordinary_way(rig: SendRig) -> None:
    """The lane says nothing; whoever handles the command gives the reason."""
    rig.store.gate.hold("the disk is 96 % full")
    frame = frame_of({})
    assert not ask(rig, frame)
    route = ROUTES[RequestCode.SEND_BATCH_MESSAGE]
    with pytest.raises(PutRefusedError, match="96 % full"):
        route(rig.context, rig.connection.as_connection, decode_command(frame))
    assert rig.context.stats.put_failed == 1


def test_a_topic_that_takes_each_message_once_has_no_lane_for_batches(tmp_path: Path) -> None:
    """Some of a batch may have come before."""
    rig = DedupRig(tmp_path / "store")
    rig.fill()
    assert not ask(rig, frame_of({}))
    rig.close()


async def test_under_sync_flush_an_answer_waits_for_the_disk(tmp_path: Path) -> None:
    """Unless its producer does not want to wait: whether that is so the ordinary way decides."""
    rig = SendRig(tmp_path / "store", is_sync=True)
    rig.config.flush_disk_type = "SYNC_FLUSH"
    rig.context.topics.target("T", "TBW102", 4, False)
    assert not ask(rig, frame_of({"i": "WAIT\x01false\x02"}))
    assert ask(rig, frame_of({}))
    assert rig.connection.written == b""
    assert len(rig.context.durability) == 1
    rig.close()
