"""A half message is stored, something is done, and the broker is told what became of it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    IllegalMessageError,
    SendFailedError,
)
from roketto.client.message import Message, SendStatus
from roketto.client.received import ReceivedMessage
from roketto.client.transaction import PreparedMessage, TransactionProducer, TransactionState
from roketto.protocol.codes import RequestCode
from roketto.protocol.names import HALF_TOPIC
from roketto.protocol.properties import decode_properties
from unit.client.core_rig import GROUP, MASTER, TOPIC, unreachable
from unit.client.transaction_rig import HALF_OFFSET, LOG_OFFSET, TransactionRig, ask, question

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
MESSAGE = Message(TOPIC, b"x", tags="new", keys=["k"])


class Orders:
    """A listener that does what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.says: Any = TransactionState.COMMIT
        self.executed: list[tuple[PreparedMessage, Any]] = []
        self.checked: list[ReceivedMessage] = []

    async def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
        self.executed.append((message, arg))
        return self._say()

    async def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return self._say()

    def _say(self) -> TransactionState:
        if isinstance(self.says, BaseException):
            raise self.says
        said: TransactionState = self.says
        return said


@pytest.fixture
def rig() -> TransactionRig:
    return TransactionRig()


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
async def producer(rig: TransactionRig, orders: Orders) -> AsyncIterator[TransactionProducer]:
    async with TransactionProducer(GROUP, client=rig.client, listener=orders) as made:
        yield made


# --- sending --------------------------------------------------------------------------------------


async def test_a_commit_names_the_half_message_as_java_does(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    """Its properties and flag mark it; its end has all fields of Java's, and is one-way."""
    result = await producer.send_in_transaction(MESSAGE, arg="order 1")
    assert (result.state, result.is_confirmed) == (TransactionState.COMMIT, False)
    assert [(message.message_id, arg) for message, arg in orders.executed] == [
        (result.message_id, "order 1")
    ]
    ((_, sent),) = rig.sent(RequestCode.SEND_MESSAGE_V2)
    properties = decode_properties(sent["i"].encode())
    assert (sent["f"], properties["TRAN_MSG"], properties["PGROUP"]) == ("4", "true", GROUP)
    assert properties["UNIQ_KEY"] == result.message_id
    ((address, ended),) = rig.sent(RequestCode.END_TRANSACTION)
    assert address == MASTER
    assert ended == {
        "topic": TOPIC, "producerGroup": GROUP, "tranStateTableOffset": str(HALF_OFFSET),
        "commitLogOffset": str(LOG_OFFSET), "commitOrRollback": str(COMMIT),
        "fromTransactionCheck": "false", "msgId": result.message_id, "transactionId": "their-id",
        "bname": result.sent.queue.broker_name,
    }  # fmt: skip


async def test_an_id_that_the_message_has_is_kept(producer: TransactionProducer) -> None:
    async with producer.transaction(Message(TOPIC, b"x", message_id="order-17")) as sent:
        assert sent.message_id == sent.sent.message_id == "order-17"


async def test_brokers_know_the_producer_before_they_have_its_half_message(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    await producer.send_in_transaction(MESSAGE)
    codes = [command.code for _, command in rig.pool.sent]
    assert codes.index(RequestCode.HEART_BEAT) < codes.index(RequestCode.SEND_MESSAGE_V2)


@pytest.mark.parametrize(
    ("says", "decision"),
    [
        (TransactionState.ROLLBACK, ROLLBACK),
        (TransactionState.UNKNOWN, UNKNOWN),
        (None, UNKNOWN),
        (LookupError("no row"), UNKNOWN),
    ],
)
async def test_the_broker_is_told_what_the_listener_says(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer, says: Any, decision: int
) -> None:
    orders.says = says
    result = await producer.send_in_transaction(MESSAGE)
    is_error = isinstance(says, Exception)
    assert result.error is (says if is_error else None)
    remark = "executeLocalTransactionBranch exception: LookupError: no row" if is_error else None
    assert rig.ends() == [(decision, False, remark)]


@pytest.mark.parametrize("status", list(SendStatus)[1:])
async def test_what_is_not_stored_safely_is_rolled_back_and_never_executed(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer, status: SendStatus
) -> None:
    rig.send_code = status.value
    result = await producer.send_in_transaction(MESSAGE)
    assert (result.state, result.sent.status) == (TransactionState.ROLLBACK, status)
    with pytest.raises(SendFailedError, match=f"not safely .{status.name}"):
        async with producer.transaction(MESSAGE):
            orders.executed.append((None, None))  # type: ignore[arg-type]
    assert orders.executed == []
    assert rig.ends() == [(ROLLBACK, False, None)] * 2


async def test_with_confirms_end_results_say_whether_the_broker_has_done_it(
    rig: TransactionRig,
) -> None:
    async with TransactionProducer(GROUP, client=rig.client, confirms_end=True) as producer:
        result = await producer.send_in_transaction(MESSAGE, lambda *_: TransactionState.COMMIT)
        assert (result.is_confirmed, result.end_error) == (True, None)
        rig.end_code = 604
        async with producer.transaction(MESSAGE) as sent:
            pass
        assert sent.result is not None
        assert not sent.result.is_confirmed
        assert "604 (ILLEGAL_OPERATION): as told" in str(sent.result.end_error)
        unknown = await producer.send_in_transaction(MESSAGE, lambda *_: None)
        assert not unknown.is_confirmed  # nobody answers that, so nobody waits for it


async def test_a_broker_that_cannot_be_told_is_an_error_in_the_result(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    rig.reads = False
    result = await producer.send_in_transaction(MESSAGE)
    assert result.state is TransactionState.COMMIT
    assert f"broker-a at {MASTER}" in str(result.end_error)


async def test_a_half_message_without_a_place_is_an_error_in_the_result(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    rig.offset_id = "nowhere"
    result = await producer.send_in_transaction(MESSAGE)
    assert "has given a half message the id 'nowhere'" in str(result.end_error)
    assert rig.ends() == []


async def test_a_function_that_is_cancelled_in_its_thread_still_commits(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    """It cannot be interrupted: what it has done is told, and then the caller is cancelled."""
    begun, goes_on = threading.Event(), threading.Event()

    def execute(message: object, arg: object) -> TransactionState:
        begun.set()
        assert goes_on.wait(10)
        return TransactionState.COMMIT

    task = asyncio.create_task(producer.send_in_transaction(MESSAGE, execute))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    goes_on.set()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert rig.ends() == [(COMMIT, False, None)]


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"delay_ms": 5}, {"deliver_at_ms": 5}])
async def test_a_delayed_message_is_refused_before_anything_is_sent(
    rig: TransactionRig, producer: TransactionProducer, delay: dict[str, int]
) -> None:
    with pytest.raises(IllegalMessageError, match="in a transaction, and delayed"):
        await producer.send_in_transaction(Message(TOPIC, b"x", **delay))  # type: ignore[arg-type]
    assert rig.sent(RequestCode.SEND_MESSAGE_V2) == []


async def test_without_a_local_transaction_nothing_is_sent(rig: TransactionRig) -> None:
    async with TransactionProducer(GROUP, client=rig.client) as producer:
        with pytest.raises(ClientError, match="Give execute, or make the producer with a listener"):
            await producer.send_in_transaction(MESSAGE)
    assert rig.sent(RequestCode.SEND_MESSAGE_V2) == []


# --- the context manager --------------------------------------------------------------------------


async def test_leaving_commits_and_an_exception_rolls_back(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    async with producer.transaction(MESSAGE) as sent:
        assert (sent.result, sent.sent.queue_offset) == (None, HALF_OFFSET)
    assert sent.result is not None
    assert sent.result.message_id == sent.message_id == sent.message.message_id
    with pytest.raises(LookupError):
        async with producer.transaction(MESSAGE):
            raise LookupError
    async with producer.transaction(MESSAGE) as sent:
        sent.roll_back()
    assert [decision for decision, _, _ in rig.ends()] == [COMMIT, ROLLBACK, ROLLBACK]


async def test_a_block_that_is_cancelled_is_rolled_back(
    rig: TransactionRig, producer: TransactionProducer
) -> None:
    inside = asyncio.Event()

    async def transact() -> None:
        async with producer.transaction(MESSAGE):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(transact())
    await inside.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert rig.ends() == [(ROLLBACK, False, None)]


async def test_a_transaction_that_has_not_begun_or_has_ended_says_so(
    producer: TransactionProducer,
) -> None:
    transaction = producer.transaction(MESSAGE)
    with pytest.raises(ClientError, match="has not begun"):
        _ = transaction.message_id
    async with transaction:
        pass
    with pytest.raises(ClientError, match="was begun before"):
        await transaction.__aenter__()


# --- questions ------------------------------------------------------------------------------------


async def test_a_question_about_another_process_is_for_the_listener(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    """The end goes to who has asked, with the offsets of the question."""
    await ask(rig, producer, rig.half("THEIRS"))
    (message,) = orders.checked
    assert (message.message_id, message.topic, message.body) == ("THEIRS", TOPIC, b"x")
    ((address, ended),) = rig.sent(RequestCode.END_TRANSACTION)
    assert address == MASTER
    assert ended == {
        "topic": HALF_TOPIC, "producerGroup": GROUP, "tranStateTableOffset": "90",
        "commitLogOffset": "900", "commitOrRollback": str(COMMIT), "fromTransactionCheck": "true",
        "msgId": "THEIRS", "transactionId": "THEIRS", "bname": "broker-a",
    }  # fmt: skip
    orders.says = LookupError("no database")
    await ask(rig, producer, rig.half("ANOTHER"))
    assert rig.ends()[1] == (
        UNKNOWN, True, "checkLocalTransactionState Exception: LookupError: no database",
    )  # fmt: skip


async def test_what_was_decided_here_is_said_again_and_nobody_is_asked(
    rig: TransactionRig,
    orders: Orders,
    producer: TransactionProducer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roketto.client.transaction_checks.SETTLED_S", 0.0)
    committed = await producer.send_in_transaction(MESSAGE)
    orders.says = TransactionState.ROLLBACK
    rolled_back = await producer.send_in_transaction(MESSAGE)
    orders.says = LookupError()
    await ask(rig, producer, rig.half(committed.message_id))
    await ask(rig, producer, rig.half(rolled_back.message_id))
    assert rig.ends()[2:] == [(COMMIT, True, None), (ROLLBACK, True, None)]
    assert orders.checked == []


async def test_a_broker_that_does_not_say_who_it_is_is_found_by_its_address(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    await producer.client.routes.get(TOPIC)
    for address, expected in ((MASTER, "broker-a"), ("10.9.9.9:1", "")):
        request = question("THEIRS")
        request.target_broker_name = None
        producer.check_transaction(address, request, rig.half(f"FROM {address}"))
        await rig.wait_ends(len(orders.checked) + 1)
        assert orders.checked[-1].broker_name == expected


async def test_a_commit_that_was_just_told_is_not_told_again(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    """Java's brokers ask while they note it, and deliver the message again for each commit."""
    committed = await producer.send_in_transaction(MESSAGE)
    await ask(rig, producer, rig.half(committed.message_id))
    for _ in range(2):
        await ask(rig, producer, rig.half("THEIRS"))
    assert rig.ends() == [
        (COMMIT, False, None),
        (UNKNOWN, True, "the commit was sent 0.0 s ago"),
        (COMMIT, True, None),
        (UNKNOWN, True, "the commit was sent 0.0 s ago"),
    ]
    assert len(orders.checked) == 1
    rig.reads = False  # one that could not be told is told as soon as the broker asks
    lost = await producer.send_in_transaction(MESSAGE)
    rig.reads = True
    await ask(rig, producer, rig.half(lost.message_id))
    assert rig.ends()[-1] == (COMMIT, True, None)


async def test_a_transaction_under_way_is_not_looked_for(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    """Its check would find no trace of it yet, and call it off."""
    orders.says = TransactionState.ROLLBACK
    async with producer.transaction(MESSAGE) as sent:
        await ask(rig, producer, rig.half(sent.message_id))
    assert rig.ends() == [
        (UNKNOWN, True, "the local transaction is under way"), (COMMIT, False, None),
    ]  # fmt: skip
    assert orders.checked == []


async def test_a_half_message_whose_send_failed_is_rolled_back_when_asked_about(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    """It may be stored all the same; nothing was done for it."""
    rig.send_code = 13
    with pytest.raises(SendFailedError):
        await producer.send_in_transaction(MESSAGE)
    _, sent = rig.sent(RequestCode.SEND_MESSAGE_V2)[-1]
    await ask(rig, producer, rig.half(decode_properties(sent["i"].encode())["UNIQ_KEY"]))
    assert rig.ends() == [(ROLLBACK, True, None)]
    assert not orders.checked
    assert not orders.executed


async def test_a_local_transaction_that_was_cancelled_is_for_the_listener_to_tell(
    rig: TransactionRig, orders: Orders, producer: TransactionProducer
) -> None:
    inside: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def execute(message: PreparedMessage, arg: object) -> TransactionState:
        inside.set_result(message.message_id)
        await asyncio.sleep(60)
        return TransactionState.COMMIT

    task = asyncio.create_task(producer.send_in_transaction(MESSAGE, execute))
    message_id = await inside
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    await ask(rig, producer, rig.half(message_id))
    assert len(orders.checked) == 1


async def test_who_cannot_check_says_so_and_a_body_that_cannot_be_read_is_unknown(
    rig: TransactionRig, orders: Orders
) -> None:
    async with TransactionProducer(GROUP, client=rig.client) as producer:
        await ask(rig, producer, rig.half("THEIRS"))
    decision, _, remark = rig.ends()[-1]
    assert (decision, remark is not None and "nobody here checks" in remark) == (UNKNOWN, True)
    rig = TransactionRig()
    async with TransactionProducer(GROUP, client=rig.client, check=orders.check) as producer:
        await ask(rig, producer, rig.half("THEIRS", b"not packed", sys_flag=0x301))
    assert rig.ends()[-1][0] == UNKNOWN
    assert orders.checked == []


async def test_topics_are_shown_and_sent_with_and_without_their_namespace() -> None:
    rig = TransactionRig("space")
    rig.routes["space%" + TOPIC] = rig.routes[TOPIC]
    orders = Orders()
    async with TransactionProducer(GROUP, client=rig.client, listener=orders) as producer:
        await producer.send_in_transaction(MESSAGE)
        await ask(rig, producer, rig.half("THEIRS"))
    assert orders.executed[0][0].topic == orders.checked[0].topic == TOPIC
    (_, ended), _ = rig.sent(RequestCode.END_TRANSACTION)
    assert (ended["topic"], ended["producerGroup"]) == ("space%" + TOPIC, "space%" + GROUP)
    _, sent = rig.sent(RequestCode.SEND_MESSAGE_V2)[0]
    assert decode_properties(sent["i"].encode())["PGROUP"] == "space%" + GROUP


async def test_questions_above_their_bound_are_left_for_later(
    rig: TransactionRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roketto.client.transaction_checks.CHECKS_MAX", 3)
    at_once = most = 0

    async def check(message: ReceivedMessage) -> TransactionState:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        return TransactionState.COMMIT

    producer = TransactionProducer(GROUP, client=rig.client, check=check, checks_at_once=2)
    async with producer:
        for number in range(4):
            producer.check_transaction(MASTER, question(f"ID{number}"), rig.half(f"ID{number}"))
        await rig.wait_ends(3)
    assert most == 2
    assert "while 3 others are looked into, which is the bound" in caplog.text
    assert len(rig.ends()) == 3


async def test_stopping_waits_for_ends_and_not_for_checks(rig: TransactionRig) -> None:
    asked = asyncio.Event()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.set()
        await asyncio.sleep(60)
        return TransactionState.COMMIT

    async with TransactionProducer(GROUP, client=rig.client, check=check) as producer:
        producer.check_transaction(MASTER, question("ID0"), rig.half("ID0"))
        await asked.wait()
        sent = producer.transaction(MESSAGE)
        await sent.__aenter__()
        leaving = asyncio.create_task(sent.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()  # the end is told all the same
    await asyncio.gather(leaving, return_exceptions=True)
    assert rig.ends() == [(COMMIT, False, None)]
    producer.check_transaction(MASTER, question("ID1"), rig.half("ID1"))
    assert len(rig.ends()) == 1


async def test_stopping_does_not_wait_for_ever_for_ends(
    rig: TransactionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roketto.client.transaction._STOP_S", 0.01)
    async with TransactionProducer(GROUP, client=rig.client, confirms_end=True) as producer:
        sent = await producer.transaction(MESSAGE).__aenter__()
        rig.is_silent = True
        leaving = asyncio.create_task(sent.__aexit__(None, None, None))
        await asyncio.sleep(0.005)
        rig.is_silent = False
    await leaving
    assert sent.result is not None
    assert isinstance(sent.result.end_error, ClientClosedError)


async def test_a_broker_that_goes_while_it_asks_is_told_when_it_asks_again(
    rig: TransactionRig,
    orders: Orders,
    producer: TransactionProducer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for error in (unreachable(MASTER), None):
        rig.error = error
        producer.check_transaction(MASTER, question("THEIRS"), rig.half("THEIRS"))
        while producer._checks._tasks:
            await asyncio.wait(tuple(producer._checks._tasks))
    assert f"{MASTER} has asked about THEIRS and was not told" in caplog.text
    assert (len(orders.checked), rig.ends()) == (2, [(COMMIT, True, None)])


async def test_hooks_see_each_end_and_may_fail(
    rig: TransactionRig, producer: TransactionProducer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def fail(context: object) -> None:
        raise LookupError("a hook")

    producer.end_hooks.extend((fail, seen.append))
    result = await producer.send_in_transaction(MESSAGE)
    await ask(rig, producer, rig.half("THEIRS", TAGS="t", KEYS="k1 k2", MSG_REGION="far"))
    first, second = seen
    assert (first.group, first.topic, first.tags, first.keys) == (GROUP, TOPIC, "new", "k")
    assert (first.message_id, first.transaction_id) == (result.message_id, result.message_id)
    assert (first.region_id, first.state) == ("DefaultRegion", TransactionState.COMMIT)
    assert (second.keys, second.region_id, second.is_from_check) == ("k1 k2", "far", True)
    assert caplog.text.count("a hook") >= 2
