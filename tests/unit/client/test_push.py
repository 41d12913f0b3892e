"""A push consumer is made, started and stopped once, and says what it is."""

import asyncio

import pytest

from roketto.client.active_consumer import IllegalConsumerError
from roketto.client.client import Client
from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.offset_store import LocalOffsets
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.settings import ClientSettings
from roketto.protocol.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from roketto.protocol.bodies.running import CMResult
from roketto.protocol.property_names import RETRY_TOPIC
from roketto.protocol.record import Record
from unit.client.push_parts import succeed

NOWHERE = ClientSettings(name_servers="127.0.0.1:1", connect_timeout_ms=200, namespace="ns")


def consumer(**options: object) -> PushConsumer:
    options.setdefault("settings", NOWHERE)
    options.setdefault("topics", {"Orders": "a"})
    return PushConsumer("g", listener=succeed, **options)  # type: ignore[arg-type]


def test_a_heartbeat_tells_what_a_consumer_wants() -> None:
    data = consumer(model=MessageModel.BROADCASTING).describe()
    assert (data.group_name, data.message_model) == ("ns%g", MessageModel.BROADCASTING)
    assert data.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert data.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert [one.topic for one in data.subscription_data_set] == ["ns%Orders"]
    assert list(consumer().topics) == ["ns%Orders", "%RETRY%ns%g"]


def test_members_that_get_everything_keep_their_id_and_their_offsets() -> None:
    made = consumer(model=MessageModel.BROADCASTING)
    assert made.client.id.endswith("@DEFAULT")
    assert isinstance(made._parts.store, LocalOffsets)
    assert not consumer().client.id.endswith("@DEFAULT")


@pytest.mark.parametrize(
    ("group", "options", "reason"),
    [
        ("no group", {}, "illegal characters"),
        ("DEFAULT_CONSUMER", {}, "the name of no group"),
        ("g", {"topics": {"T o": "*"}}, "illegal characters"),
        ("g", {"client": Client(), "name_servers": "x"}, "give it one of them"),
    ],
)
def test_names_that_no_broker_takes_are_refused(
    group: str, options: dict[str, object], reason: str
) -> None:
    with pytest.raises(IllegalConsumerError, match=reason):
        PushConsumer(group, **options)  # type: ignore[arg-type]


async def test_a_consumer_waits_for_servers_that_are_not_there_yet() -> None:
    """It can be stopped all the same, once or twice, and is of no use then."""
    made = consumer()
    with pytest.raises(NotStartedError, match="async with"):
        aiter(PushConsumer("g", settings=NOWHERE))
    await made.stop()
    async with asyncio.timeout(10):
        async with made:
            assert made.queues == []
            with pytest.raises(IllegalConsumerError, match="started before"):
                await made.start()
            with pytest.raises(IllegalConsumerError, match="has a listener"):
                aiter(made)
            made.pause()
            assert made.is_paused
        await made.stop()
    with pytest.raises(ClientClosedError, match="make a new one"):
        await made.subscribe("Other")


async def test_before_the_start_topics_are_only_noted() -> None:
    made = consumer(topics={})
    await made.subscribe("A", "x")
    await made.subscribe("B")
    await made.unsubscribe("A")
    assert list(made.topics) == ["%RETRY%ns%g", "ns%B"]


async def test_an_operator_may_have_one_message_consumed() -> None:
    """Of the retry topic, too: the listener sees the topic that it is subscribed to."""
    seen: list[str] = []

    async def listen(messages, context):  # type: ignore[no-untyped-def]
        seen.append(messages[0].topic)
        return await succeed(messages, context)

    made = PushConsumer("g", settings=NOWHERE, listener=listen)
    record = Record("%RETRY%ns%g", b"x")
    record.set_property(RETRY_TOPIC, "ns%Orders")
    result = await made.consume_directly(record, "broker-a")
    assert (result.consume_result, seen) == (CMResult.CR_SUCCESS, ["Orders"])
    idle = PushConsumer("g", settings=NOWHERE, tuning=PushTuning(consume_timeout_s=0.01))
    with pytest.raises(ClientError, match="nobody iterates"):
        await idle.consume_directly(Record("T", b"x"), "broker-a")
