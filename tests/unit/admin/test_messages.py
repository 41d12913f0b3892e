"""A search that could not ask everyone is an error; what is found is what was looked for."""

import pytest

from roketto.admin.errors import MessageNotFoundError, PartlyFailedError
from roketto.admin.messages import Found, Messages
from roketto.client.errors import BrokerNotFoundError, RefusedError, UnreachableError
from roketto.client.message import MessageQueue, SendStatus
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.pull import PullMessageResponse
from roketto.protocol.headers.query import QueryMessageResponse
from roketto.protocol.headers.send import SendMessageResponse
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import decode_properties, encode_properties
from roketto.protocol.record import Record, encode_record
from unit.admin.fake_servers import A, B, FakeServers, refusal, success

QUERY, VIEW = RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
UNIQUE = "0A00000100070000000147B760000000"


def record(
    key: str, unique: str = UNIQUE, offset: int = 0, topic: str = "T", **more: str
) -> Record:
    properties = encode_properties({"KEYS": key, "UNIQ_KEY": unique, **more})
    return Record(
        topic, b"body", properties, queue_offset=offset, store_time_ms=1_000 - offset,
        store_host=encode_host("10.0.0.2", 10911),
    )  # fmt: skip


def found(*records: Record) -> Command:
    header = QueryMessageResponse(index_last_update_timestamp=9, index_last_update_log_offset=0)
    return Command(0, encode_header(header), b"".join(map(encode_record, records)))


async def test_a_broker_that_fails_makes_the_search_fail() -> None:
    """Java gives what the others found, as if that were all."""
    servers = FakeServers(T=[("a", A), ("b", B)])
    servers.on(A, QUERY, found(record("k")))
    with pytest.raises(PartlyFailedError, match="look for k in topic T: 1 of 2 failed") as e:
        await Messages(servers.fleet).query("T", "k")
    assert isinstance(e.value.partial, Found)
    assert len(e.value.partial.messages) == 1
    servers.on(B, QUERY, refusal(1, "the index is broken"))
    with pytest.raises(PartlyFailedError, match="the index is broken"):
        await Messages(servers.fleet).query("T", "k")


async def test_nothing_found_is_an_empty_answer() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    for address in A, B:
        servers.on(address, QUERY, refusal(22, "can not find message"))
    assert await Messages(servers.fleet).query("T", "k") == Found((), 0)


async def test_keys_with_the_same_hash_are_left_out() -> None:
    servers = FakeServers(T=[("a", A), ("b", B)])
    mixed = [record("x k", offset=1), record("kk"), record("k", topic="U")]
    servers.on(A, QUERY, found(*mixed))
    servers.on(B, QUERY, found(record("k", offset=2)))
    answer = await Messages(servers.fleet).query("T", "k")
    assert [(m.broker_name, m.queue_offset) for m in answer.messages] == [("b", 2), ("a", 1)]
    assert answer.indexed_until_ms == 9


async def test_an_id_is_looked_for_as_what_it_may_be() -> None:
    """A broker's id is asked of that broker first; a producer's may look like one."""
    servers = FakeServers(T=[("a", A)])
    messages = Messages(servers.fleet)
    stored = record("k")
    servers.on(A, VIEW, Command(0, body=encode_record(stored)))
    message = await messages.view("T", stored.offset_id)
    assert (message.message_id, message.broker_name, message.body) == (UNIQUE, "a", b"body")
    servers.on(A, QUERY, found(record("k")))
    assert (await messages.view("T", UNIQUE)).queue_offset == 0
    servers.on(A, VIEW, refusal(1, "can not find message by the offset"))
    servers.on(A, QUERY, found(record("k", unique=stored.offset_id, offset=5)))
    assert (await messages.view("T", stored.offset_id)).queue_offset == 5
    servers.on(A, QUERY, refusal(22))
    with pytest.raises(MessageNotFoundError, match="can not find message by the offset"):
        await messages.view("T", stored.offset_id)
    with pytest.raises(MessageNotFoundError, match="topic T has no message with the id"):
        await messages.view("T", UNIQUE)


async def test_a_broker_that_cannot_be_asked_is_no_missing_message() -> None:
    servers = FakeServers(T=[("a", A)])
    with pytest.raises(UnreachableError):
        await Messages(servers.fleet).by_offset_id(record("k").offset_id)
    servers.on(A, VIEW, refusal(16, "not you"))
    with pytest.raises(RefusedError, match="not you"):
        await Messages(servers.fleet).by_offset_id(record("k").offset_id)


async def test_an_address_in_an_id_is_asked_only_if_a_broker_is_there() -> None:
    """Else whoever types an id would choose whom this machine connects to."""
    servers = FakeServers(T=[("a", A)])
    stranger = record("k")
    stranger.store_host = encode_host("10.9.9.9", 22)
    with pytest.raises(BrokerNotFoundError, match=r"no broker is registered at 10\.9\.9\.9:22"):
        await Messages(servers.fleet).by_offset_id(stranger.offset_id)
    assert servers.codes("10.9.9.9:22") == []


async def test_a_queue_gives_the_message_at_the_offset_or_none() -> None:
    servers = FakeServers(T=[("a", A)])
    ends = PullMessageResponse(
        suggest_which_broker_id=0, next_begin_offset=4, min_offset=2, max_offset=6
    )
    pulled = Command(0, encode_header(ends), encode_record(record("k", offset=3)))
    servers.on(A, RequestCode.PULL_MESSAGE, pulled)
    queue = MessageQueue("a", 0, "T")
    assert (await Messages(servers.fleet).by_queue_offset(queue, 3)).keys == ["k"]
    with pytest.raises(
        MessageNotFoundError, match="no message at offset 2: it has those from 2 to 5"
    ):
        await Messages(servers.fleet).by_queue_offset(queue, 2)
    servers.on(A, RequestCode.PULL_MESSAGE, Command(21, encode_header(ends)))
    with pytest.raises(MessageNotFoundError, match="from 2 to 5"):
        await Messages(servers.fleet).by_queue_offset(queue, 9)


async def test_a_message_is_sent_again_as_it_was_but_at_once() -> None:
    """One that a group gave up on goes to the topic that it came from."""
    servers = FakeServers(T=[("a", A)])
    code = RequestCode.SEND_MESSAGE_V2
    answer = SendMessageResponse(msg_id="here", queue_id=0, queue_offset=7)
    servers.on(A, code, success(header=answer))
    dead = record("k", topic="%DLQ%g", RETRY_TOPIC="T", DELAY="3", color="red")
    servers.on(A, VIEW, Command(0, body=encode_record(dead)))
    messages = Messages(servers.fleet)
    sent = await messages.resend(await messages.by_offset_id(dead.offset_id))
    assert (sent.status, sent.message_id, sent.queue_offset) == (SendStatus.SEND_OK, UNIQUE, 7)
    ext = servers.asked[-1][2]
    assert ext["b"] == "T"
    properties = decode_properties(ext["i"].encode())
    assert properties == {"KEYS": "k", "UNIQ_KEY": UNIQUE, "RETRY_TOPIC": "T", "color": "red"}
