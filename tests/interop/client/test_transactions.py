"""Transactions of ours with every broker; Java's siblings answer for ours, and ours for Java's."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import pytest

from interop.broker.clients import Clients, Transacting
from interop.broker.clients import Message as JavaMessage
from interop.client.leaving import leave
from interop.client.sites import Site, aside
from interop.client.waiting import until
from roketto.client.local_transaction import TransactionState
from roketto.client.message import Message
from roketto.client.received import ReceivedMessage
from roketto.client.transaction import TransactionProducer

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN,
)  # fmt: skip

PLAIN: Final = "PyPlainly"
CHECKED: Final = "PyChecked"
OURS_LEFT: Final = "PyLeftBehind"
JAVAS_LEFT: Final = "JavaLeftBehind"

WAIT_S: Final = 60.0
"""Java's broker asks within seconds, but on a busy machine late."""


@dataclass(slots=True)
class Told:
    """All transactions began and ended; what was committed by then, by topic, and who was asked."""

    committed: dict[str, list[JavaMessage]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    """Bodies that the producer was asked about which has sent them."""
    sibling_checks: list[str] = field(default_factory=list)
    java_checks: list[str] = field(default_factory=list)

    def bodies(self, topic: str) -> list[str]:
        """In order. Java's broker may commit a message more than once."""
        return sorted({one.body for one in self.committed[topic]})


@pytest.fixture(scope="module")
def told(site: Site) -> Told:
    """One wait for all tests."""
    return asyncio.run(transact(site))


async def transact(site: Site) -> Told:
    told = Told()
    for topic in (PLAIN, CHECKED, OURS_LEFT, JAVAS_LEFT):
        await site.topic(topic)

    async def check(message: ReceivedMessage) -> TransactionState:
        told.checks.append(message.body.decode())
        return TransactionState[message.properties["answer"]]

    async with TransactionProducer("pyTransacts", site.names, check=check) as producer:
        await send_plainly(producer, told)
        for body, answer in (("goes", "COMMIT"), ("stays", "ROLLBACK"), ("who knows", "UNKNOWN")):
            message = Message(CHECKED, body.encode(), properties={"answer": answer})
            await producer.send_in_transaction(message, execute=lambda *_: UNKNOWN)
        await leave_ours_to_java(site, told)
        await leave_javas_to_ours(site, told)

        async def are_asked() -> bool:
            return told.checks.count("who knows") >= 2 and {"goes", "stays"} <= set(told.checks)

        await until(are_asked, "questions, twice about what nobody knows", WAIT_S)
        for topic, count in ((PLAIN, 3), (CHECKED, 1)):
            told.committed[topic] = await aside(site.java.drain, topic, count)
    return told


async def send_plainly(producer: TransactionProducer, told: Told) -> None:
    async def execute(message: Message, state: TransactionState) -> TransactionState:
        return state

    for n, state in enumerate([COMMIT, COMMIT, ROLLBACK]):
        message = Message(PLAIN, f"body {n}".encode(), "TagA", ["k1"], {"user": "中文"}, flag=7)
        result = await producer.send_in_transaction(message, execute=execute, arg=state)
        assert result.state is state
        told.ids[f"body {n}"] = result.message_id
    async with producer.transaction(Message(PLAIN, b"block")) as transaction:
        told.ids["block"] = transaction.message_id
    with pytest.raises(ValueError, match="broken"):
        async with producer.transaction(Message(PLAIN, b"broken block")):
            raise ValueError("broken")


async def leave_ours_to_java(site: Site, told: Told) -> None:
    """kill -9 of our process before it knows; a Java producer of its group is asked."""
    told.ids["left"] = await leave(site.names, "pyFamily", OURS_LEFT, "left", "COMMIT_MESSAGE")
    sibling = await aside(Transacting, site.java, "pySibling", "pyFamily")
    # A broker knows those that it has had a message of. In a topic of its own: on a busy machine
    # Java asks about it before it has noted the rollback.
    await aside(sibling.send, "JavaKnown", "not for anybody", "ROLLBACK_MESSAGE")
    told.committed[OURS_LEFT] = await drained(site, OURS_LEFT)
    told.java_checks = await aside(sibling.checks)
    await aside(sibling.end)


async def leave_javas_to_ours(site: Site, told: Told) -> None:
    """The other way round: ours, which has sent nothing, is asked when Java's JVM was killed."""
    doomed = Clients(site.peer.clients([site.names]))
    java = await aside(Transacting, doomed, "javaParent", "javaFamily")
    sent = await aside(java.send, JAVAS_LEFT, "left", "UNKNOW", keys="k", properties={"a": "中文"})
    told.ids["java's"] = sent
    await aside(doomed.shell.kill)

    def check(message: ReceivedMessage) -> TransactionState:
        assert (message.topic, message.message_id, message.keys) == (JAVAS_LEFT, sent, ["k"])
        assert message.properties["a"] == "中文"
        told.sibling_checks.append(message.body.decode())
        return COMMIT

    async with TransactionProducer("javaFamily", site.names, check=check, topics=[JAVAS_LEFT]):
        told.committed[JAVAS_LEFT] = await drained(site, JAVAS_LEFT)


async def drained(site: Site, topic: str) -> list[JavaMessage]:
    """All of a topic, when there is something; asked about, which may take its time."""

    async def is_there() -> bool:
        bounds = await aside(site.java.bounds, topic)
        return sum(largest for _, largest, _ in bounds.values()) > 0

    await until(is_there, f"the message of {topic}", WAIT_S)
    return await aside(site.java.drain, topic, 1)


def test_committed_messages_come_and_rolled_back_ones_do_not(told: Told) -> None:
    """With the ids that their producer was told, and all that they were sent with."""
    assert told.bodies(PLAIN) == ["block", "body 0", "body 1"]
    kept = {
        "KEYS": "k1", "TAGS": "TagA", "PGROUP": "pyTransacts", "user": "中文", "TRAN_MSG": "true",
    }  # fmt: skip
    first: dict[str, JavaMessage] = {}
    for message in told.committed[PLAIN]:
        first.setdefault(message.body, message)
        assert message.id == told.ids[message.body]
        assert message.sys_flag & 0xC == 0x8
    for body in ("body 0", "body 1"):  # what Java's broker commits once more has lost its flag
        assert first[body].flag == 7
        assert first[body].user_properties.items() >= kept.items()


async def test_brokers_confirm_ends_when_they_are_asked_to(site: Site) -> None:
    """Of commits and of rollbacks; what was committed is there."""
    topic = await site.topic("PyConfirmed")
    async with TransactionProducer("pyConfirms", site.names, confirms_end=True) as producer:
        for state in (ROLLBACK, COMMIT):
            message = Message(topic, state.name.encode())
            result = await producer.send_in_transaction(message, lambda _, told: told, state)
            assert (result.state, result.is_confirmed, result.end_error) == (state, True, None)
    assert {one.body for one in await aside(site.java.drain, topic, 1)} == {"COMMIT"}


def test_who_does_not_know_is_asked_until_he_does(told: Told) -> None:
    """One says then that it is committed, one that it is not, one nothing for a while."""
    assert told.bodies(CHECKED) == ["goes"]
    assert set(told.checks) == {"goes", "stays", "who knows"}


def test_a_java_sibling_is_asked_when_ours_was_killed(told: Told) -> None:
    assert told.bodies(OURS_LEFT) == ["left"]
    assert told.committed[OURS_LEFT][0].id == told.ids["left"]
    assert "left" in told.java_checks


def test_our_sibling_is_asked_when_javas_was_killed(told: Told) -> None:
    assert told.bodies(JAVAS_LEFT) == ["left"]
    assert told.committed[JAVAS_LEFT][0].id == told.ids["java's"]
    assert set(told.sibling_checks) == {"left"}
