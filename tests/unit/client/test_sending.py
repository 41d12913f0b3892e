"""A message becomes the request that Java's clients make of it, and the answer says where it is."""

from dataclasses import replace
from random import Random

import pytest

from roketto.client.errors import IllegalMessageError, RefusedError, UnreachableError
from roketto.client.identity import make_unique_ids
from roketto.client.marked import MarkedMessage, mark
from roketto.client.message import Message, MessageQueue, SendStatus
from roketto.client.send_settings import BatchSettings, Compression, SendSettings
from roketto.client.sending import Outgoing, Preparation, read_result
from roketto.protocol.batch import decode_batch
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command, encode_command
from roketto.protocol.compression import decompress
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.send import SendMessageV2Request
from roketto.protocol.headers.send_kinds import SendKinds
from roketto.protocol.properties import decode_properties
from roketto.protocol.sysflags import COMPRESSED, TRANSACTION_PREPARED

QUEUE = MessageQueue("broker-a", 3, "T")
LONG = b"compressible " * 1_000


def preparation(settings: SendSettings | None = None, namespace: str = "") -> Preparation:
    return Preparation("g", settings or SendSettings(), make_unique_ids("10.1.1.1"), namespace)


def header_of(outgoing: Outgoing) -> SendMessageV2Request:
    return decode_header(SendMessageV2Request, outgoing.command(QUEUE).ext)


def properties_of(outgoing: Outgoing) -> dict[str, str]:
    return decode_properties((header_of(outgoing).properties or "").encode())


def test_a_plain_message_has_every_field_of_the_header() -> None:
    message = Message("T", b"hi", tags="new", keys=["1", "2"], properties={"国": "中国"}, flag=5)
    outgoing = preparation().prepare(message, "T")
    header = header_of(outgoing)
    assert (header.producer_group, header.topic, header.default_topic) == ("g", "T", "TBW102")
    assert (header.default_topic_queue_nums, header.queue_id, header.sys_flag) == (4, 3, 0)
    assert (header.flag, header.reconsume_times, header.unit_mode, header.batch) == (
        5,
        0,
        False,
        False,
    )
    assert (header.broker_name, header.max_reconsume_times) == ("broker-a", None)
    assert header.born_timestamp > 1_700_000_000_000
    assert properties_of(outgoing) == {
        "国": "中国", "TAGS": "new", "KEYS": "1 2", "WAIT": "true", "UNIQ_KEY": outgoing.message_id,
    }  # fmt: skip
    assert len(outgoing.message_id) == 32
    assert outgoing.message_id.startswith("0A010101")
    assert outgoing.code == RequestCode.SEND_MESSAGE_V2
    assert message.properties == {"国": "中国"}  # it can be sent again


def test_our_brokers_read_the_header_the_quick_way() -> None:
    """From the second on: they take it for one of a kind they know."""
    kinds = SendKinds(RequestCode.SEND_MESSAGE_V2)
    prepare = preparation()
    for number in range(2):
        command = prepare.prepare(Message("T", b"hi"), "T").command(QUEUE)
        command.opaque = 7 + number
        frame = encode_command(command)
        header_bytes = int.from_bytes(frame[5:8])
        read = kinds.read(frame, 8, 8 + header_bytes)
    assert read is not None
    assert (read.topic, read.queue_id, read.opaque) == ("T", 3, b"8")


def test_a_namespace_is_told_by_a_property() -> None:
    outgoing = preparation(namespace="ns").prepare(Message("T", b"hi"), "ns%T")
    assert header_of(outgoing).topic == "ns%T"
    assert properties_of(outgoing)["INSTANCE_ID"] == "ns"


@pytest.mark.parametrize("compression", list(Compression))
def test_large_bodies_are_compressed_and_say_how(compression: Compression) -> None:
    settings = SendSettings(compression=compression, compress_bytes_min=len(LONG))
    outgoing = preparation(settings).prepare(Message("T", LONG), "T")
    flag = header_of(outgoing).sys_flag
    assert flag == COMPRESSED | compression.value
    assert decompress(outgoing.body, flag) == LONG
    shorter = preparation(settings).prepare(Message("T", LONG[:-1]), "T")
    assert (shorter.body, header_of(shorter).sys_flag) == (LONG[:-1], 0)


def test_what_compression_makes_larger_is_sent_as_it_is() -> None:
    noise = Random(7).randbytes(4_096)
    outgoing = preparation().prepare(Message("T", noise), "T")
    assert (outgoing.body, header_of(outgoing).sys_flag) == (noise, 0)
    never = preparation(SendSettings(compress_bytes_min=None))
    assert never.prepare(Message("T", LONG), "T").body == LONG


def test_marks_choose_code_flag_and_counters() -> None:
    """Half messages, replies and retries are told by properties that users cannot set."""
    half = preparation().prepare(mark(Message("T", b"x"), {"TRAN_MSG": "true"}), "T")
    assert header_of(half).sys_flag == TRANSACTION_PREPARED
    reply = preparation().prepare(MarkedMessage("T", b"x", marks={"MSG_TYPE": "reply"}), "T")
    assert reply.code == RequestCode.SEND_REPLY_MESSAGE_V2
    marks = {"RECONSUME_TIME": "4", "MAX_RECONSUME_TIMES": "16", "UNIQ_KEY": "of-the-first-time"}
    retry = preparation().prepare(MarkedMessage("%RETRY%g", b"x", marks=marks), "%RETRY%g")
    header = header_of(retry)
    assert (header.reconsume_times, header.max_reconsume_times) == (4, 16)
    assert properties_of(retry) == {"WAIT": "true", "UNIQ_KEY": "of-the-first-time"}
    other = preparation().prepare(MarkedMessage("T", b"x", marks=marks), "T")
    assert header_of(other).reconsume_times == 0  # only of retries
    assert properties_of(other)["RECONSUME_TIME"] == "4"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message("T", b""), "has 0 bytes; it takes 1 to 100"),
        (Message("T", b"x" * 101), "has 101 bytes; it takes 1 to 100"),
        (Message("T", "text"), "is str; it takes bytes"),  # type: ignore[arg-type] # on purpose
        (Message("T", b"x", properties={"UNIQ_KEY": "mine"}), "is the client's own"),
        (Message("T", b"x", properties={"a": "\ud800"}), "is not Unicode text"),
    ],
)
def test_what_no_broker_takes_is_refused_before_it_is_sent(message: Message, text: str) -> None:
    with pytest.raises(IllegalMessageError, match=text):
        preparation(SendSettings(body_bytes_max=100)).prepare(message, "T")


def test_views_of_bytes_are_bodies_too() -> None:
    outgoing = preparation().prepare(Message("T", memoryview(b"xhix")[1:3]), "T")  # type: ignore[arg-type] # as users do
    assert outgoing.body == b"hi"


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_has_its_messages_in_order_with_ids_of_their_own() -> None:
    prepare = preparation(SendSettings(compress_bytes_min=1))
    items = [prepare.item(Message("T", body, tags="t", flag=1)) for body in (b"a", b"bb", LONG)]
    outgoing = prepare.batch(items, "T")
    header = header_of(outgoing)
    assert (outgoing.code, header.batch, header.sys_flag) == (320, True, 0)
    decoded = decode_batch(outgoing.body)
    assert [bytes(item.body) for item in decoded] == [b"a", b"bb", LONG]  # never compressed
    ids = [decode_properties(item.properties_raw)["UNIQ_KEY"] for item in decoded]
    assert ",".join(ids) == outgoing.message_id
    assert len(set(ids)) == 3
    assert [item.flag for item in decoded] == [1, 1, 1]
    # Brokers of 4.9 put what the whole has behind what each message has, where it wins.
    assert properties_of(outgoing) == {"WAIT": "true"}


def test_a_batch_that_brokers_refuse_is_not_made() -> None:
    prepare = preparation(SendSettings(body_bytes_max=200))
    one = Message("T", b"x" * 50)
    for bad in (
        replace(one, delay_level=1),
        replace(one, delay_ms=5),
        replace(one, topic="%RETRY%g"),
    ):
        with pytest.raises(IllegalMessageError, match="on its own"):
            prepare.item(bad)
    cases = {
        "make one for each topic": [one, replace(one, topic="U")],
        "same wait_for_store": [one, replace(one, wait_for_store=False)],
        "make several of it": [one] * 4,
        "at least one": [],
    }
    for text, messages in cases.items():
        with pytest.raises(IllegalMessageError, match=text):
            prepare.batch([prepare.item(message) for message in messages], "T")
    with pytest.raises(IllegalMessageError, match="bytes of properties"):
        prepare.item(replace(one, properties={"a": "x" * 32_767}))


# --- answers --------------------------------------------------------------------------------------


def answer(code: int = 0, **ext: str) -> Command:
    place = {"msgId": "0A", "queueId": "3", "queueOffset": "9"}
    return Command(code, {**place, **ext}, remark="because")


def test_the_answer_says_where_a_message_is() -> None:
    outgoing = preparation().prepare(Message("T", b"hi"), "T")
    more = {"transactionId": "tx", "recallHandle": "rh", "MSG_REGION": "cn", "TRACE_ON": "false"}
    result = read_result(outgoing, QUEUE, "a:1", answer(0, **more))
    assert (result.status, result.message_id, result.offset_id) == (
        SendStatus.SEND_OK, outgoing.message_id, "0A",
    )  # fmt: skip
    assert (result.queue, result.queue_offset, result.transaction_id) == (QUEUE, 9, "tx")
    assert (result.recall_handle, result.region_id, result.is_traced) == ("rh", "cn", False)
    plain = read_result(outgoing, QUEUE, "a:1", answer(queueId="5"))
    assert (plain.region_id, plain.is_traced, plain.queue.queue_id) == ("DefaultRegion", True, 5)


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")],
)
def test_three_codes_mean_stored_but_not_safe(code: int, status: str) -> None:
    outgoing = preparation().prepare(Message("T", b"hi"), "T")
    result = read_result(outgoing, QUEUE, "a:1", answer(code))
    assert (result.status.name, result.is_ok) == (status, False)


def test_any_other_code_is_a_refusal() -> None:
    outgoing = preparation().prepare(Message("T", b"hi"), "T")
    with pytest.raises(RefusedError, match=r"NO_PERMISSION.*because") as caught:
        read_result(outgoing, QUEUE, "a:1", answer(ResponseCode.NO_PERMISSION))
    assert caught.value.code == 16
    with pytest.raises(UnreachableError, match="without saying where") as unsaid:
        read_result(outgoing, QUEUE, "a:1", Command(0))
    assert unsaid.value.is_sent


def test_a_batch_kept_whole_has_the_id_of_the_whole() -> None:
    prepare = preparation()
    outgoing = prepare.batch(
        [prepare.item(Message("T", b"a")), prepare.item(Message("T", b"b"))], "T"
    )
    assert read_result(outgoing, QUEUE, "a:1", answer()).message_id == outgoing.message_id
    assert read_result(outgoing, QUEUE, "a:1", answer(batchUniqId="U")).message_id == "U"


def test_settings_out_of_their_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="delay_ms is 0; it takes 1 to 30000"):
        BatchSettings(delay_ms=0)
    with pytest.raises(ValueError, match="sends_max is 0; it takes at least 1"):
        SendSettings(sends_max=0)
