"""What consumers learn of a message, and that it can be handed on."""

import copy
import pickle
from collections.abc import Callable

import pytest

from roketto.client.message import MessageQueue
from roketto.client.received import ReceivedMessage
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

UNIQ = "0A0000010007000000014700000000AB"


def received(topic: str | None = None, **properties: str) -> ReceivedMessage:
    record = Record(
        "ns%T", b"body", encode_properties(properties), flag=7, queue_id=2, queue_offset=17,
        log_offset=4_711, born_time_ms=1, store_time_ms=2, born_host=encode_host("10.0.0.1", 5),
        store_host=encode_host("2001:db8::1", 10911), reconsume_times=3,
    )  # fmt: skip
    return ReceivedMessage(record, "broker-a", topic, 20)


def test_a_received_message_tells_all_that_its_record_has() -> None:
    message = received("T", TAGS="a", KEYS="k1 k2", UNIQ_KEY=UNIQ, __SHARDINGKEY="s")
    assert (message.topic, message.body, message.tags, message.flag) == ("T", b"body", "a", 7)
    assert (message.keys, message.sharding_key) == (["k1", "k2"], "s")
    assert (message.message_id, message.queue_id, message.queue_offset) == (UNIQ, 2, 17)
    assert message.queue == MessageQueue("broker-a", 2, "ns%T")
    assert (message.log_offset, message.max_offset, message.reconsume_times) == (4_711, 20, 3)
    assert (message.born_host, message.store_host) == ("10.0.0.1:5", "[2001:db8::1]:10911")
    assert (message.born_time_ms, message.store_time_ms) == (1, 2)
    assert message.properties["TAGS"] == "a"
    assert repr(message) == (
        f"<ReceivedMessage {UNIQ} of T queue 2 offset 17 on broker-a, 4 bytes>"
    )


def test_without_an_id_of_its_producer_a_message_has_that_of_its_broker() -> None:
    message = received()
    assert message.topic == "ns%T"
    assert message.message_id == message.offset_id
    assert message.offset_id.endswith(f"{4_711:016X}")
    assert (message.tags, message.keys) == (None, [])


@pytest.mark.parametrize(
    ("properties", "transaction_id"),
    [
        ({"UNIQ_KEY": UNIQ}, None),
        ({"UNIQ_KEY": UNIQ, "TRAN_MSG": "true"}, UNIQ),
        ({"UNIQ_KEY": UNIQ, "TRAN_MSG": "false"}, None),
        ({"UNIQ_KEY": UNIQ, "TRAN_MSG": "true", "__transactionId__": "own"}, "own"),
        ({"__transactionId__": "own"}, "own"),
    ],
)
def test_the_id_of_a_transaction_is_that_of_its_message(
    properties: dict[str, str], transaction_id: str | None
) -> None:
    assert received("T", **properties).transaction_id == transaction_id


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
    ids=["copied", "copied deeply", "pickled"],
)
def test_a_message_goes_to_another_process_as_it_is(
    again: Callable[[ReceivedMessage], ReceivedMessage],
) -> None:
    message = received("T", TAGS="a", UNIQ_KEY=UNIQ)
    other = again(message)
    assert other is not message
    assert repr(other) == repr(message)
    for name in ("topic", "body", "properties", "queue", "max_offset", "reconsume_times"):
        assert getattr(other, name) == getattr(message, name)
    assert other.record.born_host == message.record.born_host
