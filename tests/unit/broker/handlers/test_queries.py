"""Messages by key, by place and by queue entry, with Java's codes and remarks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import lookup as lookup_module
from roketto.broker.handlers import queries as handlers
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.stats import QueryConsumeQueueResponseBody
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.record import decode_record
from roketto.protocol.tags import tag_code
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.peers import Peer
from unit.broker.pull_rig import START_MS, body_of, offsets_of

QUERY = route(handlers.ROUTES, 12)
VIEW = route(handlers.ROUTES, 33)
ENTRIES = route(handlers.ROUTES, 321)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path, index_enable=True)
    yield rig
    rig.close()


def by_key(key: str, **more: object) -> dict[str, object]:
    return {
        "topic": "T", "key": key, "maxNum": 64, "beginTimestamp": 0,
        "endTimestamp": 2**63 - 1, **more,
    }  # fmt: skip


# --- by key ---------------------------------------------------------------------------------------


def test_messages_come_with_how_far_the_index_is(rig: ClientsRig) -> None:
    """Whole, as the log has them."""
    rig.send(2, KEYS="k", UNIQ_KEY="u")
    rig.now_ms += 5_000
    rig.send(1, KEYS="other")
    answer = rig.ask(QUERY, by_key("k"))
    assert answer.code == 0
    assert offsets_of(answer) == [0, 1]
    last = rig.store.query("T", "other", 1, 0, 1 << 62)[0]
    assert answer.ext == {
        "indexLastUpdateTimestamp": str(START_MS + 5_000),
        "indexLastUpdatePhyoffset": str(last),
    }


def test_nothing_found_is_22(rig: ClientsRig) -> None:
    """With both fields, which are zero then."""
    rig.send(KEYS="k")
    for said in by_key("nope"), by_key("k", topic="U"), by_key("k", endTimestamp=START_MS - 1):
        answer = rig.ask(QUERY, said)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "can not find message, maybe time range not correct"
        assert answer.ext == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


def test_no_more_are_found_than_asked_for_and_than_the_broker_allows(rig: ClientsRig) -> None:
    """maxMsgsNumBatch bounds both; for a unique key the broker's own number counts."""
    rig.send(9, KEYS="k", UNIQ_KEY="u")
    assert offsets_of(rig.ask(QUERY, by_key("k", maxNum=2))) == [7, 8]
    assert rig.ask(QUERY, by_key("k", maxNum=0)).code == ResponseCode.QUERY_NOT_FOUND
    unique = by_key("u", maxNum=1, _UNIQUE_KEY_QUERY="true")
    assert len(offsets_of(rig.ask(QUERY, unique))) == 9
    rig.config.default_query_max_num = 4
    assert len(offsets_of(rig.ask(QUERY, unique))) == 4
    rig.config.max_msgs_num_batch = 3
    assert len(offsets_of(rig.ask(QUERY, unique))) == 3
    assert len(offsets_of(rig.ask(QUERY, by_key("k")))) == 3


def test_many_messages_are_sent_in_one_piece(
    rig: ClientsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces cost more than their bytes."""
    monkeypatch.setattr(lookup_module, "MESSAGES_PER_STEP", 1_000)
    rig.config.max_msgs_num_batch = 100
    rig.send(handlers.VIEWS_MAX + 1, KEYS="k")
    few = rig.ask(QUERY, by_key("k", maxNum=handlers.VIEWS_MAX))
    many = rig.ask(QUERY, by_key("k", maxNum=100))
    assert (len(few.views), len(many.views)) == (handlers.VIEWS_MAX, 0)
    assert len(offsets_of(many)) == handlers.VIEWS_MAX + 1


async def test_a_long_search_is_answered_later(
    rig: ClientsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served between its steps."""
    monkeypatch.setattr(lookup_module, "ENTRIES_PER_STEP", 1)
    rig.send(5, KEYS="k")
    fields = {name: str(value) for name, value in by_key("k").items()}
    work = QUERY(rig.context, Peer(), Command(12, fields, opaque=9))
    assert asyncio.iscoroutine(work)
    answer = await work
    assert isinstance(answer, Command)
    assert (answer.opaque, offsets_of(answer)) == (9, [0, 1, 2, 3, 4])


def test_a_broker_without_an_index_says_so(tmp_path: Path) -> None:
    """Also with 22: clients ask other brokers then."""
    rig = ClientsRig(tmp_path)
    code, reason = rig.refuse(QUERY, by_key("k"))
    assert code == ResponseCode.QUERY_NOT_FOUND
    assert "messageIndexEnable" in reason
    rig.close()


# --- by place -------------------------------------------------------------------------------------


def test_a_message_is_seen_by_its_place(rig: ClientsRig) -> None:
    """And nothing but the message."""
    rig.send(3, KEYS="k")
    place = rig.store.query("T", "k", 9, 0, 1 << 62)[1]
    answer = rig.ask(VIEW, {"offset": place, "topic": "whatever"})
    record = decode_record(answer.body)
    assert (answer.code, record.queue_offset, record.size) == (0, 1, len(answer.body))


@pytest.mark.parametrize("offset", [-1, 5, 10**12])
def test_where_no_message_begins_none_is_seen(rig: ClientsRig, offset: int) -> None:
    """Java sends what bytes are there."""
    rig.send(2)
    code, reason = rig.refuse(VIEW, {"offset": offset})
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason.startswith(f"can not find message by the offset, {offset}")


# --- by queue entry -------------------------------------------------------------------------------


def entries(rig: ClientsRig, **more: object) -> QueryConsumeQueueResponseBody:
    said = {"topic": "T", "queueId": 0, "index": 1, "count": 2, **more}
    return rig.read(QueryConsumeQueueResponseBody, ENTRIES, said)


def test_entries_of_a_queue_are_shown(rig: ClientsRig) -> None:
    """Place, size and code of each, and both ends of the queue."""
    rig.send(4, tag="red")
    body = entries(rig)
    assert (body.min_queue_index, body.max_queue_index) == (0, 4)
    assert body.filter_data is None
    assert len(body.queue_data) == 2
    for number, entry in enumerate(body.queue_data, 1):
        record = rig.store.record_at(entry.physic_offset)
        assert (record.queue_offset, record.size) == (number, entry.physic_size)
        assert entry.tags_code == tag_code("red")
        assert (entry.eval, entry.msg) == (False, None)
    assert len(entries(rig, count=99).queue_data) == 3
    assert entries(rig, count=-1).queue_data == []


def test_entries_come_in_bounded_numbers(rig: ClientsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants more asks again."""
    monkeypatch.setattr(handlers, "ENTRIES_MAX", 2)
    rig.send(4)
    assert len(entries(rig, index=0, count=4).queue_data) == 2


def test_the_subscription_of_a_group_is_shown(rig: ClientsRig) -> None:
    """With its filter, if it has one."""
    rig.send(3)
    assert entries(rig, consumerGroup="G").filter_data == "G@T is not online!"
    rig.join()
    body = entries(rig, consumerGroup="G")
    assert body.filter_data == "null"
    assert body.subscription_data is not None
    assert body.subscription_data.sub_string == "*"
    rig.join(
        SubscriptionData(topic="T", sub_string="a = 1", expression_type="SQL92", sub_version=2)
    )
    assert '"expression":"a = 1"' in (entries(rig, consumerGroup="G").filter_data or "")


def test_unknown_queues_and_indexes_are_told_apart(rig: ClientsRig) -> None:
    """1 for the first; 0 without a body for the second, as in Java."""
    rig.send(2)
    assert rig.refuse(ENTRIES, {"topic": "U", "queueId": 3, "index": 0, "count": 1}) == (
        ResponseCode.SYSTEM_ERROR,
        "3@U is not exist!",
    )
    assert rig.refuse(ENTRIES, {})[0] == ResponseCode.SYSTEM_ERROR
    for index in (-1, 2, 2**40):
        answer = rig.ask(ENTRIES, {"topic": "T", "queueId": 0, "index": index, "count": 1})
        assert (answer.code, body_of(answer)) == (0, b"")
        assert answer.remark == f"Index {index} of 0@T is not exist!"
