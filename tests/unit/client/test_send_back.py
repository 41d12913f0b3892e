"""What is given back keeps what makes it the same message, whatever way it takes."""

import pytest

from roketto.client.errors import BrokerNotFoundError, SendFailedError
from roketto.client.received import ReceivedMessage
from roketto.client.send_back import INNER_PRODUCER, SendBack
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.names import retry_topic
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.record import Record
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_ZSTD, UNWRAP_BITS
from unit.client.core_rig import GROUP, MASTER, TOPIC, route_data
from unit.client.push_parts import PushRig

GIVE_BACK, SEND = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2
REFUSES: dict[int, int] = {GIVE_BACK: ResponseCode.SYSTEM_ERROR}
OTHER = "10.0.0.9:10911"


def received(
    properties: dict[str, str] | None = None, sys_flag: int = 0, reconsume_times: int = 0
) -> ReceivedMessage:
    record = Record(
        f"ns%{TOPIC}", b"body", encode_properties(properties or {}), queue_offset=4, log_offset=77,
        flag=3, sys_flag=sys_flag, reconsume_times=reconsume_times,
    )  # fmt: skip
    return ReceivedMessage(record, "broker-a", TOPIC)


async def rig_with_namespace() -> tuple[PushRig, SendBack]:
    rig = PushRig(namespace="ns")
    await rig.know_routes()
    return rig, SendBack(rig.parts.client, GROUP, 16)


async def test_the_broker_of_a_message_is_asked_to_give_it_again() -> None:
    rig, send_back = await rig_with_namespace()
    await send_back.give_back(received({names.UNIQ_KEY: "id-1"}), 5)
    ((address, fields),) = rig.rig.sent(GIVE_BACK)
    assert address == MASTER
    assert fields == {
        "offset": "77", "group": GROUP, "delayLevel": "5", "originMsgId": "id-1",
        "originTopic": f"ns%{TOPIC}", "unitMode": "false", "maxReconsumeTimes": "16",
        "bname": "broker-a",
    }  # fmt: skip
    assert SEND not in rig.codes()


async def test_where_it_cannot_the_message_is_sent_anew() -> None:
    """To the retry topic, with its own id and properties, and what says that it is a retry."""
    rig, send_back = await rig_with_namespace()
    rig.broker.refuses = dict(REFUSES)
    properties = {
        names.UNIQ_KEY: "id-1", names.TAGS: "t", names.TRANSACTION_PREPARED: "true",
        names.TIMER_DELIVER_MS: "5", "mine": "x",
    }  # fmt: skip
    await send_back.give_back(received(properties, reconsume_times=2))
    ((_, fields),) = rig.rig.sent(SEND)
    assert (fields["a"], fields["b"]) == (INNER_PRODUCER, retry_topic(GROUP))
    assert (fields["f"], fields["h"], fields["j"], fields["l"]) == ("0", "3", "3", "16")
    assert decode_properties(fields["i"].encode()) == {
        names.UNIQ_KEY: "id-1", names.TAGS: "t", "mine": "x", names.RETRY_TOPIC: f"ns%{TOPIC}",
        names.ORIGIN_MESSAGE_ID: "id-1", names.DELAY: "5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("level", "delay", "times"), [(0, "3", "1"), (9, "9", "1"), (-1, "3", "17")]
)
async def test_a_wished_delay_counts_on_both_ways(level: int, delay: str, times: str) -> None:
    """Below zero, the message is a dead letter: it has come more often than it may."""
    rig, send_back = await rig_with_namespace()
    rig.broker.refuses = dict(REFUSES)
    await send_back.give_back(received(), level)
    ((_, fields),) = rig.rig.sent(SEND)
    assert decode_properties(fields["i"].encode())[names.DELAY] == delay
    assert fields["j"] == times


async def test_a_message_of_a_stored_batch_is_sent_alone() -> None:
    """Its broker would give back all of the batch; a body that could not be unpacked says so."""
    rig, send_back = await rig_with_namespace()
    await send_back.give_back(received(sys_flag=UNWRAP_BITS | COMPRESSED | COMPRESSION_ZSTD))
    ((_, fields),) = rig.rig.sent(SEND)
    assert fields["f"] == str(COMPRESSED | COMPRESSION_ZSTD)
    assert GIVE_BACK not in rig.codes()


async def test_brokers_are_tried_one_after_the_other() -> None:
    """Different ones first; the error has them all."""
    rig, send_back = await rig_with_namespace()
    brokers = {"broker-a": {0: MASTER}, "broker-b": {0: OTHER}}
    rig.rig.routes[retry_topic(GROUP)] = route_data(brokers, queues=4)
    rig.broker.refuses = {**REFUSES, SEND: ResponseCode.SYSTEM_BUSY}
    with pytest.raises(SendFailedError, match="is not given back by group orders") as failed:
        await send_back.give_back(received())
    tried = [address for address, _ in rig.rig.sent(SEND)]
    assert set(tried[:2]) == {MASTER, OTHER}
    assert len(failed.value.attempts) == len(tried) == 3


async def test_a_broker_that_nobody_knows_is_an_error_that_says_so() -> None:
    rig = PushRig()
    rig.rig.routes.clear()
    message = received()
    send_back = SendBack(rig.parts.client, GROUP, 16)
    with pytest.raises(BrokerNotFoundError, match="broker-a"):
        await send_back._ask_broker(message, 0)
