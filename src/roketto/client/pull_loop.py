"""The loop that pulls one queue: waits where it must, and goes on where its broker says."""

import asyncio
import logging
from typing import Final, NamedTuple, Protocol

from roketto.client.errors import ClientError, RefusedError, UnreachableError
from roketto.client.message import MessageQueue
from roketto.client.owned_queue import OwnedQueue, PushParts
from roketto.client.positions import FromWhere, start_offset
from roketto.client.pulling import Pulled, PullRequest, PullStatus, pull
from roketto.client.received import ReceivedMessage
from roketto.client.routes import MASTER_ID
from roketto.client.subscription import Subscription
from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode

__all__ = ["Hold", "PullLoop", "PullOwner", "reason_to_hold"]

log = logging.getLogger(__name__)

FULL_S: Final = 0.05
BUSY_S: Final = 0.02
FAILED_S: Final = 1.0
"""How long a loop waits, as Java: when enough is here, when a broker asks to go slower, and after
whatever else."""
SUSPEND_MS: Final = 15_000
TIMEOUT_MS: Final = 30_000
_HOLDS_LOGGED: Final = 1_000
_UNKNOWN_HERE: Final = frozenset(
    {ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST}
)
"""What brokers say that have not had a heartbeat of this consumer."""


class PullOwner(Protocol):
    """The consumer, as its loops know it."""

    @property
    def is_paused(self) -> bool: ...

    @property
    def count_max(self) -> int:
        """Messages of one queue that may wait here."""

    @property
    def mib_max(self) -> int: ...

    def wanted(self, topic: str) -> Subscription | None:
        """What brokers know that is wanted of a topic."""

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None: ...

    async def relock(self, queue: OwnedQueue) -> None:
        """Ask the broker whether the queue is still this consumer's alone."""

    async def move(self, queue: MessageQueue, consume_offset: int) -> None:
        """The queue has no such offset: it is dropped, and begun again at this one."""

    def heartbeat_soon(self) -> None:
        """A broker may not know this consumer."""


class Hold(NamedTuple):
    """Why a queue is not pulled now, and how long."""

    seconds: float
    reason: str
    is_full: bool = False


def reason_to_hold(queue: OwnedQueue, parts: PushParts, owner: PullOwner) -> Hold | None:
    """Whether to wait before the next pull; in the order in which Java looks."""
    messages, tuning = queue.messages, parts.tuning
    if owner.is_paused:
        return Hold(FAILED_S, "the consumer is paused")
    if messages.count > owner.count_max:
        return Hold(FULL_S, f"{messages.count} messages wait, more than {owner.count_max}", True)
    mib = messages.body_bytes // (1024 * 1024)
    if mib > owner.mib_max:
        return Hold(FULL_S, f"messages of {mib} MiB wait, more than {owner.mib_max}", True)
    if not parts.in_order and messages.span > tuning.span_max:
        return Hold(
            FULL_S,
            f"offsets from {messages.first_offset} on wait, and {messages.span} behind that is"
            f" more than {tuning.span_max}",
            True,
        )
    if parts.needs_locks and not queue.is_locked:
        return Hold(FAILED_S, "its lock is not held")
    if owner.wanted(queue.name.topic) is None:
        return Hold(FAILED_S, "nobody is subscribed to its topic")
    return None


class PullLoop:
    """Pulls a queue until it is dropped; ``run`` is a task of its own.

    await PullLoop(parts, queue, owner, FromWhere.LAST, 0).run()
    """

    def __init__(
        self,
        parts: PushParts,
        queue: OwnedQueue,
        owner: PullOwner,
        from_where: FromWhere,
        timestamp_ms: int,
        delay_s: float = 0.0,
    ) -> None:
        self._parts = parts
        self._queue = queue
        self._owner = owner
        self._from_where = from_where
        self._timestamp_ms = timestamp_ms
        self._delay_s = delay_s
        self._position: int | None = None
        self._broker_id = MASTER_ID
        self._holds = 0
        self._is_failing = False

    async def run(self) -> None:
        """Until the queue is dropped, or the task is cancelled."""
        queue = self._queue
        await asyncio.sleep(self._delay_s)
        while not queue.is_dropped:
            queue.messages.last_pull_s = monotonic_s()
            if self._parts.needs_locks and not queue.is_locked:
                await self._owner.relock(queue)
            hold = reason_to_hold(queue, self._parts, self._owner)
            if hold is not None:
                await self._hold(hold)
                continue
            try:
                wait_s = await self._turn()
            except ClientError as error:
                wait_s = self._failed(error)
            except Exception:
                log.exception("pulling %r failed, and is tried again", queue)
                wait_s = FAILED_S
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _hold(self, hold: Hold) -> None:
        if self._holds % _HOLDS_LOGGED == 0:
            log.debug("%r of group %s is not pulled: %s", self._queue, self._parts.group,
                      hold.reason)  # fmt: skip
        self._holds += 1
        if hold.is_full:
            await self._queue.wait_for_room(hold.seconds)
        else:
            await asyncio.sleep(hold.seconds)

    async def _turn(self) -> float:
        """Find where to begin, or pull once: how long to wait then."""
        parts, queue = self._parts, self._queue
        if self._position is None:
            self._position = await start_offset(
                parts.client, parts.store, queue.name, self._from_where, self._timestamp_ms
            )
            return 0.0
        began_s = monotonic_s()
        pulled = await pull(parts.client, self._request(self._position))
        if queue.is_dropped and not _is_moved(pulled, self._position):
            return 0.0
        if self._is_failing:
            self._is_failing = False
            log.info("%r of group %s is pulled again", queue, parts.group)
        return await self._take_in(self._position, pulled, monotonic_s() - began_s)

    def _request(self, position: int) -> PullRequest:
        parts, name = self._parts, self._queue.name
        wanted = self._owner.wanted(name.topic)
        assert wanted is not None, "reason_to_hold has looked"
        consume_offset = parts.store.memory(name) if parts.is_clustering else None
        return PullRequest(
            queue=name,
            group=parts.group,
            subscription=wanted,
            queue_offset=position,
            count_max=parts.tuning.pull_count_max,
            bytes_max=parts.tuning.pull_bytes_max,
            suspend_ms=SUSPEND_MS,
            timeout_ms=TIMEOUT_MS,
            consume_offset=consume_offset or None,
            sends_expression=parts.tuning.sends_expression,
            broker_id=self._broker_id,
        )

    async def _take_in(self, position: int, pulled: Pulled, taken_s: float) -> float:
        queue, parts = self._queue, self._parts
        self._broker_id = pulled.broker_id
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            why = "was moved" if _is_moved(pulled, position) else "is where nothing is"
            log.warning("group %s %s: it goes on at %d of %r, which has %d to %d, instead of %d",
                        parts.group, why, pulled.next_offset, queue, pulled.min_offset,
                        pulled.max_offset, position)  # fmt: skip
            await self._owner.move(queue.name, pulled.next_offset)
            return 0.0
        self._position = pulled.next_offset
        # Of a batch that is stored as one, the messages before the offset come with the rest.
        messages = [item for item in pulled.messages if item.queue_offset >= position]
        if messages:
            parts.rates.of(queue.name.topic).pull(len(messages), taken_s * 1000)
            queue.messages.put(messages)
            self._owner.submit(queue, messages)
            return parts.tuning.pull_interval_ms / 1000
        if queue.messages.count == 0:  # what is not wanted is consumed, in a way
            parts.store.update(queue.name, pulled.next_offset, increase_only=True)
        # A broker on which too many wait answers at once: it is not asked again in a hurry.
        is_early = pulled.status is PullStatus.NO_NEW and taken_s < BUSY_S
        return BUSY_S if is_early else 0.0

    def _failed(self, error: ClientError) -> float:
        """How long to wait after an error, which is logged once and not every second."""
        if self._queue.is_dropped:
            return 0.0
        code = error.code if isinstance(error, RefusedError) else None
        if code == ResponseCode.FLOW_CONTROL:
            return BUSY_S
        if isinstance(error, UnreachableError):
            self._broker_id = MASTER_ID
            self._queue.is_doubtful = self._parts.needs_locks
        if isinstance(error, UnreachableError) or code in _UNKNOWN_HERE:
            self._owner.heartbeat_soon()
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        log.log(level, "pulling %r of group %s failed, and is tried again: %s", self._queue,
                self._parts.group, error)  # fmt: skip
        return FAILED_S


def _is_moved(pulled: Pulled, position: int) -> bool:
    """Whether an operator has moved the group: the offset that was asked for is there."""
    is_legal = pulled.min_offset <= position <= pulled.max_offset
    return pulled.status is PullStatus.OFFSET_ILLEGAL and is_legal
