"""A loop pulls when there is room, goes on where its broker says, and survives what goes wrong."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roketto.client import pull_loop
from roketto.client.message import MessageQueue
from roketto.client.owned_queue import OwnedQueue
from roketto.client.positions import FromWhere
from roketto.client.pull_loop import PullLoop, reason_to_hold
from roketto.client.received import ReceivedMessage
from roketto.client.subscription import Subscription, make_subscription
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.pull import PullMessageResponse
from roketto.protocol.record import Record, encode_record
from unit.client.core_rig import TOPIC, unreachable
from unit.client.push_parts import PushRig, filled, message, name, until

PULL = RequestCode.PULL_MESSAGE
FOUND, NO_NEW = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND
MOVED, NOT_WANTED = ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY


class Owner:
    """A consumer as its loops know it, and a broker that answers pulls from a list."""

    def __init__(self, rig: PushRig) -> None:
        self.rig = rig
        self.is_paused = False
        self.count_max, self.mib_max = 10, 1
        self.subscription: Subscription | None = make_subscription(TOPIC, "*", 1)
        self.submitted: list[list[int]] = []
        self.moves: list[tuple[MessageQueue, int]] = []
        self.heartbeats = 0
        self.relocked: list[OwnedQueue] = []
        self.answers: list[Command | Exception] = []
        self.asked: list[dict[str, str]] = []
        rig.rig._brokers = self.answer

    def wanted(self, topic: str) -> Subscription | None:
        return self.subscription

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        self.submitted.append([one.queue_offset for one in messages])

    async def relock(self, queue: OwnedQueue) -> None:
        self.relocked.append(queue)

    async def move(self, queue: MessageQueue, consume_offset: int) -> None:
        self.moves.append((queue, consume_offset))

    def heartbeat_soon(self) -> None:
        self.heartbeats += 1

    def answer(self, address: str, command: Command) -> Command:
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return command.answer(ext={"offset": "5"})
        self.asked.append(dict(command.ext or {}))
        if not self.answers:
            raise asyncio.CancelledError  # the script is over, and so is the loop
        made = self.answers.pop(0)
        if isinstance(made, Exception):
            raise made
        made.opaque = command.opaque
        return made


def answer(code: int, next_offset: int, *offsets: int, ends: tuple[int, int] = (0, 99)) -> Command:
    header = PullMessageResponse(
        next_begin_offset=next_offset, min_offset=ends[0], max_offset=ends[1],
        suggest_which_broker_id=0,
    )  # fmt: skip
    body = b"".join(encode_record(Record(TOPIC, b"x", queue_offset=offset)) for offset in offsets)
    return Command(code, encode_header(header), body)


async def run(owner: Owner, queue: OwnedQueue, *answers: Command | Exception) -> None:
    """Let a loop have these answers, and end it with the next pull."""
    owner.answers = list(answers)
    loop = PullLoop(owner.rig.parts, queue, owner, FromWhere.FIRST, 0)
    with pytest.raises(asyncio.CancelledError):
        await loop.run()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for constant in ("FULL_S", "BUSY_S", "FAILED_S"):
        monkeypatch.setattr(pull_loop, constant, 0.001)


@asynccontextmanager
async def running(owner: Owner, queue: OwnedQueue) -> AsyncIterator[None]:
    task = asyncio.create_task(PullLoop(owner.rig.parts, queue, owner, FromWhere.FIRST, 0).run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_loop_begins_where_the_group_is_and_follows_its_broker() -> None:
    """What is found is handed on; the consume offset goes with the next pull."""
    owner, queue = Owner(PushRig()), OwnedQueue(name())
    await run(owner, queue, answer(FOUND, 7, 5, 6), answer(FOUND, 9, 8))
    assert [fields["queueOffset"] for fields in owner.asked] == ["5", "7", "9"]
    assert owner.submitted == [[5, 6], [8]]
    assert queue.messages.count == 3
    first = owner.asked[0]
    assert (first["commitOffset"], first["sysFlag"]) == ("5", "3")  # commit, and wait for messages
    assert (first["suspendTimeoutMillis"], first["subVersion"]) == ("15000", "1")


async def test_what_is_not_wanted_counts_as_consumed_if_nothing_waits() -> None:
    """Of a batch that was stored as one, what is before the offset was consumed before."""
    owner, queue = Owner(PushRig()), OwnedQueue(name())
    store = owner.rig.store
    await run(owner, queue, answer(NOT_WANTED, 20), answer(NO_NEW, 30))
    assert store.memory(name()) == 30
    store.update(name(), 5, increase_only=False)
    await run(owner, queue, answer(FOUND, 7, 3, 4, 5, 6), answer(NO_NEW, 40))
    assert owner.submitted == [[5, 6]]
    assert store.memory(name()) == 5


async def test_an_offset_that_is_not_there_moves_the_queue() -> None:
    owner, queue = Owner(PushRig()), OwnedQueue(name())
    await run(owner, queue, answer(MOVED, 50, ends=(50, 60)))
    assert owner.moves == [(name(), 50)]


async def test_a_lost_queue_is_told_only_that_its_group_was_moved() -> None:
    """By an operator: a broker says so once, to whatever pull comes first."""
    for code, ends, moves in (
        (FOUND, (0, 99), []),
        (MOVED, (50, 60), []),
        (MOVED, (0, 99), [(name(), 50)]),
    ):
        owner, queue = Owner(PushRig()), OwnedQueue(name())
        owner.answers = [answer(code, 50, ends=ends)]
        plain = owner.answer

        def drop_first(address: str, command: Command, owner: Owner = owner,
                       queue: OwnedQueue = queue) -> Command:  # fmt: skip
            if command.code == PULL:
                queue.drop()
            return plain(address, command)  # noqa: B023 (it is called within this turn)

        owner.rig.rig._brokers = drop_first
        await PullLoop(owner.rig.parts, queue, owner, FromWhere.FIRST, 0).run()
        assert (owner.moves, owner.submitted) == (moves, [])


async def test_a_loop_goes_on_after_whatever_goes_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that do not know the consumer get a heartbeat; trouble is logged once, as its end."""
    owner, queue = Owner(PushRig()), OwnedQueue(name())
    refused = Command(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="who is it")
    busy = Command(ResponseCode.FLOW_CONTROL, remark="slowly")
    with caplog.at_level(logging.INFO):
        await run(
            owner, queue, busy, refused, unreachable("10.0.0.1:10911"), RuntimeError("a bug"),
            answer(FOUND, 6, 5),
        )  # fmt: skip
    assert owner.heartbeats == 2
    assert owner.submitted == [[5]]
    assert caplog.text.count("and is tried again:") == 1
    assert "who is it" in caplog.text
    assert "a bug" in caplog.text
    assert "is pulled again" in caplog.text
    assert not queue.is_doubtful


async def test_in_order_a_broker_that_is_not_reached_makes_the_lock_doubtful() -> None:
    """Until it is asked again; nothing is pulled before."""
    owner, queue = Owner(PushRig(in_order=True)), OwnedQueue(name())
    queue.lock()
    owner.answers = [unreachable("10.0.0.1:10911"), answer(NO_NEW, 5)]
    async with running(owner, queue):
        await until(lambda: len(owner.relocked) >= 2)
        assert (queue.is_doubtful, len(owner.asked)) == (True, 1)
        queue.lock()
        await until(lambda: len(owner.asked) > 1)


def test_the_first_reason_to_wait_is_the_one_that_java_finds() -> None:
    owner = Owner(PushRig(span_max=100))
    queue, _ = filled(0)
    parts = owner.rig.parts
    assert reason_to_hold(queue, parts, owner) is None
    owner.subscription = None
    assert reason(queue, owner) == "nobody is subscribed to its topic"
    queue.messages.put([message(101)])
    assert reason(queue, owner) == "offsets from 0 on wait, and 101 behind that is more than 100"
    queue.messages.put([message(1, bytes(2 * 1024 * 1024))])
    assert reason(queue, owner) == "messages of 2 MiB wait, more than 1"
    queue.messages.put([message(offset) for offset in range(2, 10)])
    assert reason(queue, owner) == "11 messages wait, more than 10"
    owner.is_paused = True
    assert reason(queue, owner) == "the consumer is paused"


def test_in_order_only_the_lock_is_looked_at_besides() -> None:
    owner = Owner(PushRig(in_order=True, span_max=1))
    queue, _ = filled(0, 50)
    assert reason(queue, owner) == "its lock is not held"
    queue.lock()
    assert reason_to_hold(queue, owner.rig.parts, owner) is None


def reason(queue: OwnedQueue, owner: Owner) -> str:
    hold = reason_to_hold(queue, owner.rig.parts, owner)
    assert hold is not None
    return hold.reason


async def test_a_full_queue_is_pulled_as_soon_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull_loop, "FULL_S", 60.0)
    owner = Owner(PushRig())
    queue, messages = filled(*range(11))
    owner.answers = [answer(NO_NEW, 5)]
    async with running(owner, queue):
        await asyncio.sleep(0.01)
        assert owner.asked == []
        queue.messages.remove(messages[:1])
        queue.consumed()
        await until(lambda: bool(owner.asked))
