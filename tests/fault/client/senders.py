"""Coroutines that send with our producer, in several ways, and the evidence of what it told them.

What a send raises says whether the message may be stored. If it says that it is not, that is taken
at its word: the checker fails a message that is there all the same.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from evidence import Evidence, Outcome, Place
from fault.appender import body_of, value_of
from fault.client.cluster import fresh, name_of, until
from roketto.client.client import Client
from roketto.client.errors import ClientError, SendFailedError, UnreachableError
from roketto.client.hooks import SendContext
from roketto.client.message import Message, SendResult
from roketto.client.producer import Producer
from roketto.client.send_settings import BatchSettings, SendSettings
from roketto.client.settings import ClientSettings

FAILED_S: Final = 0.02
"""How long a coroutine rests after a failure: it would try thousands of times otherwise."""


class Way(NamedTuple):
    """How some of the coroutines send. A producer that tries again is watched, attempt by attempt:
    each of them may store the message once."""

    name: str
    sending: SendSettings
    coroutines: int

    @property
    def is_watched(self) -> bool:
        return self.sending.retries > 0


PLAIN: Final = Way("plain", SendSettings(retries=0), 3)
RETRYING: Final = Way("retrying", SendSettings(), 3)
BATCHING: Final = Way("batching", SendSettings(retries=0, batches=BatchSettings(delay_ms=2)), 2)
EIGHT: Final = (PLAIN, RETRYING, BATCHING)


class Senders:
    """They send to one topic, each one message after the other, while a block runs.

    async with senders.sending():
        await senders.until_more(100)       # and whatever happens to the brokers meanwhile
    """

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        ways: Sequence[Way] = EIGHT,
        *,
        pause_s: float = 0.0,
    ) -> None:
        self.topic = topic
        self.evidence = Evidence()
        self.acknowledged: Counter[str] = Counter()
        """Messages, by the name of the broker."""
        self.by_way: Counter[tuple[str, Outcome]] = Counter()
        """What sends have said, of each way."""
        self.untrue: list[str] = []
        """Where a send says something else than its attempts."""
        self._settings = settings
        self._ways = ways
        self._pause_s = pause_s
        self._numbers = itertools.count()
        self._is_stopped = False

    async def until_more(self, count: int) -> None:
        """Wait until so many more messages have been acknowledged."""
        goal = self.acknowledged.total() + count
        await until(f"{count} more are acknowledged", lambda: self.acknowledged.total() >= goal)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send while the block runs; behind it every send has its outcome, or is unknown."""
        self._is_stopped = False
        client = Client(self._settings)
        async with client:
            tasks = [asyncio.create_task(self._run(way, client)) for way in self._ways]
            try:
                yield
            finally:
                self._is_stopped = True
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        assert not failures, failures

    async def _run(self, way: Way, client: Client) -> None:
        producer = Producer(fresh(way.name), client=client, sending=way.sending)
        async with producer:
            if way.is_watched:
                producer.hooks.add(Attempts(self.evidence))
            names = [f"{way.name}{number}" for number in range(way.coroutines)]
            await asyncio.gather(*(self._send_on(producer, way, name) for name in names))

    async def _send_on(self, producer: Producer, way: Way, name: str) -> None:
        while not self._is_stopped:
            outcome = await self._send(producer, way, f"{name}-{next(self._numbers)}")
            self.by_way[way.name, outcome] += 1
            await asyncio.sleep(self._pause_s if outcome is Outcome.OK else FAILED_S)

    async def _send(self, producer: Producer, way: Way, value: str) -> Outcome:
        message = Message(self.topic, body_of(value), tags="t", keys=[value])
        begun = len(self.evidence)
        if not way.is_watched:
            note_send(self.evidence, value, self.topic)
        try:
            result = await producer.send(message)
        except ClientError as error:
            outcome = _outcome_of(error)
            if way.is_watched:
                self._compare(value, begun, outcome, None)
            elif outcome is Outcome.FAIL:
                self.evidence.fail(value)
            return outcome
        outcome = Outcome.OK if result.is_ok else Outcome.UNKNOWN
        if way.is_watched:
            self._compare(value, begun, outcome, result)
        elif outcome is Outcome.OK:
            self.evidence.ok(value, _place(result))
        self.acknowledged[result.queue.broker_name] += outcome is Outcome.OK
        return outcome

    def _compare(self, value: str, begun: int, outcome: Outcome, result: SendResult | None) -> None:
        """A send may say what its attempts say together, and nothing else."""
        attempts = [send for send in self.evidence.sends[begun:] if send.value == value]
        outcomes = {send.outcome for send in attempts}
        wanted = next(
            (one for one in (Outcome.OK, Outcome.UNKNOWN) if one in outcomes), Outcome.FAIL
        )
        places = [send.place for send in attempts if send.place is not None]
        is_true = outcome is wanted and (result is None or _place(result) in places)
        if not is_true:
            self.untrue.append(f"{value}: {outcome} of {sorted(map(str, outcomes))}, {result}")


class Attempts:
    """A hook that notes each attempt of a send."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def before(self, context: SendContext) -> None:
        for message in context.messages:
            note_send(self._evidence, value_of(message.body), name_of(context.queue))

    def after(self, context: SendContext) -> None:
        [message] = context.messages
        value = value_of(message.body)
        if context.result is not None:
            if context.result.is_ok:
                self._evidence.ok(value, _place(context.result))
        elif context.error is not None and _outcome_of(context.error) is Outcome.FAIL:
            self._evidence.fail(value)


async def send_all(settings: ClientSettings, topic: str, count: int) -> Evidence:
    """So many messages, queue after queue, all of which must be taken."""
    evidence = Evidence()
    async with Producer(fresh("sender"), settings=settings) as producer:
        for number in range(count):
            value = f"all-{number}"
            note_send(evidence, value, topic)
            result = await producer.send(Message(topic, body_of(value)))
            assert result.is_ok, result
            evidence.ok(value, _place(result))
    return evidence


def note_send(evidence: Evidence, value: str, queue: str) -> None:
    """Values begin with the name of the coroutine, whose order counts."""
    evidence.send(value, value.partition("-")[0], queue)


def _place(result: SendResult) -> Place:
    return Place(name_of(result.queue), result.queue_offset, result.offset_id)


def _outcome_of(error: ClientError) -> Outcome:
    """What an error says of a message; errors.py promises that it is so."""
    may_be_stored = (isinstance(error, SendFailedError) and error.may_be_stored) or (
        isinstance(error, UnreachableError) and error.is_sent
    )
    return Outcome.UNKNOWN if may_be_stored else Outcome.FAIL
