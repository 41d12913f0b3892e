"""What is sent is stored as Java would store it, and answered as Java would answer."""

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roketto.broker.handlers.send import ROUTES, send_any
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig, TopicFilterType
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import HeaderFieldError, RequestError
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.send import SendMessageV2Request, send_request_from_v2
from roketto.protocol.hosts import encode_host
from roketto.protocol.names import NOT_SENDABLE_TOPICS, SCHEDULE_TOPIC, TIMER_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.versions import V3_4_9
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.send_rig import HOST, PLAIN, START_MS, UNIQUE, SendRig

OWN = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    yield rig
    rig.close()


def refusal(rig: SendRig, request: Command) -> RequestError:
    with pytest.raises(RequestError) as caught:
        rig.handle(request)
    return caught.value


# --- one message ----------------------------------------------------------------------------------


def test_the_answer_says_where_the_message_is(rig: SendRig) -> None:
    """Field by field what Java's broker answers, and the record has what was sent."""
    rig.send()  # the first to a topic takes the long way, the second the short one
    answer = rig.send(body=b"second")
    first, second = rig.records()
    assert answer.code == 0
    assert answer.opaque == 5
    assert answer.ext == {
        "msgId": second.offset_id, "queueId": "1", "queueOffset": "1", "transactionId": UNIQUE,
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    assert second.body == b"second"
    assert second.properties == PLAIN | OWN
    for record in (first, second):
        assert (record.flag, record.sys_flag, record.born_time_ms) == (7, 0, 1234567)
        assert record.born_host == encode_host("10.0.0.9", 50000)
        assert record.store_host == HOST
        assert record.reconsume_times == 0


@pytest.mark.parametrize(
    ("properties", "fields"),
    [
        (PLAIN, {}),
        (PLAIN | {"KEYS": "a b", "Käse": "日本"}, {"h": "0"}),
        (PLAIN, {"f": "819"}),
        (PLAIN, {"e": "3", "h": "2147483647"}),
    ],
)
def test_both_ways_store_and_answer_the_same(
    rig: SendRig, properties: dict[str, str], fields: dict[str, Any]
) -> None:
    """The short way of plain messages differs from the long one in nothing that can be seen."""
    rig.send()
    quick = rig.handle(rig.request(properties=properties, **fields))
    slow = rig.handle(rig.request(properties=properties, **fields), send_any)
    assert isinstance(quick, Command)
    assert isinstance(slow, Command)
    assert quick.ext is not None
    assert slow.ext is not None
    for ext in (quick.ext, slow.ext):
        offset = int(ext.pop("queueOffset"))
        record = rig.records(queue_id=int(ext["queueId"]))[offset]
        assert ext.pop("msgId") == record.offset_id
    assert quick.ext == slow.ext
    one, other = rig.records(queue_id=int(quick.ext["queueId"]))[-2:]
    for name in ("properties", "body", "flag", "sys_flag", "born_time_ms", "born_host"):
        assert getattr(one, name) == getattr(other, name)


def test_properties_without_a_last_separator_are_completed(rig: SendRig) -> None:
    """Clients of 4.x do not end their properties; what the broker adds must not join the last."""
    for _ in range(2):
        rig.handle(rig.request(i=f"UNIQ_KEY\x01{UNIQUE}\x02TAGS\x01A"))
    for record in rig.records():
        assert record.properties == {"UNIQ_KEY": UNIQUE, "TAGS": "A"} | OWN


def test_a_message_without_a_unique_key_gets_one(rig: SendRig) -> None:
    """It is what the producer is told as the transaction id, and what people search for."""
    for properties in ({}, {"TAGS": "A"}, {"XUNIQ_KEY": "a"}):
        answer = rig.send(properties=properties)
        record = rig.records()[-1]
        assert answer.ext is not None
        unique = answer.ext["transactionId"]
        assert len(unique) == 32
        assert record.properties == properties | OWN | {"UNIQ_KEY": unique}


def test_what_only_brokers_set_is_replaced_or_removed(rig: SendRig) -> None:
    """A receipt of pop is dropped; region, trace and cluster are this broker's, and there once."""
    rig.send()
    for name in ("POP_CK", "CLUSTER"):
        rig.send(properties=PLAIN | {name: "x", "MSG_REGION": "y", "TRACE_ON": "false"})
        raw = rig.records()[-1].properties_raw
        assert raw.count(b"MSG_REGION") == raw.count(b"CLUSTER\x01") == 1
        assert rig.records()[-1].properties == PLAIN | OWN


def test_the_full_names_of_the_old_request_mean_the_same(rig: SendRig) -> None:
    """Code 10, as clients before 3.5.8 and some other languages send."""
    header = send_request_from_v2(decode_header(SendMessageV2Request, rig.request().ext))
    request = Command(RequestCode.SEND_MESSAGE, encode_header(header), b"hello")
    answer = rig.handle(request)
    assert isinstance(answer, Command)
    assert answer.code == 0
    assert rig.record().properties == PLAIN | OWN


def test_a_one_way_send_is_stored_and_not_answered(rig: SendRig) -> None:
    """Both ways."""
    assert rig.send_one_way() is None
    assert rig.send_one_way() is None
    assert len(rig.records()) == 2


def test_a_negative_queue_id_lets_the_broker_choose(rig: SendRig) -> None:
    """The answer names the queue; only queues that may be written to are chosen."""
    config = TopicConfig(topic_name="Narrow", read_queue_nums=9, write_queue_nums=2)
    rig.context.topics.put(config)
    for _ in range(20):
        answer = rig.send("Narrow", e="-1")
        assert answer.ext is not None
        assert answer.ext["queueId"] in ("0", "1")
    stored = len(rig.records("Narrow", 0)) + len(rig.records("Narrow", 1))
    assert stored == 20


def test_a_topic_without_queues_says_so(rig: SendRig) -> None:
    """Nothing to choose from."""
    rig.context.topics.put(TopicConfig(topic_name="Empty", read_queue_nums=1, write_queue_nums=0))
    refused = refusal(rig, rig.request("Empty", e="-1"))
    assert (refused.code, "writeQueueNums" in refused.reason) == (ResponseCode.SYSTEM_ERROR, True)


def test_host_bits_of_a_client_do_not_reach_the_record(rig: SendRig) -> None:
    """In Java one such message ends recovery at itself: the layout would not be what it says."""
    for _ in range(2):
        rig.send(f="48")
    assert [record.sys_flag for record in rig.records()] == [0, 0]


def test_an_ipv6_producer_is_kept_as_such(rig: SendRig) -> None:
    """The bit of the born host comes from the connection."""
    rig.connection.peer_host = encode_host("2001:db8::1", 4000)
    rig.send()
    assert rig.record().born_host == encode_host("2001:db8::1", 4000)
    assert rig.record().sys_flag == 0x10


def test_multi_tag_topics_mark_their_messages(rig: SendRig) -> None:
    """As Java does, though nobody uses it."""
    multi = TopicConfig(topic_name="Multi", topic_filter_type=TopicFilterType.MULTI_TAG)
    rig.context.topics.put(multi)
    rig.send("Multi")
    rig.send("Multi")
    assert [record.sys_flag for record in rig.records("Multi")] == [2, 2]


def test_puts_are_counted(rig: SendRig) -> None:
    """Once for each message, whatever way it took."""
    rig.send()
    rig.send()
    assert rig.context.stats.put.count == 2


# --- refusals -------------------------------------------------------------------------------------


def test_a_queue_beyond_the_last_is_refused(rig: SendRig) -> None:
    """Code 29, and the reason has the numbers."""
    for _ in range(2):
        refused = refusal(rig, rig.request(e="4"))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "request queueId[4] is illegal" in refused.reason
        assert "10.0.0.9:50000" in refused.reason
        rig.send()


@pytest.mark.parametrize("topic", sorted(NOT_SENDABLE_TOPICS))
def test_topics_of_the_broker_take_no_messages(rig: SendRig, topic: str) -> None:
    """Whoever could write there could forge delayed messages and transactions."""
    refused = refusal(rig, rig.request(topic))
    assert refused.code == ResponseCode.NO_PERMISSION
    assert f"Sending message to topic[{topic}] is forbidden" in refused.reason


@pytest.mark.parametrize("topic", ["", "a b", "../x", "x" * 128, "T\0"])
def test_illegal_names_are_refused(rig: SendRig, topic: str) -> None:
    """Code 29, before anything looks at the table."""
    assert refusal(rig, rig.request(topic)).code == ResponseCode.INVALID_PARAMETER


def test_an_unknown_topic_is_made_or_refused(rig: SendRig) -> None:
    """TBW102 is the model; without automatic creation the answer is 17."""
    rig.send("New")
    made = rig.context.topics.get("New")
    assert made is not None
    assert (made.write_queue_nums, made.read_queue_nums, made.perm) == (4, 4, 6)
    assert rig.changes == [made]
    rig.config.auto_create_topic_enable = False
    refused = refusal(rig, rig.request("Newer"))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert "topic[Newer] not exist, apply first please!" in refused.reason
    assert "autoCreateTopicEnable is false" in refused.reason


def test_an_ordered_topic_needs_a_broker_that_may_be_written_to(rig: SendRig) -> None:
    """Other topics are taken meanwhile: their producers go away by themselves, as with Java."""
    rig.context.topics.put(TopicConfig(topic_name="Ordered", order=True))
    rig.send("Ordered")
    rig.config.broker_permission = 4
    refused = refusal(rig, rig.request("Ordered"))
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "sending message is forbidden" in refused.reason
    rig.send("T")


def test_a_broker_may_begin_to_take_messages_later(rig: SendRig) -> None:
    """startAcceptSendRequestTimeStamp."""
    rig.send()
    rig.config.start_accept_send_request_time_stamp = rig.now_ms + 1
    refused = refusal(rig, rig.request())
    assert (refused.code, "broker unable to service" in refused.reason) == (1, True)
    rig.pass_ms(1)
    rig.send()


@pytest.mark.parametrize(
    ("field", "value"),
    [("e", "x"), ("f", ""), ("g", "1_0"), ("h", "2147483648"), ("d", "²"), ("j", "x"), ("l", "x")],
)
def test_a_field_that_is_no_number_is_named(rig: SendRig, field: str, value: str) -> None:
    """Also where the short way would have been taken, which never looks at some of them."""
    rig.send()
    fields: dict[str, Any] = {field: value}
    with pytest.raises(HeaderFieldError, match=f": {field} is |lacks {field}"):
        rig.handle(rig.request(**fields))


@pytest.mark.parametrize("field", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_a_field_that_is_missing_is_named(rig: SendRig, field: str) -> None:
    """The same for both ways."""
    rig.send()
    request = rig.request()
    assert request.ext is not None
    del request.ext[field]
    with pytest.raises(HeaderFieldError, match=f"lacks {field}"):
        rig.handle(request)


def test_a_request_without_fields_is_refused(rig: SendRig) -> None:
    """Nothing to go by."""
    with pytest.raises(HeaderFieldError):
        rig.handle(Command(RequestCode.SEND_MESSAGE_V2, None, b"x"))


def test_a_message_without_a_body_is_refused(rig: SendRig) -> None:
    """Java's clients refuse it themselves."""
    for _ in range(2):
        with pytest.raises(PutRefusedError, match="no body") as caught:
            rig.handle(rig.request(body=b""))
        assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
        rig.send()


def test_properties_that_no_record_takes_are_refused(rig: SendRig) -> None:
    """With what the broker adds they have to fit 32,767 bytes."""
    for _ in range(2):
        with pytest.raises(PutRefusedError) as caught:
            rig.handle(rig.request(properties=PLAIN | {"x": "y" * 32_680}))
        assert caught.value.status is PutStatus.PROPERTIES_SIZE_EXCEEDED
        rig.send()


def test_half_messages_may_be_forbidden(rig: SendRig) -> None:
    """By Java's option; other messages are taken."""
    rig.config.reject_transaction_message = True
    for properties in ({"TRAN_MSG": "true"}, {"TRAN_MSG": "TRUE"}):
        refused = refusal(rig, rig.request(properties=PLAIN | properties, f="4"))
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "sending transaction message is forbidden" in refused.reason
    rig.send(properties=PLAIN | {"TRAN_MSG": "false"})
    assert len(rig.records()) == 1


def test_bits_of_a_transaction_without_one_are_refused(rig: SendRig) -> None:
    """Nobody would ever consume such a message."""
    for bits in ("4", "12"):
        refused = refusal(rig, rig.request(f=bits))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert f"sysFlag {bits} marks a message" in refused.reason
    assert rig.records() == []


def test_timer_messages_wait_and_can_be_recalled(rig: SendRig) -> None:
    """Whichever of the three properties they have; the answer tells how to take them back."""
    rig.send()
    for name, value in (
        ("TIMER_DELAY_SEC", "5"), ("TIMER_DELAY_MS", "5000"),
        ("TIMER_DELIVER_MS", str(START_MS + 5000)),
    ):  # fmt: skip
        answer = rig.send(properties=PLAIN | {name: value})
        assert answer.ext is not None
        handle = urlsafe_b64decode(answer.ext["recallHandle"]).decode()
        broker = rig.config.broker_name
        assert handle == f"v1 T {broker} {START_MS + 4001} {PLAIN['UNIQ_KEY']}"
        assert (answer.ext["queueId"], answer.ext["transactionId"]) == ("1", PLAIN["UNIQ_KEY"])
    rig.send(properties=PLAIN | {"TIMER_DELIVER_LATER": "5"})
    assert len(rig.records()) == 2
    assert len(rig.records(TIMER_TOPIC, 0)) == 3


def test_only_messages_that_wait_can_be_recalled(rig: SendRig) -> None:
    """Not one that is due, has a delay level, or is tried again."""
    rig.context.topics.put(TopicConfig(topic_name="%RETRY%G", read_queue_nums=1))
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    for topic, properties in (
        ("T", {"TIMER_DELIVER_MS": "1"}),
        ("T", {"TIMER_DELAY_SEC": "5", "DELAY": "1"}),
        ("%RETRY%G", {"TIMER_DELAY_SEC": "5"}),
    ):
        answer = rig.send(topic, properties=PLAIN | properties, e="0")
        assert answer.ext is not None
        assert "recallHandle" not in answer.ext
    assert len(rig.records(TIMER_TOPIC, 0)) == 1


def test_timer_messages_are_refused_without_a_wheel(rig: SendRig) -> None:
    """Delivering them at once would be early."""
    rig.config.timer_wheel_enable = False
    with pytest.raises(PutRefusedError, match="accurate timer message is not enabled") as caught:
        rig.handle(rig.request(properties=PLAIN | {"TIMER_DELAY_MS": "5000"}))
    assert caught.value.status is PutStatus.WHEEL_TIMER_NOT_ENABLE
    assert rig.records() == rig.records(TIMER_TOPIC, 0) == []


def test_inner_batches_are_refused(rig: SendRig) -> None:
    """No queue here takes them apart."""
    rig.send()
    for request in (rig.request(f="128"), rig.request(properties=PLAIN | {"INNER_NUM": "2"})):
        with pytest.raises(PutRefusedError, match="inner batch") as caught:
            rig.handle(request)
        assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
    rig.send(properties=PLAIN | {"DINNER_NUM": "2"})
    assert len(rig.records()) == 2


def test_a_compacted_topic_needs_keys(rig: SendRig) -> None:
    """Code 13."""
    rig.context.topics.put(
        TopicConfig(topic_name="Latest", attributes={"cleanup.policy": "COMPACTION"})
    )
    rig.send("Latest", properties=PLAIN | {"KEYS": "k"})
    refused = refusal(rig, rig.request("Latest", properties=PLAIN | {"KEYS": " "}))
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "Required message key is missing" in refused.reason


# --- delays ---------------------------------------------------------------------------------------


def test_a_delayed_message_waits_in_the_queue_of_its_level(rig: SendRig) -> None:
    """The answer names the queue that was asked for; levels above the last are the last."""
    rig.send()
    answer = rig.send(properties=PLAIN | {"DELAY": "2", "TIMER_DELAY_MS": "7"})
    assert answer.ext is not None
    assert answer.ext["queueId"] == "1"
    waiting = rig.record(SCHEDULE_TOPIC, 1)
    assert waiting.properties == PLAIN | OWN | {
        "DELAY": "2", "REAL_TOPIC": "T", "REAL_QID": "1",
    }  # fmt: skip
    rig.send(properties=PLAIN | {"DELAY": "99"})
    assert rig.record(SCHEDULE_TOPIC, 3).properties["DELAY"] == "4"
    assert len(rig.records()) == 1


@pytest.mark.parametrize("level", ["0", "-1"])
def test_a_level_below_one_is_no_delay(rig: SendRig, level: str) -> None:
    """As in Java."""
    rig.send(properties=PLAIN | {"DELAY": level})
    assert rig.record().properties["DELAY"] == level


def test_a_level_that_is_no_number_is_refused(rig: SendRig) -> None:
    """Code 1, as Java's parser leads to."""
    for text in ("x", "99999999999", "2147483648"):
        refused = refusal(rig, rig.request(properties=PLAIN | {"DELAY": text}))
        assert (refused.code, text in refused.reason) == (ResponseCode.SYSTEM_ERROR, True)


# --- retry topics ---------------------------------------------------------------------------------


def test_a_retry_topic_needs_its_group(rig: SendRig) -> None:
    """Code 26 where groups are not made on first use."""
    rig.config.auto_create_subscription_group = False
    refused = refusal(rig, rig.request("%RETRY%G", e="0"))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "subscription group not exist, G" in refused.reason


def test_a_message_for_a_retry_is_put_off(rig: SendRig) -> None:
    """What a client sends when giving back has failed: one queue, whatever the model says."""
    rig.config.auto_create_topic_enable = False
    rig.send("%RETRY%G", properties=PLAIN | {"DELAY": "3"}, e="0", j="16", l="16")
    assert rig.record(SCHEDULE_TOPIC, 2).reconsume_times == 16
    made = rig.context.topics.get("%RETRY%G")
    assert made is not None
    assert made.write_queue_nums == 1


def test_one_retry_more_than_allowed_is_a_dead_letter(rig: SendRig) -> None:
    """More than, not as many as: the client has counted this try already."""
    answer = rig.send("%RETRY%G", properties=PLAIN | {"DELAY": "3"}, e="0", j="17")
    dead = rig.record("%DLQ%G", 0)
    assert dead.properties["DELAY"] == "-1"
    assert answer.ext is not None
    assert answer.ext["queueId"] == "0"
    assert rig.context.topics.get("%DLQ%G") is not None


def test_old_clients_have_no_say_in_how_often(rig: SendRig) -> None:
    """maxReconsumeTimes counts from 3.4.9 on."""
    request = rig.request("%RETRY%G", e="0", j="5", l="4")
    request.version = V3_4_9 - 1
    rig.handle(request)
    assert len(rig.records("%RETRY%G", 0)) == 1
    request.version = V3_4_9
    rig.handle(request)
    assert len(rig.records("%DLQ%G", 0)) == 1


def test_what_an_orderly_group_gives_up_is_dead_at_once(
    rig: SendRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group with queue locks retries where it is."""
    monkeypatch.setattr(rig.context.locks, "is_group_locked", lambda group: group == "G")
    rig.send("%RETRY%G", e="0", j="0")
    rig.send("%RETRY%H", e="0", j="0")
    assert len(rig.records("%DLQ%G", 0)) == 1
    assert len(rig.records("%RETRY%H", 0)) == 1


def test_a_retry_that_was_a_transaction_once_is_consumed_again(rig: SendRig) -> None:
    """Clients before 4.6.1 leave its mark and bits; with them it would be in no queue."""
    properties = PLAIN | {"TRAN_MSG": "true", "DELAY": "3"}
    rig.send("%RETRY%G", properties=properties, e="0", j="1", f="4")
    assert rig.record(SCHEDULE_TOPIC, 2).sys_flag == 0


# --- batches --------------------------------------------------------------------------------------


def batch_of(*properties: dict[str, str]) -> bytes:
    return encode_batch(
        [BatchItem(b"b%d" % n, encode_properties(p), n) for n, p in enumerate(properties)]
    )


def send_batch(rig: SendRig, body: bytes, topic: str = "T", **fields: str) -> Command:
    code = RequestCode.SEND_BATCH_MESSAGE
    return rig.send(topic, body, code=code, **{"m": "true", "i": ""} | fields)


def test_a_batch_is_stored_message_by_message_as_it_was_sent(rig: SendRig) -> None:
    """The answer has all ids, and the offset of the first."""
    rig.send()
    answer = send_batch(rig, batch_of({"A": "1"}, {"B": "2", "DELAY": "3"}))
    assert answer.ext is not None
    first, second = rig.records()[1:]
    assert answer.ext["msgId"] == f"{first.offset_id},{second.offset_id}"
    assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("1", "1")
    assert "transactionId" not in answer.ext
    assert answer.ext["MSG_REGION"] == "DefaultRegion"
    assert [first.properties["A"], second.properties["DELAY"]] == ["1", "3"]
    assert "CLUSTER" not in first.properties
    assert [first.flag, second.flag] == [0, 1]
    assert rig.context.stats.put.count == 3


def test_the_unique_key_of_a_batch_is_told(rig: SendRig) -> None:
    """Where the batch as a whole has one."""
    answer = send_batch(rig, batch_of({"A": "1"}), i="UNIQ_KEY\x01abc\x02")
    assert answer.ext is not None
    assert answer.ext["transactionId"] == "abc"


def test_batches_have_neither_retries_nor_delays_nor_transactions(rig: SendRig) -> None:
    """Code 13 for each."""
    body = batch_of({"A": "1"})
    code = RequestCode.SEND_BATCH_MESSAGE
    for topic in ("%RETRY%G", f"%DLQ%{'x' * 123}"):
        refused = refusal(rig, rig.request(topic, body, code=code, m="true", e="0"))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    refused_fields: list[dict[str, Any]] = [
        {"f": "4"}, {"f": "128"}, {"i": "DELAY\x012\x02"}, {"i": "INNER_NUM\x012\x02"},
        {"i": "TIMER_DELAY_MS\x015\x02"},
    ]  # fmt: skip
    for fields in refused_fields:
        with pytest.raises(PutRefusedError) as caught:
            rig.handle(rig.request("T", body, code=code, m="true", **fields))
        assert caught.value.status is PutStatus.MESSAGE_ILLEGAL
    assert rig.records() == []


def test_a_batch_is_one_only_if_its_header_says_so(rig: SendRig) -> None:
    """By the field, not by the code, as in Java."""
    rig.send(body=batch_of({"A": "1"}, {"B": "2"}), code=RequestCode.SEND_BATCH_MESSAGE)
    assert len(rig.records()) == 1


# --- safe answers ---------------------------------------------------------------------------------


def test_sync_flush_answers_when_the_message_is_on_the_disk(tmp_path: Path) -> None:
    """Unless the producer does not want to wait; a batch waits as well."""
    rig = SendRig(tmp_path, is_sync=True)
    for _ in range(2):
        assert rig.handle(rig.request()) is None
    assert rig.handle(rig.request(body=batch_of({"A": "1"}), m="true")) is None
    assert rig.connection.held == 3
    for value in ("false", "x"):
        assert isinstance(rig.handle(rig.request(properties=PLAIN | {"WAIT": value})), Command)
    unlike = {"UNIQ_KEY": UNIQUE, "XWAIT": "false"}
    assert rig.handle(rig.request(properties=unlike)) is None
    assert rig.send_one_way() is None
    assert rig.connection.held == 4
    rig.close()


def test_every_send_request_has_a_route() -> None:
    """Three codes."""
    assert set(ROUTES) == {10, 310, 320}


@pytest.mark.parametrize("code", sorted(ROUTES))
def test_nothing_is_stored_while_the_disk_is_busy(rig: SendRig, code: RequestCode) -> None:
    """Whichever way a message takes, it is refused before it is written; then it is taken."""
    rig.send()  # so that the next one takes the short way
    end = rig.store.log.max_offset
    rig.context.durability.is_busy = True
    request = rig.request(code=code)
    if code is RequestCode.SEND_MESSAGE:
        header = send_request_from_v2(decode_header(SendMessageV2Request, request.ext))
        request.ext = encode_header(header)
    refused = refusal(rig, request)
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert refused.reason.startswith("[PCBUSY_CLEAN_QUEUE]broker busy")
    assert rig.store.log.max_offset == end
    rig.context.durability.is_busy = False
    assert rig.send().code == 0
