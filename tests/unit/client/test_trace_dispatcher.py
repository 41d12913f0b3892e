"""Traces leave in batches within bounds, and what is too much is dropped rather than waited for."""

import asyncio

import pytest

from roketto.client import trace_dispatcher
from roketto.client.trace_dispatcher import TraceDispatcher, TraceRole, split_traces
from roketto.client.trace_record import PubTrace, RecallTrace, decode_traces, encode_trace, keys_of
from roketto.protocol.codes import RequestCode
from roketto.protocol.limits import GROUP_BYTES_MAX, PROPERTIES_BYTES_MAX
from roketto.protocol.names import TRACE_TOPIC
from roketto.protocol.properties import decode_properties
from unit.client.core_rig import MASTER, TOPIC, route_data
from unit.client.transaction_rig import TransactionRig


def trace(
    number: int, topic: str = TOPIC, region_id: str | None = "R", keys: str = "k"
) -> PubTrace:
    return PubTrace(
        time_ms=1, region_id=region_id, group="g", topic=topic, message_id=f"ID{number}", keys=keys
    )


@pytest.fixture
def rig() -> TransactionRig:
    made = TransactionRig()
    for topic in (TRACE_TOPIC, "rmq_sys_TRACE_DATA_R", "Traces"):
        made.routes[topic] = route_data({"broker-a": {0: MASTER}}, queues=1)
    return made


def sent_ids(rig: TransactionRig, topic: str = TRACE_TOPIC) -> list[list[str | None]]:
    """The messages of which there are traces, of each message that was sent to the trace topic."""
    return [
        [one.message_id for one in decode_traces(bytes(command.body).decode())]
        for _, command in rig.pool.sent
        if command.code == RequestCode.SEND_MESSAGE_V2 and (command.ext or {})["b"] == topic
    ]


async def until(rig: TransactionRig, count: int) -> None:
    for _ in range(2_000):
        if len(sent_ids(rig)) >= count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{sent_ids(rig)} was sent")


async def test_a_batch_leaves_when_it_is_whole_and_the_rest_at_the_stop(
    rig: TransactionRig,
) -> None:
    async with TraceDispatcher(rig.client, "g", TraceRole.PRODUCE, batch_max=2) as dispatcher:
        for number in range(5):
            assert dispatcher.append([trace(number)])
        await until(rig, 2)
        await asyncio.sleep(0.01)
        assert sent_ids(rig) == [["ID0", "ID1"], ["ID2", "ID3"]]
    assert sent_ids(rig)[2:] == [["ID4"]]
    (_, command) = next(one for one in rig.pool.sent if one[1].code == RequestCode.SEND_MESSAGE_V2)
    assert decode_properties((command.ext or {})["i"].encode())["KEYS"] == "ID0 k ID1"


async def test_a_trace_leaves_when_the_last_ones_left_long_enough_ago(
    rig: TransactionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_dispatcher, "_INTERVAL_S", 0.02)
    async with TraceDispatcher(rig.client, "g", TraceRole.PRODUCE) as dispatcher:
        dispatcher.append([trace(0)])
        await until(rig, 1)
        dispatcher.append([trace(1)])
        dispatcher.append([trace(2)])
        await until(rig, 2)
        assert sent_ids(rig) == [["ID0"], ["ID1", "ID2"]]
        await asyncio.sleep(0.03)
        dispatcher.append([trace(3)])  # that is long ago: it leaves at once
        await asyncio.sleep(0.01)
        assert sent_ids(rig)[2:] == [["ID3"]]


async def test_each_topic_has_messages_of_its_own_whatever_the_region(
    rig: TransactionRig,
) -> None:
    """Brokers of 4.9 name none."""
    async with TraceDispatcher(rig.client, "g", TraceRole.PRODUCE) as dispatcher:
        dispatcher.append([trace(0), trace(1)])
        dispatcher.append([trace(2, "Other")])
        dispatcher.append([trace(3, region_id=None)])
        dispatcher.append([trace(4)])
    assert sent_ids(rig) == [["ID0", "ID1", "ID3", "ID4"], ["ID2"]]


async def test_traces_have_the_topic_that_was_chosen_or_that_of_a_region(
    rig: TransactionRig,
) -> None:
    async with rig.client as client:
        async with TraceDispatcher(client, "g", TraceRole.PRODUCE, topic="Traces") as dispatcher:
            dispatcher.append([trace(0)])
            assert not dispatcher.is_traced("Traces")
            assert dispatcher.is_traced(TOPIC)
        async with TraceDispatcher(client, "g", TraceRole.PRODUCE, is_cloud=True) as dispatcher:
            dispatcher.append([trace(1)])
            dispatcher.append([trace(2, region_id=None)])
    assert sent_ids(rig, "Traces") == [["ID0"]]
    assert sent_ids(rig, "rmq_sys_TRACE_DATA_R") == [["ID1"]]


async def test_what_is_above_the_bound_is_dropped_and_counted(
    rig: TransactionRig, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher = TraceDispatcher(rig.client, "g", TraceRole.PRODUCE, batch_max=1_000)
    taken = [dispatcher.append([trace(number)]) for number in range(2_050)]
    assert (taken.count(True), dispatcher.dropped) == (2_048, 2)
    assert caplog.text.count("which is the bound; others are dropped") == 1
    async with dispatcher:
        await dispatcher.flush()
    assert max(map(len, sent_ids(rig))) == 20
    assert sum(map(len, sent_ids(rig))) == 2_048


async def test_a_trace_topic_that_nobody_has_is_told_once(
    rig: TransactionRig, caplog: pytest.LogCaptureFixture
) -> None:
    del rig.routes[TRACE_TOPIC]
    async with TraceDispatcher(rig.client, "g", TraceRole.PRODUCE, batch_max=1) as dispatcher:
        for number in range(3):
            dispatcher.append([trace(number)])
        await dispatcher.flush()
    assert caplog.text.count("are lost") == 1
    assert f"topic {TRACE_TOPIC}" in caplog.text


async def test_stopping_does_not_wait_for_ever_for_the_broker(
    rig: TransactionRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_dispatcher, "_STOP_S", 0.02)
    async with rig.client as client:
        dispatcher = TraceDispatcher(client, "g", TraceRole.PRODUCE, batch_max=1)
        await dispatcher.stop()  # of what was not started
        await dispatcher.start()
        await dispatcher.start()
        rig.is_silent = True
        for number in range(10):
            dispatcher.append([trace(number)])
        stopping = asyncio.create_task(dispatcher.stop())
        await asyncio.sleep(0.03)
        rig.is_silent = False  # it is taken leave of
        await stopping
    assert "6 traces of _INNER_TRACE_PRODUCER-g" in caplog.text
    assert sent_ids(rig) == []


async def test_a_bug_in_a_trace_is_logged_and_harms_no_others(
    rig: TransactionRig, caplog: pytest.LogCaptureFixture
) -> None:
    async with TraceDispatcher(rig.client, "g", TraceRole.PRODUCE, batch_max=1) as dispatcher:
        dispatcher.append(["not a trace"])  # type: ignore[list-item]
        dispatcher.append([trace(1)])
    assert sent_ids(rig) == [["ID1"]]
    assert "sending traces of" in caplog.text


def test_parts_keep_the_bounds_of_bodies_and_of_properties() -> None:
    many = [trace(number, keys=f"{number:040}") for number in range(1_000)]
    parts = list(split_traces(many))
    assert "".join(part.text for part in parts) == "".join(map(encode_trace, many))
    assert [key for part in parts for key in part.keys] == keys_of(many)
    assert all(len(" ".join(part.keys).encode()) < PROPERTIES_BYTES_MAX / 4 for part in parts)
    large = [trace(number, keys="x" * 30_000) for number in range(10)]
    parts = list(split_traces(large))
    assert max(len(part.text) for part in parts) <= 128_000
    assert len(parts) == 3
    assert [key for part in parts for key in part.keys] == [f"ID{number}" for number in range(10)]
    assert list(split_traces([])) == []


async def test_groups_of_traces_are_legal_and_their_names_have_no_namespace() -> None:
    rig = TransactionRig("space")
    dispatcher = TraceDispatcher(rig.client, "space%" + "g" * 119, TraceRole.CONSUME)
    producer = dispatcher._producer
    assert producer.group.startswith("_INNER_TRACE_PRODUCER-ggg")
    assert "-CONSUME-" in producer.group
    assert len(producer.group) <= GROUP_BYTES_MAX
    assert producer.client.settings.namespace == ""
    assert producer.client.id != rig.client.id


def test_a_recall_is_traced_like_anything_else() -> None:
    (part,) = split_traces(
        [RecallTrace(time_ms=1, region_id="R", group="g", topic=TOPIC, message_id="ID")]
    )
    assert part.keys == ["ID"]
