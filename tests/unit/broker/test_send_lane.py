"""The quick lane stores and answers what the ordinary way does, and leaves the rest to it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roketto.broker.handlers.send import ROUTES
from roketto.broker.send_answers import SendAnswers
from roketto.broker.send_lane import SendLane
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import COMPACT, frame_prefix
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.errors import CorruptStoreError
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.dedup_rig import DedupRig
from unit.broker.send_rig import PLAIN, START_MS, SendRig

FIELDS = {
    "a": "G", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": str(START_MS - 5),
    "h": "0", "i": encode_properties(PLAIN).decode(), "j": "0", "k": "false", "m": "false",
    "n": "broker-a",
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store")
    rig.context.topics.target("T", "TBW102", 4, False)  # as after the first message
    yield rig
    rig.close()


def frame_of(
    fields: dict[str, object], body: bytes = b"hello", opaque: object = 7, **members: object
) -> memoryview:
    """A frame as FastJSON would write it, without its length field."""
    header = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque,
              "serializeTypeCurrentRPC": "JSON", "version": 505, **members}  # fmt: skip
    text = msgspec.json.encode(header)
    return memoryview(frame_prefix(0, len(text), len(body)) + text + body)[4:]


def ask(rig: SendRig, frame: memoryview) -> bool:
    """Whether the lane answers a frame of a kind that it knows."""
    lane = SendLane(rig.context, SendAnswers(rig.context.sending))
    data = b"before" + frame + b"behind"
    place = (6, 6 + len(frame))
    assert not lane.answer(rig.connection.as_connection, data, *place), "it did not know it"
    return lane.answer(rig.connection.as_connection, data, *place)


def last_record(rig: SendRig, queue_id: int = 1) -> Record:
    queue = rig.store.queue("T", queue_id)
    assert queue is not None
    unit = queue.unit(queue.queue_offset_max - 1)
    assert unit is not None
    return rig.store.record_at(unit.log_offset)


def facts(record: Record) -> tuple[object, ...]:
    return (
        record.topic, record.queue_id, record.flag, record.sys_flag, record.born_time_ms,
        record.born_host, record.store_time_ms, record.store_host, record.reconsume_times,
        bytes(record.body), record.properties_raw[:-20],
    )  # fmt: skip


def ordinary(rig: SendRig, frame: memoryview) -> bytes:
    """What a connection would write for this frame without a lane."""
    request = decode_command(frame)
    answer = ROUTES[RequestCode.SEND_MESSAGE_V2](rig.context, rig.connection.as_connection, request)
    assert isinstance(answer, Command)
    return encode_command(answer)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"e": "3", "f": "1", "h": "12"},
        {"i": encode_properties({**PLAIN, "KEYS": "a b", "作者": "李白"}).decode()},
        {"i": encode_properties(PLAIN).decode().removesuffix("\x02")},
        {"i": "UNIQ_KEY\x01a/b-c\x02"},
        {"i": encode_properties({**PLAIN, "XTIMER_DELAY_SEC": "3600"}).decode()},
        {"e": "3", "i": "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02"},
        {"nsd": "true", "bname": "broker-a"},
    ],
)
def test_both_ways_store_and_answer_the_same(rig: SendRig, change: dict[str, str]) -> None:
    """Byte for byte, but for the place in queue and log."""
    frame = frame_of({**FIELDS, **change})
    queue_id = int({**FIELDS, **change}["e"])
    told = ordinary(rig, frame)
    expected = last_record(rig, queue_id)
    assert ask(rig, frame)
    quick = rig.connection.take_written()
    found = last_record(rig, queue_id)
    assert facts(found) == facts(expected)
    assert found.queue_offset == expected.queue_offset + 1
    mine, theirs = (decode_command(memoryview(answer)[4:]) for answer in (quick, told))
    assert mine.ext is not None
    assert mine.ext["msgId"] == found.offset_id
    assert theirs.ext is not None
    place = {"msgId": theirs.ext["msgId"], "queueOffset": theirs.ext["queueOffset"]}
    mine.ext.update(place)
    assert encode_command(mine) == told


def test_one_way_sends_are_stored_and_not_answered(rig: SendRig) -> None:
    """Handled, and nothing to write."""
    frame = frame_of(dict(FIELDS), flag=2)
    assert ask(rig, frame)
    assert rig.connection.written == b""
    assert bytes(last_record(rig).body) == b"hello"
    assert rig.context.stats.requests[310] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"b": "unknown"}, {"e": "4"}, {"e": "-1"}, {"e": "1.0"}, {"e": ""}, {"f": "4"}, {"g": "x"},
        {"h": str(2**31)}, {"g": str(2**63)}, {"j": "1"}, {"l": "3"}, {"m": "true"},
        {"d": "99999999999"}, {"g": "9" * 5_000}, {"e": "1" * 5_000},
        {"i": "WAIT\x01true\x02"}, {"i": "XUNIQ_KEY\x01a\x02"},
        {"i": encode_properties({**PLAIN, "DELAY": "3"}).decode()},
        {"i": encode_properties({**PLAIN, "TRAN_MSG": "true"}).decode()},
        {"e": 1}, {"i": None}, {"i": 'UNIQ_KEY\x01a"b\\c\x02'},
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_alone(rig: SendRig, change: dict[str, object]) -> None:
    """Nothing is stored, nothing is counted, and the ordinary way decides."""
    frame = frame_of({**FIELDS, **change})
    assert not ask(rig, frame)
    assert rig.store.queue("T", 1) is None
    assert rig.context.stats.requests[310] == 0


def test_frames_of_another_kind_are_left_alone(rig: SendRig) -> None:
    """Other requests, answers, other serialisations, lengths that lie, an empty body."""
    plain = frame_of(dict(FIELDS))
    text = bytes(plain[4:-5])
    lying = memoryview((len(plain) + 9).to_bytes(4) + bytes(plain[4:]))
    others = [
        frame_of(dict(FIELDS), code=11),
        frame_of(dict(FIELDS), flag=1),
        frame_of(dict(FIELDS), b""),
        frame_of(dict(FIELDS), opaque="7"),
        frame_of(dict(FIELDS), opaque=-(2**31)),
        memoryview(frame_prefix(COMPACT, len(text), 5) + text + b"hello")[4:],
        memoryview(frame_prefix(0, 12, 0) + b'{"code":310,')[4:],
        memoryview(b"\0\0\0\0"),
        lying,
    ]
    assert not any(ask(rig, frame) for frame in others)
    assert rig.connection.written == b""
    assert rig.store.queue("T", 1) is None


def test_a_refusing_store_is_asked_again_by_the_ordinary_way(rig: SendRig) -> None:
    """The lane says nothing; whoever handles the command gives the reason."""
    rig.store.gate.hold("the disk is 96 % full")
    frame = frame_of(dict(FIELDS))
    assert not ask(rig, frame)
    with pytest.raises(PutRefusedError, match="96 % full") as refused:
        ordinary(rig, frame)
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_message_that_may_be_stored_is_not_stored_again(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails behind the log has it there: the ordinary way would make two of it."""

    def fail(*_: object) -> bool:
        raise CorruptStoreError(Path("consumequeue"), 20, "another message is there")

    monkeypatch.setattr(ConsumeQueue, "append", fail)
    with pytest.raises(CorruptStoreError):
        ask(rig, frame_of(dict(FIELDS)))
    assert len(list(rig.store.log.records(0))) == 1


async def test_under_sync_flush_an_answer_waits_for_the_disk(tmp_path: Path) -> None:
    """Unless its producer does not want to wait: whether that is so the ordinary way decides."""
    rig = SendRig(tmp_path / "store", is_sync=True)
    rig.config.flush_disk_type = "SYNC_FLUSH"
    rig.context.topics.target("T", "TBW102", 4, False)
    hasty = encode_properties({**PLAIN, "WAIT": "false"}).decode()
    assert not ask(rig, frame_of({**FIELDS, "i": hasty}))
    assert ask(rig, frame_of(dict(FIELDS)))
    assert rig.connection.written == b""
    assert len(rig.context.durability) == 1
    rig.close()


@pytest.mark.parametrize("by", ["UNIQ_KEY", "KEYS"])
def test_a_topic_that_takes_each_message_once_takes_the_lane(tmp_path: Path, by: str) -> None:
    """What is new is stored and answered; what may have come before is left to the ordinary way."""
    rig = DedupRig(tmp_path / "store")
    rig.attributes = {**rig.attributes, "dedup.by": by}
    rig.fill()
    frame = frame_of({**FIELDS, "i": encode_properties({**PLAIN, "KEYS": "k"}).decode()})
    assert ask(rig, frame)
    first = decode_command(memoryview(rig.connection.take_written())[4:])
    assert not ask(rig, frame)
    assert rig.count() == 1
    again = decode_command(memoryview(ordinary(rig, frame))[4:])
    assert again.ext == first.ext
    assert ask(rig, frame_of({**FIELDS, "i": "UNIQ_KEY\x01other\x02"}))
    assert rig.count() == 2
    rig.close()


def test_a_window_that_is_not_ready_is_left_to_the_ordinary_way(tmp_path: Path) -> None:
    """Which waits for it."""
    rig = DedupRig(tmp_path / "store")
    rig.context.topics.windows.drop("T")
    rig.context.topics.targets.clear()
    rig.context.topics.target("T", "TBW102", 4, False)
    assert not ask(rig, frame_of(dict(FIELDS)))
    assert rig.count() == 0
    rig.close()
