"""A send that only waits is stored by the quick lane as the ordinary way stores it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roketto.broker import transactions as transactions_module
from roketto.broker.handlers.send import send_any, send_v2
from roketto.broker.handlers.transactions import ROUTES as END_ROUTES
from roketto.broker.send_answers import SendAnswers
from roketto.broker.send_lane import SendLane
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import frame_prefix
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import HALF_TOPIC, TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from unit.broker.dedup_rig import DedupRig
from unit.broker.send_rig import PLAIN, START_MS, SendRig

HALF = PLAIN | {"TRAN_MSG": "true", "PGROUP": "G"}
FIELDS = {
    "a": "G", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": str(START_MS - 5),
    "h": "0", "i": "", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store", has_index=True)
    rig.timers.start()
    rig.transactions.start()
    rig.context.topics.target("T", "TBW102", 4, False)  # as after the first message
    yield rig
    rig.close()


def frame_of(properties: dict[str, str] | str, **change: str) -> memoryview:
    """A frame as FastJSON would write it, without its length field."""
    text = properties
    if isinstance(text, dict):
        text = encode_properties(text).decode()
    header = msgspec.json.encode(
        {"code": 310, "extFields": {**FIELDS, "i": text, **change}, "flag": 0, "language": "JAVA",
         "opaque": 7, "serializeTypeCurrentRPC": "JSON", "version": 505}
    )  # fmt: skip
    return memoryview(frame_prefix(0, len(header), 5) + header + b"hello")[4:]


def ask(rig: SendRig, frame: memoryview) -> bool:
    """Whether the lane answers a frame of a kind that it knows."""
    lane = SendLane(rig.context, SendAnswers(rig.context.sending))
    place = (0, len(frame))
    assert not lane.answer(rig.connection.as_connection, bytes(frame), *place), "it knew it"
    return lane.answer(rig.connection.as_connection, bytes(frame), *place)


def ordinary(rig: SendRig, frame: memoryview) -> Command:
    """What the way answers that looks at everything."""
    answer = send_any(rig.context, rig.connection.as_connection, decode_command(frame))
    assert isinstance(answer, Command)
    return answer


def facts(record: Record) -> tuple[object, ...]:
    return (
        record.topic, record.queue_id, record.flag, record.sys_flag, record.born_time_ms,
        record.born_host, record.store_time_ms, record.store_host, record.reconsume_times,
        record.prepared_log_offset, bytes(record.body), record.properties_raw,
    )  # fmt: skip


def end_of(answer: Command, **fields: str) -> Command:
    assert answer.ext is not None
    ext = {
        "producerGroup": "G", "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(decode_offset_id(answer.ext["msgId"]).log_offset),
        "commitOrRollback": "8", "msgId": answer.ext["transactionId"],
    }  # fmt: skip
    return Command(RequestCode.END_TRANSACTION, ext | fields, opaque=9)


def end(rig: SendRig, request: Command) -> int:
    answer = rig.handle(request, END_ROUTES[RequestCode.END_TRANSACTION])
    assert isinstance(answer, Command)
    return answer.code


def send_quick(rig: SendRig, properties: dict[str, str], **change: str) -> Command:
    assert ask(rig, frame_of(properties, **change))
    return decode_command(memoryview(rig.connection.take_written())[4:])


@pytest.mark.parametrize(
    ("topic", "properties", "bits"),
    [
        (TIMER_TOPIC, PLAIN | {"TIMER_DELAY_SEC": "3600"}, "0"),
        (TIMER_TOPIC, PLAIN | {"TIMER_DELAY_MS": "1500"}, "1"),
        (TIMER_TOPIC, {"TIMER_DELIVER_MS": str(START_MS + 1), "作者": "李白"} | PLAIN, "0"),
        (HALF_TOPIC, HALF, "4"),
        (HALF_TOPIC, HALF | {"KEYS": "a b", "作者": "李白", "TRAN_MSG": "TRUE"}, "5"),
        (HALF_TOPIC, HALF, "0"),
    ],
)
def test_both_ways_store_and_answer_the_same(
    rig: SendRig, topic: str, properties: dict[str, str], bits: str
) -> None:
    """Byte for byte, but for the place in queue and log; and both are counted."""
    frame = frame_of(properties, f=bits, h="12")
    told = ordinary(rig, frame)
    quick = send_quick(rig, properties, f=bits, h="12")
    expected, found = rig.records(topic, 0)
    assert facts(found) == facts(expected)
    assert quick.ext is not None
    assert quick.ext["msgId"] == found.offset_id
    assert ("recallHandle" in quick.ext) == (topic == TIMER_TOPIC)
    assert told.ext is not None
    quick.ext.update({name: told.ext[name] for name in ("msgId", "queueOffset")})
    assert encode_command(quick) == encode_command(told)
    other = send_v2(rig.context, rig.connection.as_connection, decode_command(frame))
    assert isinstance(other, Command)
    assert other.ext is not None
    other.ext.update({name: told.ext[name] for name in ("msgId", "queueOffset")})
    assert encode_command(other) == encode_command(told), "of a header that is not JSON"
    assert {facts(record) for record in rig.records(topic, 0)} == {facts(expected)}
    assert rig.context.stats.put.count == 3
    assert len(rig.transactions) == (3 if topic == HALF_TOPIC else 0)


@pytest.mark.parametrize(
    ("properties", "change"),
    [
        (PLAIN | {"TIMER_DELAY_SEC": "3600", "TRAN_MSG": "true"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600", "TIMER_DELAY_MS": "1"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "-1"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "0"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "60s"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "\uff16\uff10"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "9" * 16}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "99999999"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600"}, {"f": "4"}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600"}, {"b": "unknown"}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600"}, {"e": "4"}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600"}, {"b": TIMER_TOPIC, "e": "0"}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600", "DELAY": "3"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600", "TIMER_DEL_UNIQKEY": "A"}, {}),
        (PLAIN | {"TIMER_DELAY_SEC": "3600", "REAL_TOPIC": "other"}, {}),
        (PLAIN | {"TIMER_DELAYED": "3600"}, {}),
        ({"TIMER_DELAY_SEC": "3600"}, {}),
        (HALF | {"TRAN_MSG": "false"}, {"f": "4"}),
        (HALF | {"DELAY": "3"}, {"f": "4"}),
        (HALF | {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}, {"f": "4"}),
        (PLAIN | {"TRAN_MSG": "true"}, {"f": "4"}),
        (HALF, {"f": "64"}),
        ("UNIQ_KEY\x01a\x02TRAN_MSG\x01true\x02PGROUP\x01G\x02PGROUP\x01H\x02", {"f": "4"}),
    ],
)
def test_whatever_says_more_is_left_alone(
    rig: SendRig, properties: dict[str, str] | str, change: dict[str, str]
) -> None:
    """Nothing is stored, and the ordinary way decides."""
    rig.context.topics.target(TIMER_TOPIC, "TBW102", 4, False)
    assert not ask(rig, frame_of(properties, **change))
    assert rig.store.log.max_offset == 0
    assert not rig.connection.written


def test_properties_may_end_without_a_mark(rig: SendRig) -> None:
    """As those of 4.x clients do."""
    text = encode_properties(PLAIN | {"TIMER_DELAY_SEC": "60"}).decode().removesuffix("\x02")
    ordinary(rig, frame_of(text))
    assert ask(rig, frame_of(text))
    expected, found = rig.records(TIMER_TOPIC, 0)
    assert facts(found) == facts(expected)


def test_a_broker_that_looks_closer_is_not_passed_by(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a wheel, with a bound for its slots, without transactions, with too many of them."""
    timer, half = frame_of(PLAIN | {"TIMER_DELAY_SEC": "60"}), frame_of(HALF, f="4")
    rig.config.timer_congest_num_each_slot = 10
    assert not ask(rig, timer)
    rig.config.timer_congest_num_each_slot = I32_MAX
    rig.config.timer_wheel_enable = False
    assert not ask(rig, timer)
    rig.config.reject_transaction_message = True
    assert not ask(rig, half)
    rig.config.reject_transaction_message = False
    monkeypatch.setattr(transactions_module, "OPEN_MAX", 0)
    assert not ask(rig, half)
    assert rig.store.log.max_offset == 0


def test_a_topic_that_takes_each_message_once_is_left_alone(tmp_path: Path) -> None:
    """Whether it has come before the ordinary way finds out."""
    rig = DedupRig(tmp_path / "store")
    rig.fill()
    assert not ask(rig, frame_of(HALF, f="4"))
    assert rig.count() == 0
    rig.close()


def test_a_refusing_store_leaves_no_transaction_and_no_note(rig: SendRig) -> None:
    """The ordinary way is refused, too, and says why."""
    rig.store.gate.hold("the disk is 96 % full")
    assert not ask(rig, frame_of(HALF, f="4"))
    assert not ask(rig, frame_of(PLAIN | {"TIMER_DELAY_SEC": "60"}))
    assert len(rig.transactions) == 0


def test_a_quick_timer_comes_once_when_it_is_due(rig: SendRig) -> None:
    """Neither before nor twice, also if the broker dies in between."""
    for _ in range(3):
        send_quick(rig, PLAIN | {"TIMER_DELAY_MS": "5000"})
    rig.timers.step()
    assert rig.timer_store.pending == 3
    rig.pass_ms(4_999)
    rig.kill()
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
    rig.timers.start()
    for _ in range(10):
        rig.timers.step()
    assert rig.records() == []
    rig.pass_ms(1_001)
    for _ in range(10):
        rig.timers.step()
    assert [bytes(record.body) for record in rig.records()] == [b"hello"] * 3


# --- how such transactions end --------------------------------------------------------------------


def test_both_ways_commit_the_same(rig: SendRig) -> None:
    """Byte for byte, but for the half message that each names; once."""
    slow = ordinary(rig, frame_of(HALF | {"KEYS": "k"}, f="4"))
    quick = send_quick(rig, HALF | {"KEYS": "k"}, f="4")
    assert end(rig, end_of(slow)) == end(rig, end_of(quick)) == 0
    expected, found = rig.records()
    halves = rig.records(HALF_TOPIC, 0)
    assert [expected.prepared_log_offset, found.prepared_log_offset] == [
        half.log_offset for half in halves
    ]
    expected.prepared_log_offset = found.prepared_log_offset
    assert facts(found) == facts(expected)
    assert end(rig, end_of(quick)) == 0
    assert len(rig.records()) == 2
    assert len(rig.transactions) == 0


@pytest.mark.parametrize(
    "fields",
    [{"producerGroup": "H"}, {"commitLogOffset": "0"}, {"tranStateTableOffset": "7"}],
)
def test_a_stranger_ends_nothing(rig: SendRig, fields: dict[str, str]) -> None:
    """Group, place in the log and place in the queue must be those of one half message."""
    send_quick(rig, HALF, f="4")
    quick = send_quick(rig, HALF, f="4")
    with pytest.raises(Exception, match=r"wrong|no half message"):
        end(rig, end_of(quick, **fields))
    assert rig.records() == []
    assert len(rig.transactions) == 2


def test_a_rollback_and_a_later_link_take_the_ordinary_way(rig: SendRig) -> None:
    """One is never seen; the other was asked about, and is committed by its new link."""
    rolled = send_quick(rig, HALF, f="4")
    assert end(rig, end_of(rolled, commitOrRollback="12")) == 0
    quick = send_quick(rig, HALF, f="4")
    rig.pass_ms(rig.config.transaction_time_out + 1)
    (found,) = rig.transactions._open.values()
    assert rig.transactions._check_one(found)
    assert end(rig, end_of(quick)) == 0
    assert len(rig.records()) == 1
    assert len(rig.transactions) == 0


def test_a_half_message_of_another_form_is_committed_the_ordinary_way(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its properties do not end with is not cut from them."""
    quick = send_quick(rig, HALF, f="4")
    (found,) = rig.transactions._open.values()
    monkeypatch.setattr(found, "queue_id", 2)
    assert end(rig, end_of(quick)) == 0
    assert len(rig.records("T", 1)) == 1


def test_a_commit_that_the_store_refuses_leaves_it_open(rig: SendRig) -> None:
    quick = send_quick(rig, HALF, f="4")
    rig.store.gate.hold("the disk is 96 % full")
    with pytest.raises(Exception, match="96 % full"):
        end(rig, end_of(quick))
    assert len(rig.transactions) == 1
    assert rig.context.stats.put_failed == 1


def test_a_bound_that_was_lowered_meanwhile_is_looked_at_closely(rig: SendRig) -> None:
    """The ordinary way commits what is within it."""
    quick = send_quick(rig, HALF, f="4")
    rig.store.log.limit_messages(5)
    assert end(rig, end_of(quick)) == 0
    rig.store.log.limit_messages(65_536 * 2)
    other = send_quick(rig, HALF, f="4")
    rig.store.log.limit_messages(4)
    with pytest.raises(Exception, match="4 are allowed"):
        end(rig, end_of(other))
    assert len(rig.records()) == len(rig.transactions) == 1


def test_transactions_of_one_group_have_one_text_for_it(rig: SendRig) -> None:
    """A hundred thousand of them may be open."""
    for group in ("G", "G", "H", "H", "G"):
        send_quick(rig, HALF | {"PGROUP": group + "roup"}, f="4")
    first, second, third, fourth, last = (found.group for found in rig.transactions._open.values())
    assert first is second
    assert third is fourth
    assert (second, third, last) == ("Group", "Hroup", "Group")
