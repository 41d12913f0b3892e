"""Sends what waits in an outbox, in order, until brokers have acknowledged it."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from roketto.client.errors import ClientError, IllegalMessageError, RefusedError, SendFailedError
from roketto.client.message import Message, SendResult
from roketto.client.outbox_lease import Lease
from roketto.client.outbox_store import KeptMessage, OutboxStore
from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode

__all__ = ["LaneDelays", "OutboxSettings", "Relay", "Sender", "is_hopeless"]

log = logging.getLogger(__name__)

_DELAYED_LANES_MAX: Final = 256
"""More of them are not passed over one by one: then something is wrong with the whole cluster."""
_LOOK_SHARE: Final = 10
"""Looking takes a tenth of the time at most, also where it has to pass over many messages."""
_REST_S_MAX: Final = 5.0
_REASON_CHARS_MAX: Final = 1_000


class Sender(Protocol):
    """What is needed of a Producer."""

    async def send(self, message: Message) -> SendResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """How an outbox is relayed."""

    batch_count_max: int = 64
    """Messages that are read at once, and sent again at most after a kill -9."""
    lanes_at_once: int = 16
    """Sharding keys of which messages are on their way at the same time, one of each."""
    poll_s: float = 0.1
    """How often it is looked for new messages; ``wake`` lets it look at once."""
    lease_s: float = 10.0
    """After so long, another relay takes over from one that is gone without a word."""
    retry_first_s: float = 0.1
    """How long a sharding key rests after a failure; twice as long after each further one..."""
    retry_s_max: float = 30.0
    """...up to this."""
    until_ok: bool = False
    """Send again what was stored but may be lost if its broker dies now (all but SEND_OK)."""


class LaneDelays:
    """Lanes whose first message could not be sent, and how long each rests; pure.

    >>> delays = LaneDelays(0.1, 30.0, jitter=lambda: 1.0)
    >>> delays.fail("Orders", now_s=0.0)
    0.1
    >>> delays.fail("Orders", now_s=1.0)
    0.2
    >>> delays.resting(now_s=1.1), delays.resting(now_s=1.3)
    (['Orders'], [])
    """

    def __init__(
        self,
        first_s: float,
        seconds_max: float,
        jitter: Callable[[], float] = lambda: random.uniform(0.75, 1.25),
    ) -> None:
        self._first_s = first_s
        self._seconds_max = seconds_max
        self._jitter = jitter
        self._lanes: dict[str, tuple[float, float]] = {}
        """Until when, and how long that is without jitter."""

    def fail(self, lane: str, now_s: float) -> float:
        """Let a lane rest, twice as long as the last time."""
        last_s = self._lanes.get(lane, (0.0, 0.0))[1]
        delay_s = min(max(self._first_s, 2 * last_s), self._seconds_max)
        self._lanes[lane] = now_s + delay_s * self._jitter(), delay_s
        return delay_s

    def succeed(self, lane: str) -> None:
        self._lanes.pop(lane, None)

    def resting(self, now_s: float) -> list[str]:
        """Those that are to be left alone."""
        forgotten_s = now_s - 2 * self._seconds_max  # nothing of it was tried since: it is gone
        for lane in [lane for lane, (until_s, _) in self._lanes.items() if until_s < forgotten_s]:
            del self._lanes[lane]
        return [lane for lane, (until_s, _) in self._lanes.items() if until_s > now_s]

    def next_s(self) -> float:
        """When the first of them may go on."""
        return min(until_s for until_s, _ in self._lanes.values())


class Relay:
    """Relays one outbox as long as it has the lease: ``run`` until it is stopped or cancelled.

    Each lane (outbox_store.lane_of) is sent one message after the other; one that fails is tried
    again, and those behind it wait. A message that brokers will never take is set aside.
    """

    def __init__(
        self, store: OutboxStore, sender: Sender, lease: Lease, settings: OutboxSettings
    ) -> None:
        self._store = store
        self._sender = sender
        self._lease = lease
        self._settings = settings
        self._delays = LaneDelays(settings.retry_first_s, settings.retry_s_max)
        self._at_once = asyncio.Semaphore(settings.lanes_at_once)
        self._acknowledged: list[int] = []
        """To be removed; they stay here if the database is away."""
        self._woken = asyncio.Event()
        self._is_stopping = False

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """Let ``run`` end when what is on its way has been answered."""
        self._is_stopping = True
        self._woken.set()

    async def run(self) -> None:
        keeping = asyncio.create_task(self._keep_lease())
        database_delays = LaneDelays(self._settings.retry_first_s, _REST_S_MAX)
        try:
            while not self._is_stopping:
                self._woken.clear()
                try:
                    rest_s = await self._turn()
                    database_delays.succeed("")
                except Exception:
                    log.exception("the outbox cannot be relayed now, and is tried again")
                    rest_s = database_delays.fail("", monotonic_s())
                await self._rest(rest_s)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0 or self._is_stopping:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._lease.seconds / 3)
            if self._lease.is_held:
                try:
                    await self._store.run(self._lease.step)
                except Exception:
                    log.exception("the lease of the outbox was not renewed, and is tried again")

    # --- one turn ---------------------------------------------------------------------------------

    async def _turn(self) -> float:
        """Send the first messages that wait; how long to rest then."""
        if not self._lease.is_held and not await self._store.run(self._lease.step):
            return self._lease.seconds / 3
        await self._remove_acknowledged()
        begun_s = monotonic_s()
        resting = self._delays.resting(begun_s)
        if len(resting) >= _DELAYED_LANES_MAX:
            return self._delays.next_s() - begun_s
        count_max = self._settings.batch_count_max
        kept = await self._store.run(lambda table: table.take(count_max, resting))
        if not kept:
            look_s = monotonic_s() - begun_s
            return min(max(self._settings.poll_s, _LOOK_SHARE * look_s), _REST_S_MAX)
        await self._send_all(kept)
        return 0.0

    async def _send_all(self, kept: list[KeptMessage]) -> None:
        lanes: dict[str, list[KeptMessage]] = {}
        for one in kept:
            lanes.setdefault(one.lane, []).append(one)
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes.values():
                    group.create_task(self._send_lane(lane))
        finally:
            await self._remove_acknowledged()

    async def _remove_acknowledged(self) -> None:
        if self._acknowledged:
            numbers = list(self._acknowledged)
            await self._store.run(lambda table: table.remove(numbers))
            del self._acknowledged[: len(numbers)]

    async def _send_lane(self, kept: list[KeptMessage]) -> None:
        async with self._at_once:
            for one in kept:
                if self._is_stopping or not self._lease.is_held:
                    return
                if not await self._send(one):
                    return

    async def _send(self, kept: KeptMessage) -> bool:
        """Send a message; whether the next one of its lane may follow."""
        try:
            result = await self._sender.send(kept.message)
        except ClientError as error:
            if is_hopeless(error):
                await self._set_aside(kept, error)
                return True
            self._fail(kept, str(error))
            return False
        if self._settings.until_ok and not result.is_ok:
            self._fail(kept, f"it was stored, but with {result.status.name}")
            return False
        self._acknowledged.append(kept.number)
        self._delays.succeed(kept.lane)
        return True

    def _fail(self, kept: KeptMessage, reason: str) -> None:
        delay_s = self._delays.fail(kept.lane, monotonic_s())
        log.warning("message %s of the outbox for %s was not sent; it is tried again in %.1f s: %s",
                    kept.message.message_id, kept.message.topic, delay_s, reason)  # fmt: skip

    async def _set_aside(self, kept: KeptMessage, error: ClientError) -> None:
        log.error("message %s of the outbox for %s will never be taken; it is set aside with the"
                  " reason, and those behind it go on: %s",
                  kept.message.message_id, kept.message.topic, error)  # fmt: skip
        reason = str(error).replace("\x00", " ")[:_REASON_CHARS_MAX]
        await self._store.run(lambda table: table.refuse(kept.number, reason))


def is_hopeless(error: ClientError) -> bool:
    """Whether the message itself is what is wrong."""
    if isinstance(error, SendFailedError):
        return bool(error.attempts) and is_hopeless(error.attempts[-1])
    is_refused = isinstance(error, RefusedError) and error.code == ResponseCode.MESSAGE_ILLEGAL
    return is_refused or isinstance(error, IllegalMessageError)
