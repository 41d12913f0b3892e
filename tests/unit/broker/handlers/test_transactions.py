"""A transaction ends once, as its producer says, and only its producer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers.transactions import ROUTES, ask_producer
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import ONE_WAY_FLAG, Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.transactions import CheckTransactionStateRequest
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.names import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GIVEN_UP_TOPIC,
)
from roketto.protocol.record import decode_records
from roketto.remoting.connection import Reply
from roketto.store.put_status import PutRefusedError
from unit.broker.fake_connection import FakeConnection
from unit.broker.send_rig import PLAIN, SendRig

HALF = PLAIN | {"TRAN_MSG": "true", "PGROUP": "PG"}
COMMIT, ROLLBACK = "8", "12"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path / "store", has_index=True)
    rig.transactions.start()
    yield rig
    rig.close()


def prepare(rig: SendRig, body: bytes = b"hello", **properties: str) -> Command:
    """The request that would commit the half message that is sent here."""
    born = str(rig.now_ms)
    answer = rig.send(body=body, properties=HALF | properties, f="4", g=born)
    assert answer.code == 0
    assert answer.ext is not None
    ext = {
        "producerGroup": "PG", "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(decode_offset_id(answer.ext["msgId"]).log_offset),
        "commitOrRollback": COMMIT, "fromTransactionCheck": "false",
        "msgId": answer.ext["transactionId"], "transactionId": answer.ext["transactionId"],
    }  # fmt: skip
    return Command(RequestCode.END_TRANSACTION, ext, opaque=9)


def end(rig: SendRig, request: Command, **fields: str) -> Reply:
    """What is answered to it with these fields in place of its own."""
    assert request.ext is not None
    changed = Command(request.code, request.ext | fields, opaque=9, flag=request.flag)
    return rig.handle(changed, ROUTES[RequestCode.END_TRANSACTION])


def code_of(reply: Reply) -> int:
    assert isinstance(reply, Command)
    return reply.code


def bodies(rig: SendRig) -> list[bytes]:
    return [bytes(record.body) for record in rig.records()]


def test_a_half_message_is_seen_when_it_is_committed(rig: SendRig) -> None:
    """In the queue it was sent to, with what it was sent with."""
    request = prepare(rig, KEYS="k")
    assert bodies(rig) == []
    assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    record = rig.record()
    half = rig.record(HALF_TOPIC, 0)
    assert (bytes(record.body), record.sys_flag, record.flag) == (b"hello", 8, 7)
    assert record.prepared_log_offset == half.log_offset
    assert record.get_property("KEYS") == "k"
    assert record.get_property("REAL_TOPIC") is None
    op = rig.record(HALF_OP_TOPIC, 0)
    assert (bytes(op.body), op.get_property("TAGS")) == (b"0,", "d")
    assert len(rig.transactions) == 0


def test_a_half_message_that_is_rolled_back_is_never_seen(rig: SendRig) -> None:
    request = prepare(rig)
    assert code_of(end(rig, request, commitOrRollback=ROLLBACK)) == ResponseCode.SUCCESS
    assert bodies(rig) == []
    assert bytes(rig.record(HALF_OP_TOPIC, 0).body) == b"0,"


def test_who_does_not_know_yet_is_not_answered(rig: SendRig) -> None:
    """The half message stays; so it does with a number that means nothing."""
    request = prepare(rig)
    for unknown in ("0", "4", "99"):
        assert end(rig, request, commitOrRollback=unknown) is None
    assert len(rig.transactions) == 1


def test_a_second_commit_stores_nothing(rig: SendRig) -> None:
    """Java's broker stores the message again; here its producer is told that all is well."""
    rig.send(body=b"first of the index")
    rig.pass_ms(1_999)  # the index counts whole seconds from its first key on
    request = prepare(rig)
    for _ in range(3):
        assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    assert bodies(rig) == [b"first of the index", b"hello"]
    with pytest.raises(RequestError, match="the transaction was committed before"):
        end(rig, request, commitOrRollback=ROLLBACK)


def test_a_commit_after_a_rollback_is_refused(rig: SendRig) -> None:
    request = prepare(rig)
    for _ in range(2):
        assert code_of(end(rig, request, commitOrRollback=ROLLBACK)) == ResponseCode.SUCCESS
    with pytest.raises(RequestError, match="the transaction was rolled back before"):
        end(rig, request)
    assert bodies(rig) == []


def test_without_an_index_nobody_knows_how_a_transaction_ended(tmp_path: Path) -> None:
    """But that it did."""
    rig = SendRig(tmp_path / "store")
    rig.config.message_index_enable = False
    request = prepare(rig)
    end(rig, request)
    assert code_of(end(rig, request, commitOrRollback=ROLLBACK)) == ResponseCode.SUCCESS
    assert bodies(rig) == [b"hello"]
    rig.close()


def test_one_way_ends_are_carried_out_and_not_answered(rig: SendRig) -> None:
    """As Java's producers send them."""
    for decision in (COMMIT, ROLLBACK, COMMIT):
        request = prepare(rig)
        request.flag |= ONE_WAY_FLAG
        assert end(rig, request, commitOrRollback=decision) is None
        assert end(rig, request, commitOrRollback=decision) is None
    assert len(bodies(rig)) == 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"producerGroup": "Other"}, "The producer group wrong: it is of PG, not of Other"),
        ({"tranStateTableOffset": "1"}, "The transaction state table offset wrong: it is 0, not 1"),
        ({"commitLogOffset": "999999"}, "Find prepared transaction message failed"),
        ({"commitLogOffset": "1"}, "Find prepared transaction message failed"),
    ],
)
def test_a_stranger_ends_nothing(rig: SendRig, fields: dict[str, str], reason: str) -> None:
    """Nor does somebody who is mistaken."""
    request = prepare(rig)
    with pytest.raises(RequestError) as caught:
        end(rig, request, **fields)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert caught.value.reason.startswith(reason)
    assert len(rig.transactions) == 1


def test_an_ordinary_message_is_no_half_message(rig: SendRig) -> None:
    """Whoever names its place does not get it stored again."""
    rig.send(properties=PLAIN | {"PGROUP": "PG"})
    at = rig.record().log_offset
    request = prepare(rig)
    with pytest.raises(
        RequestError, match=f"no half message is at offset {at}, but one of topic T"
    ):
        end(rig, request, commitLogOffset=str(at))
    assert len(bodies(rig)) == 1


def test_who_wants_to_be_asked_late_must_not_be_late_himself(rig: SendRig) -> None:
    """Code 604, as in Java; the answer to the broker's question is taken."""
    request = prepare(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    rig.pass_ms(60_000)
    assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    request = prepare(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    rig.pass_ms(6_001)
    with pytest.raises(RequestError) as caught:
        end(rig, request)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION
    assert code_of(end(rig, request, fromTransactionCheck="true")) == ResponseCode.SUCCESS
    assert len(bodies(rig)) == 2


def test_a_delay_begins_with_the_commit(rig: SendRig) -> None:
    """And a second commit does not begin a second one."""
    request = prepare(rig, DELAY="2")
    assert rig.records(SCHEDULE_TOPIC, 1) == []
    rig.delays.start()
    for _ in range(2):
        assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    assert len(rig.records(SCHEDULE_TOPIC, 1)) == 1
    rig.pass_ms(5_000)
    while rig.delays.step() <= 0:
        pass
    delivered = rig.record()
    assert (bytes(delivered.body), delivered.sys_flag) == (b"hello", 0)


def test_a_time_is_waited_for_from_the_commit_on(rig: SendRig) -> None:
    """And a second commit does not begin a second wait."""
    rig.timers.start()
    request = prepare(rig, TIMER_DELAY_SEC="5")
    rig.pass_ms(3_000)
    assert rig.records(TIMER_TOPIC, 0) == []
    for _ in range(2):
        assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    assert len(rig.records(TIMER_TOPIC, 0)) == 1
    for passed_ms, count in ((4_999, 0), (1, 1)):
        rig.pass_ms(passed_ms)
        while rig.timers.step() <= 0:
            pass
        assert len(rig.records()) == count
    assert rig.record().sys_flag == 0


def test_a_time_that_cannot_be_had_is_refused_before_the_transaction(rig: SendRig) -> None:
    """At its end it would be too late to say so."""
    with pytest.raises(PutRefusedError, match="timer message illegal"):
        prepare(rig, TIMER_DELAY_SEC="999999999")
    assert rig.records(HALF_TOPIC, 0) == []


def test_under_sync_flush_an_end_is_answered_when_it_is_on_the_disk(tmp_path: Path) -> None:
    """A commit and a rollback alike."""
    rig = SendRig(tmp_path / "store", is_sync=True)
    requests = []
    for _ in range(2):
        rig.handle(rig.request(properties=HALF, f="4"))
        rig.store.request_flush()
    for number, half_at in enumerate(_halves(rig)):
        ext = {
            "producerGroup": "PG", "tranStateTableOffset": str(number), "commitLogOffset": half_at,
            "commitOrRollback": (COMMIT, ROLLBACK)[number], "msgId": "U",
        }  # fmt: skip
        requests.append(Command(RequestCode.END_TRANSACTION, ext, opaque=9))
    for request in requests:
        assert end(rig, request) is None
    assert rig.connection.held == 4
    rig.close()


def _halves(rig: SendRig) -> list[str]:
    return [str(log_offset) for log_offset, _, _ in rig.store.log.records(0)]


def test_a_second_commit_is_not_refused_while_the_first_waits_for_the_disk(tmp_path: Path) -> None:
    """Its message is in no index before; a slow disk made of it one that was rolled back."""
    rig = SendRig(tmp_path / "store", has_index=True, is_sync=True)
    rig.transactions.start()
    assert rig.send_one_way(properties=HALF, f="4", g=str(rig.now_ms)) is None
    (found,) = rig.transactions._open.values()
    ext = {
        "producerGroup": "PG", "tranStateTableOffset": "0", "msgId": "A",
        "commitLogOffset": str(found.log_offset), "commitOrRollback": COMMIT,
    }  # fmt: skip
    request = Command(RequestCode.END_TRANSACTION, ext, opaque=9, flag=ONE_WAY_FLAG)
    assert end(rig, request) is None
    request.flag = 0
    assert code_of(end(rig, request)) == ResponseCode.SUCCESS
    rig.close()


def test_a_store_that_is_busy_ends_nothing(rig: SendRig) -> None:
    request = prepare(rig)
    rig.context.durability.is_busy = True
    with pytest.raises(RequestError):
        end(rig, request)
    assert len(rig.transactions) == 1


# --- the question ---------------------------------------------------------------------------------


class Producer(FakeConnection):
    """A connection of a producer, which may not read any more."""

    def __init__(self, *, reads: bool = True) -> None:
        super().__init__()
        self.reads = reads
        self.asked: list[Command] = []

    def send_one_way(self, command: Command) -> bool:
        if self.reads:
            self.asked.append(command)
        return self.reads


class Group:
    """Stands in for the table of clients."""

    def __init__(self, *producers: Producer) -> None:
        self.producers = producers

    def producer_connections(self, group: str) -> list[Producer]:
        return list(self.producers) if group == "PG" else []


def test_a_producer_of_the_group_is_asked(rig: SendRig) -> None:
    """With the place of the half message, and the message as it was sent."""
    prepare(rig)
    half = rig.record(HALF_TOPIC, 0)
    producer = Producer()
    assert ask_producer(Group(producer), "broker-a", half)  # type: ignore[arg-type]
    (command,) = producer.asked
    assert command.code == RequestCode.CHECK_TRANSACTION_STATE
    header = decode_header(CheckTransactionStateRequest, command.ext)
    assert (header.half_queue_offset, header.log_offset) == (0, half.log_offset)
    assert (header.topic, header.target_broker_name) == (HALF_TOPIC, "broker-a")
    assert header.msg_id == header.transaction_id == half.get_property("UNIQ_KEY")
    assert header.offset_msg_id == half.offset_id
    (asked,) = decode_records(command.body, strict=True)
    assert (asked.topic, asked.queue_id, bytes(asked.body)) == ("T", 1, b"hello")


def test_producers_are_asked_in_turn_and_deaf_ones_left_out(rig: SendRig) -> None:
    prepare(rig)
    half = rig.record(HALF_TOPIC, 0)
    deaf, first, second = Producer(reads=False), Producer(), Producer()
    for _ in range(6):
        assert ask_producer(Group(deaf, first, second), "b", half)  # type: ignore[arg-type]
    assert len(first.asked) + len(second.asked) == 6
    assert first.asked
    assert second.asked
    assert not ask_producer(Group(deaf), "b", half)  # type: ignore[arg-type]
    assert not ask_producer(Group(), "b", half)  # type: ignore[arg-type]


def test_nobody_is_asked_about_what_is_for_no_queue(rig: SendRig) -> None:
    prepare(rig)
    half = rig.record(HALF_TOPIC, 0)
    half.remove_property("REAL_TOPIC")
    producer = Producer()
    assert not ask_producer(Group(producer), "b", half)  # type: ignore[arg-type]
    assert producer.asked == []


# --- a second chance ------------------------------------------------------------------------------


def give_up(rig: SendRig, **properties: str) -> str:
    """Let a half message be given up; its id."""
    rig.config.transaction_check_max = 0
    prepare(rig, b"hello", **properties)
    rig.pass_ms(30_000)
    asyncio.run(rig.transactions.check())
    rig.config.transaction_check_max = 15
    return rig.record(TRANSACTION_GIVEN_UP_TOPIC, 0).offset_id


def resume(rig: SendRig, message_id: str | None) -> Reply:
    ext = {} if message_id is None else {"msgId": message_id}
    request = Command(RequestCode.RESUME_CHECK_HALF_MESSAGE, ext, opaque=9)
    return rig.handle(request, ROUTES[RequestCode.RESUME_CHECK_HALF_MESSAGE])


def test_a_transaction_that_was_given_up_is_asked_about_again(rig: SendRig) -> None:
    """As if it were new; when it is committed its message is seen."""
    message_id = give_up(rig)
    assert len(rig.transactions) == 0
    assert code_of(resume(rig, message_id)) == ResponseCode.SUCCESS
    rig.pass_ms(30_000)
    asyncio.run(rig.transactions.check())
    (link,) = rig.asked
    assert link.get_property("TRANSACTION_CHECK_TIMES") == "1"
    answer = {
        "producerGroup": "PG", "tranStateTableOffset": str(link.queue_offset),
        "commitLogOffset": str(link.log_offset), "commitOrRollback": COMMIT,
        "fromTransactionCheck": "true", "msgId": "U",
    }  # fmt: skip
    end(rig, Command(RequestCode.END_TRANSACTION, answer, opaque=9))
    assert bodies(rig) == [b"hello"]
    with pytest.raises(RequestError, match="was committed since it was given up"):
        resume(rig, message_id)
    assert bodies(rig) == [b"hello"]


def test_a_transaction_is_resumed_once_at_a_time(rig: SendRig) -> None:
    """Two of them would store their message twice."""
    message_id = give_up(rig)
    resume(rig, message_id)
    with pytest.raises(RequestError, match="open again"):
        resume(rig, message_id)
    assert len(rig.transactions) == 1


def test_a_message_without_an_id_is_resumed_as_well(rig: SendRig) -> None:
    """Nobody can tell then whether it was before."""
    message_id = give_up(rig, UNIQ_KEY="")
    assert code_of(resume(rig, message_id)) == ResponseCode.SUCCESS


def test_only_what_was_given_up_is_resumed(rig: SendRig) -> None:
    """Not another message, nor one that is not there, nor one that does not say where it goes."""
    give_up(rig)
    other = rig.record(HALF_TOPIC, 0).offset_id
    with pytest.raises(RequestError, match="so it was not given up"):
        resume(rig, other)
    for missing in ("FF" * 16, "x", None):
        with pytest.raises(RequestError, match="no message has the id"):
            resume(rig, missing)
    lost = rig.record(TRANSACTION_GIVEN_UP_TOPIC, 0)
    lost.remove_property("REAL_QID")
    where = rig.store.append(lost)
    lost_id = rig.store.record_at(where.log_offset).offset_id
    with pytest.raises(RequestError, match="says of no queue"):
        resume(rig, lost_id)
