"""Transactions with our servers: what was done is delivered, what was not is not, whoever dies."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, bodies, name, queue, until
from roketto.client import transaction_checks
from roketto.client.message import Message
from roketto.client.pull import PullConsumer
from roketto.client.received import ReceivedMessage
from roketto.client.transaction import TransactionProducer, TransactionState
from roketto.client.transaction_ends import EndContext
from servers import broker, name_server

CHECKS_QUICKLY = {
    "transactionCheckInterval": "200",
    "transactionTimeOut": "200",
    "transactionCheckMax": "1000",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with name_server(folder) as names, broker(folder, [names.address], CHECKS_QUICKLY) as server:
        yield names.address, server.address


@pytest.fixture
async def rig(servers: tuple[str, str]) -> AsyncIterator[PullRig]:
    async with PullRig(*servers) as made:
        yield made


async def delivered(rig: PullRig, topic: str) -> list[str]:
    """The bodies of all messages that consumers of a topic get."""
    async with PullConsumer(name(), client=rig.client) as consumer:
        pulled = await consumer.pull(queue(topic), 0)
    return bodies(pulled.messages)


async def wait_delivered(rig: PullRig, topic: str, expected: list[str]) -> None:
    async def is_so() -> bool:
        return await delivered(rig, topic) == expected

    await until(is_so)


async def test_what_was_done_is_delivered_and_what_was_not_is_not(rig: PullRig) -> None:
    """Both ways of saying it, coroutine and function, with and without waiting for the broker."""
    topic = await rig.topic()

    async def execute(message: Message, arg: TransactionState) -> TransactionState:
        assert await delivered(rig, topic) == []  # a half message is nobody's
        return arg

    async with TransactionProducer(name(), rig.names, confirms_end=True) as producer:
        rolled_back = await producer.send_in_transaction(
            Message(topic, b"not done"), execute, TransactionState.ROLLBACK
        )
        assert (rolled_back.state, rolled_back.is_confirmed) == (TransactionState.ROLLBACK, True)
        done = await producer.send_in_transaction(
            Message(topic, b"done"), execute, TransactionState.COMMIT
        )
        assert (done.state, done.is_confirmed) == (TransactionState.COMMIT, True)
        assert await delivered(rig, topic) == ["done"]
    async with TransactionProducer(name(), rig.names) as producer:
        await producer.send_in_transaction(
            Message(topic, b"x" * 5_000), lambda message, arg: TransactionState.COMMIT
        )
        await wait_delivered(rig, topic, ["done", "x" * 5_000])


async def test_an_exception_in_the_block_rolls_back_and_leaving_it_commits(rig: PullRig) -> None:
    topic = await rig.topic()
    async with TransactionProducer(name(), rig.names, confirms_end=True) as producer:
        with pytest.raises(LookupError):
            async with producer.transaction(Message(topic, b"not done")) as failed:
                raise LookupError
        assert failed.result is not None
        assert (failed.result.state, failed.result.is_confirmed) == (
            TransactionState.ROLLBACK,
            True,
        )
        async with producer.transaction(Message(topic, b"done", tags="t")) as sent:
            pass
        assert sent.result is not None
        assert sent.result.is_confirmed
    async with PullConsumer(name(), client=rig.client) as consumer:
        (message,) = (await consumer.pull(queue(topic), 0)).messages
    assert (message.message_id, message.tags) == (sent.message_id, "t")
    assert message.transaction_id == sent.message_id


async def test_what_is_unknown_is_checked_until_somebody_knows(rig: PullRig) -> None:
    """The broker asks again and again, and finds the message as it was sent."""
    topic = await rig.topic()
    asked: list[ReceivedMessage] = []

    async def check(message: ReceivedMessage) -> TransactionState | None:
        asked.append(message)
        if len(asked) == 1:
            raise LookupError("the database is away")
        return TransactionState.COMMIT if len(asked) == 3 else None

    async with TransactionProducer(name(), rig.names, check=check) as producer:
        result = await producer.send_in_transaction(
            Message(topic, b"y" * 5_000, keys=["k"]), lambda message, arg: None
        )
        assert result.state is TransactionState.UNKNOWN
        await wait_delivered(rig, topic, ["y" * 5_000])
    assert len(asked) == 3
    assert {(one.message_id, one.topic, one.body) for one in asked} == {
        (result.message_id, topic, b"y" * 5_000)
    }
    assert (asked[0].keys, asked[0].broker_name) == (["k"], "broker-a")


async def test_a_sibling_is_asked_when_the_producer_is_gone(rig: PullRig) -> None:
    """One that has never sent anything itself; brokers know it by its topics."""
    topic = await rig.topic()
    group = name()
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body.decode())
        is_paid = message.body == b"paid"
        return TransactionState.COMMIT if is_paid else TransactionState.ROLLBACK

    async with TransactionProducer(group, rig.names) as producer:
        for body in (b"not paid", b"paid"):
            await producer.send_in_transaction(Message(topic, body), lambda message, arg: None)
    async with TransactionProducer(group, rig.names, check=check, topics=[topic]):
        await wait_delivered(rig, topic, ["paid"])

        async def is_asked() -> bool:
            return sorted(asked) == ["not paid", "paid"]

        await until(is_asked)
    assert await delivered(rig, topic) == ["paid"]


async def test_a_transaction_under_way_is_not_called_off_by_its_own_check(rig: PullRig) -> None:
    """The broker asks while the block runs, and a check that finds nothing yet is not believed."""
    topic = await rig.topic()
    asked: list[object] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return TransactionState.ROLLBACK

    told: list[EndContext] = []
    async with TransactionProducer(name(), rig.names, check=check) as producer:
        producer.end_hooks.append(told.append)

        async def is_told() -> bool:
            return bool(told)

        async with producer.transaction(Message(topic, b"slow")):
            await until(is_told)
        await wait_delivered(rig, topic, ["slow"])
    assert (told[0].is_from_check, told[0].state) == (True, TransactionState.UNKNOWN)
    assert asked == []


async def test_an_end_that_was_lost_is_told_again_when_the_broker_asks(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once: it may just be on its way."""
    monkeypatch.setattr(transaction_checks, "SETTLED_S", 0.5)
    topic = await rig.topic()
    async with TransactionProducer(name(), rig.names) as producer:
        pool = producer.client.calls.pool
        with monkeypatch.context() as patched:

            async def lose(address: str, command: object) -> bool:
                return True

            patched.setattr(pool, "send_one_way", lose)
            async with producer.transaction(Message(topic, b"done")):
                pass
        await wait_delivered(rig, topic, ["done"])
