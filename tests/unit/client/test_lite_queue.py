"""Fetching ahead skips no message and repeats none, whatever seeks, filters and brokers do."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable

import pytest

from roketto.client import lite_queue
from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.lite_limits import LiteLimits
from roketto.client.lite_queue import LiteQueue
from roketto.client.lite_stock import Stock
from roketto.client.message import MessageQueue
from roketto.client.pulling import Pulled, PullStatus
from roketto.client.received import ReceivedMessage
from roketto.protocol.codes import ResponseCode
from roketto.protocol.record import Record

NAME = MessageQueue("broker-a", 0, "T")


class FakeBroker:
    """A queue of messages, of which every so often one is not wanted; pulls wait at its end."""

    def __init__(self, size: int, *, unwanted_each: int = 0) -> None:
        self.begin = 0
        self.size = size
        self.unwanted_each = unwanted_each
        self.count_max = 10
        self.start = 0
        self.failures: list[ClientError] = []
        self.answers: list[Pulled] = []
        self.pulls: list[int] = []
        self.swallows_cancel = False
        self.grown = asyncio.Event()

    def is_wanted(self, offset: int) -> bool:
        return not self.unwanted_each or offset % self.unwanted_each != 0

    async def start_offset(self, queue: MessageQueue) -> int:
        assert queue == NAME
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.swallows_cancel:
                raise
            self.swallows_cancel = False
        if self.failures:
            raise self.failures.pop(0)
        return self.start

    async def pull(self, queue: MessageQueue, offset: int, broker_id: int) -> Pulled:
        self.pulls.append(offset)
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if self.answers:
            return self.answers.pop(0)
        try:
            while offset >= self.size:
                self.grown.clear()
                await self.grown.wait()
        except asyncio.CancelledError:
            if not self.swallows_cancel:
                raise
            self.swallows_cancel = False  # once: whoever ends the loop insists
            return self.found(offset, [offset])
        end = min(self.size, offset + self.count_max)
        return self.found(end, [at for at in range(offset, end) if self.is_wanted(at)])

    def found(self, next_offset: int, offsets: list[int]) -> Pulled:
        status = PullStatus.FOUND if offsets else PullStatus.NO_MATCHED
        return Pulled(status, next_offset, self.begin, self.size, [message(at) for at in offsets])

    def grow(self, count: int) -> None:
        self.size += count
        self.grown.set()


def message(offset: int) -> ReceivedMessage:
    return ReceivedMessage(Record("T", b"x" * 10, queue_offset=offset), "broker-a")


async def eventually(is_so: Callable[[], bool]) -> None:
    for _ in range(5_000):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never was so")


class Made:
    """One queue of a fake broker."""

    def __init__(self, broker: FakeBroker, limits: LiteLimits | None = None) -> None:
        self.broker = broker
        self.stock = Stock(limits or LiteLimits())
        self.queue = LiteQueue(NAME, self.stock, broker.start_offset, broker.pull)
        self.moved: list[int] = []
        self.queue.on_moved = lambda name, offset: self.moved.append(offset)

    async def until(self, count: int) -> None:
        await eventually(lambda: self.queue.shelf.count >= count)

    def take(self, count: int = 1_000) -> list[int]:
        return [message.queue_offset for message in self.stock.take(count)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite_queue, "_FAILED_S", 0.001)
    monkeypatch.setattr(lite_queue, "_NO_START_S", 0.002)


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    made = Made(FakeBroker(30), LiteLimits(queue_count_max=20))
    made.queue.start()
    yield made
    made.queue.drop()
    await made.queue.closed()


async def spin() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_fetching_stops_at_the_bound_and_goes_on(made: Made) -> None:
    """A pull begins while there is room, and not before some is made."""
    await made.until(20)
    await spin()
    assert made.broker.pulls == [0, 10]
    assert made.queue.consume_offset == 0
    assert made.take(5) == list(range(5))
    await made.until(25)
    assert made.queue.consume_offset == 5
    assert made.take() == list(range(5, 30))


async def test_a_pause_ends_pulls_and_keeps_the_answer(made: Made) -> None:
    """What is under way when it begins is kept for the end of it."""
    await made.until(20)
    made.take()
    await eventually(lambda: made.broker.pulls[-1] == 30)
    made.queue.shelf.pause(True)
    made.broker.grow(5)
    await made.until(15)
    await spin()
    assert made.broker.pulls == [0, 10, 20, 30]
    assert made.take() == []
    made.queue.shelf.pause(False)
    assert made.take() == list(range(20, 35))


@pytest.mark.parametrize("swallows_cancel", [False, True])
async def test_a_seek_during_a_long_poll_voids_its_answer(
    made: Made, swallows_cancel: bool
) -> None:
    """Also where the cancelled pull brings an answer all the same."""
    await made.until(20)
    made.take()
    await made.until(10)
    made.take()
    await spin()
    made.broker.swallows_cancel = swallows_cancel
    assert made.broker.pulls[-1] == 30
    made.queue.move(27)
    assert made.queue.consume_offset == 27
    await made.until(3)
    await spin()
    assert made.take() == [27, 28, 29]
    assert made.queue.position == 30


async def test_a_seek_before_the_start_is_known_counts() -> None:
    """The stored offset that arrives later is void."""
    made = Made(FakeBroker(30))
    made.broker.start = 20
    made.broker.swallows_cancel = True
    made.queue.start()
    await asyncio.sleep(0)
    made.queue.move(25)
    assert made.queue.position == 25
    await made.until(5)
    assert made.take() == [25, 26, 27, 28, 29]
    made.queue.drop()
    await made.queue.closed()


async def test_an_offset_passes_unwanted_messages_when_nothing_is_in_hand() -> None:
    """A group whose filter wants nothing is not behind."""
    made = Made(FakeBroker(30, unwanted_each=1))
    made.queue.start()
    await spin()
    assert made.queue.consume_offset == made.queue.handled_offset == 30
    made.broker.unwanted_each = 0
    made.broker.grow(2)
    await made.until(2)
    assert made.queue.consume_offset == 30
    assert made.take() == [30, 31]
    assert (made.queue.consume_offset, made.queue.handled_offset) == (32, 30)
    made.stock.settle()
    assert made.queue.drop() == 32
    await made.queue.closed()


async def test_failures_are_tried_again_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without a place to begin, without a broker, and with one that is busy."""
    caplog.set_level(logging.INFO, lite_queue.__name__)
    made = Made(FakeBroker(3))
    busy = RefusedError("b", ResponseCode.FLOW_CONTROL, "slower")
    gone = UnreachableError("b", "broker-a is gone", is_sent=False)
    made.broker.failures = [gone, busy, gone, gone]
    made.queue.start()
    await made.until(3)
    texts = [record.message for record in caplog.records]
    assert [text for text in texts if "broker-a is gone" in text] == texts[:1]
    assert "works again" in texts[-1]
    made.queue.drop()
    await made.queue.closed()


async def test_a_bug_does_not_end_the_fetching(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its trace, and the next pull is made."""
    made = Made(FakeBroker(3))
    made.broker.answers = [None]  # type: ignore[list-item] # what no pull would give
    made.queue.start()
    await made.until(3)
    assert "is tried again" in caplog.text
    made.queue.drop()
    await made.queue.closed()


async def test_deleted_messages_do_not_cost_those_in_hand(made: Made) -> None:
    """The next ones are gone, so that what was fetched before is all there is."""
    await made.until(20)
    made.broker.answers = [Pulled(PullStatus.OFFSET_ILLEGAL, 25, 25, 30)]
    made.take(15)
    await made.until(10)
    assert made.take() == [15, 16, 17, 18, 19, 25, 26, 27, 28, 29]
    assert made.moved == []


@pytest.mark.parametrize(
    ("next_offset", "min_offset", "max_offset"), [(3, 0, 30), (28, 0, 30), (2, 0, 4)],
    ids=["moved back", "moved on", "shorter"],
)  # fmt: skip
async def test_an_operator_voids_what_is_in_hand(
    made: Made, next_offset: int, min_offset: int, max_offset: int
) -> None:
    """A legal offset was moved by somebody; those of a shorter queue are other messages."""
    await made.until(20)
    made.broker.answers = [Pulled(PullStatus.OFFSET_ILLEGAL, next_offset, min_offset, max_offset)]
    made.take(1)
    made.take(1)
    await eventually(lambda: bool(made.moved))
    assert made.moved == [next_offset]
    assert made.queue.handled_offset == next_offset
    await made.until(2)
    assert made.take(2) == [next_offset, next_offset + 1]


async def test_a_batch_that_begins_earlier_is_cut() -> None:
    """Some brokers keep a batch as one message: what is before the offset comes with the rest."""
    made = Made(FakeBroker(10))
    made.broker.start = 4
    made.broker.answers = [made.broker.found(8, [2, 3, 4, 5, 6, 7])]
    made.queue.start()
    await made.until(6)
    assert made.take() == [4, 5, 6, 7, 8, 9]
    made.queue.drop()
    await made.queue.closed()


async def test_a_broker_that_does_not_wait_is_not_hammered() -> None:
    """One that holds too many requests answers at once that there is nothing."""
    made = Made(FakeBroker(0))
    made.broker.answers = [Pulled(PullStatus.NO_NEW, 0, 0, 0)] * 1_000
    made.queue.start()
    await asyncio.sleep(0.05)
    assert 1 <= len(made.broker.pulls) <= 4
    made.queue.drop()
    await made.queue.closed()


async def test_a_dropped_queue_hands_out_nothing(made: Made) -> None:
    """What may be committed of it ends before what nobody may have handled."""
    await made.until(20)
    made.take(3)
    made.stock.settle()
    made.take(4)
    assert made.queue.drop() == 3
    assert made.take() == []
    assert made.stock.count == 0
    await made.queue.closed()
    pulls = len(made.broker.pulls)
    made.queue.start()
    await spin()
    assert len(made.broker.pulls) == pulls


async def test_another_filter_keeps_what_is_not_handled(made: Made) -> None:
    """The messages in hand are fetched again; where a commit has to stop does not move."""
    await made.until(20)
    made.take(4)
    made.broker.unwanted_each = 2
    made.queue.refetch()
    assert (made.queue.consume_offset, made.queue.handled_offset) == (4, 0)
    await made.until(10)
    assert made.take(3) == [5, 7, 9]


@pytest.mark.parametrize("seed", range(20))
async def test_no_message_is_skipped_or_handed_out_twice(seed: int) -> None:
    """Seeks, failures, polls and filters as they come: all from the last seek on, in order."""
    chance = random.Random(seed)
    broker = FakeBroker(100, unwanted_each=chance.choice([0, 2, 3]))
    made = Made(broker, LiteLimits(queue_count_max=15, queue_span_max=40))
    made.queue.start()
    due = 0
    for _ in range(400):
        match chance.randrange(8):
            case 0:
                due = chance.randrange(broker.size + 1)
                made.queue.move(due)
            case 1:
                broker.failures.append(UnreachableError("b", "gone", is_sent=True))
            case 2:
                broker.grow(chance.randrange(3))
            case 3:
                broker.swallows_cancel = chance.random() < 0.5
            case 4:
                made.queue.shelf.pause(chance.random() < 0.3)
            case _:
                for offset in made.take(chance.randrange(1, 8)):
                    assert all(not broker.is_wanted(at) for at in range(due, offset))
                    due = offset + 1
        consume_offset = made.queue.consume_offset
        if consume_offset is not None:
            assert all(not broker.is_wanted(at) for at in range(due, consume_offset))
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
    made.queue.shelf.pause(False)
    left = [at for at in range(due, broker.size) if broker.is_wanted(at)]
    async with asyncio.timeout(5):
        while left:
            got = made.take()
            assert got == left[: len(got)]
            del left[: len(got)]
            await asyncio.sleep(0.001)
    made.queue.drop()
    await made.queue.closed()
