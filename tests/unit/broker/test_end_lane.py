"""The lane of commits does and answers what the ordinary way does, and leaves the rest to it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roketto.broker.handlers.transactions import ROUTES
from roketto.broker.lanes import Lanes
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import COMPACT, frame_prefix
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import HALF_OP_TOPIC
from unit.broker.send_rig import PLAIN, SendRig

HALF = PLAIN | {"TRAN_MSG": "true", "PGROUP": "G"}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = make_rig(tmp_path)
    yield rig
    rig.close()


def make_rig(root: Path, *, is_sync: bool = False) -> SendRig:
    rig = SendRig(root / "store", has_index=True, is_sync=is_sync)
    if is_sync:
        rig.config.flush_disk_type = "SYNC_FLUSH"
    rig.transactions.start()
    rig.context.topics.target("T", "TBW102", 4, False)  # as after the first message
    return rig


def fields_of(rig: SendRig) -> dict[str, str]:
    """What commits the half message that is sent here."""
    answer = rig.send(properties=HALF, f="4", g=str(rig.now_ms))
    assert answer.ext is not None
    return {
        "producerGroup": "G", "bname": "broker-a", "topic": "T",
        "commitLogOffset": str(decode_offset_id(answer.ext["msgId"]).log_offset),
        "msgId": answer.ext["transactionId"], "tranStateTableOffset": answer.ext["queueOffset"],
        "commitOrRollback": "8", "transactionId": answer.ext["transactionId"],
        "fromTransactionCheck": "false",
    }  # fmt: skip


def frame_of(fields: dict[str, object], body: bytes = b"", **members: object) -> memoryview:
    header = msgspec.json.encode(
        {"code": 37, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7,
         "serializeTypeCurrentRPC": "JSON", "version": 513, **members}
    )  # fmt: skip
    return memoryview(frame_prefix(0, len(header), len(body)) + header + body)[4:]


def ask(rig: SendRig, frame: memoryview) -> bool:
    data = b"before" + frame + b"behind"
    return Lanes(rig.context).answer(rig.connection.as_connection, data, 6, 6 + len(frame))


def test_both_ways_commit_and_answer_the_same(rig: SendRig) -> None:
    """Byte for byte; the message is there once, and so is what says that it was decided."""
    first, second = (frame_of({**fields_of(rig)}) for _ in range(2))
    told = ROUTES[RequestCode.END_TRANSACTION](
        rig.context, rig.connection.as_connection, decode_command(first)
    )
    assert isinstance(told, Command)
    assert ask(rig, second)
    assert rig.connection.take_written() == encode_command(told)
    ordinary, quick = rig.records()
    assert (quick.body, quick.properties_raw) == (ordinary.body, ordinary.properties_raw)
    assert [bytes(op.body) for op in rig.records(HALF_OP_TOPIC, 0)] == [b"0,", b"1,"]
    assert len(rig.transactions) == 0
    assert rig.context.stats.requests[37] == 1
    assert not ask(rig, second), "what was decided is for the ordinary way"
    assert len(rig.records()) == 2


def test_one_way_commits_are_carried_out_and_not_answered(rig: SendRig) -> None:
    assert ask(rig, frame_of({**fields_of(rig)}, flag=2))
    assert rig.connection.written == b""
    assert len(rig.records()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"commitOrRollback": "12"}, {"commitOrRollback": "0"}, {"producerGroup": "H"},
        {"commitLogOffset": "9"}, {"commitLogOffset": "-1"}, {"commitLogOffset": "9" * 19},
        {"tranStateTableOffset": "5"}, {"tranStateTableOffset": "x"}, {"msgId": None},
    ],
)  # fmt: skip
def test_what_is_no_plain_commit_is_left_alone(rig: SendRig, change: dict[str, object]) -> None:
    """Nothing is done, nothing is counted, and the ordinary way decides."""
    assert not ask(rig, frame_of({**fields_of(rig), **change}))
    assert rig.records() == []
    assert len(rig.transactions) == 1
    assert rig.context.stats.requests[37] == 0


def test_frames_of_another_kind_are_left_alone(rig: SendRig) -> None:
    """Other codes, answers, bodies, other serialisations, and what is too short for any."""
    fields: dict[str, object] = {**fields_of(rig)}
    text = bytes(frame_of(fields))[4:]
    others = [
        frame_of(fields, code=370),
        frame_of(fields, flag=1),
        frame_of(fields, b"body"),
        frame_of(fields, opaque="7"),
        memoryview(frame_prefix(COMPACT, len(text), 0) + text)[4:],
        memoryview(b'\0\0\0\x09{"code":3'),
    ]
    assert not any(ask(rig, frame) for frame in others)
    assert rig.records() == []


def test_what_the_store_refuses_stays_open(rig: SendRig) -> None:
    """Also while the disk is busy, and where the half message cannot be read."""
    fields: dict[str, object] = {**fields_of(rig)}
    rig.context.durability.is_busy = True
    assert not ask(rig, frame_of(fields))
    rig.context.durability.is_busy = False
    rig.store.gate.hold("the disk is 96 % full")
    assert not ask(rig, frame_of(fields))
    assert len(rig.transactions) == 1


async def test_under_sync_flush_an_answer_waits_for_the_disk(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, is_sync=True)
    request = rig.request(properties=HALF, f="4", g=str(rig.now_ms))
    assert rig.handle(request) is None
    (found,) = rig.transactions._open.values()
    fields: dict[str, object] = {
        "producerGroup": "G", "commitLogOffset": str(found.log_offset), "msgId": "A",
        "tranStateTableOffset": str(found.offset), "commitOrRollback": "8",
    }  # fmt: skip
    assert ask(rig, frame_of(fields))
    assert rig.connection.written == b""
    assert len(rig.context.durability) == 2
    rig.close()
