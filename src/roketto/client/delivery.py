"""The attempts to send one message: on other brokers after failures, within one time, in turn.

The rules are those of Java's synchronous sends. All attempts share the time of the send. Another
one follows when a broker cannot be reached, is in no route, or refuses with one of RETRIED_CODES;
it goes to another broker if there is one. Where the queue was chosen, there is one attempt.
"""

import asyncio
from typing import Final

from roketto.client.client import Client
from roketto.client.errors import (
    ClientClosedError,
    ClientError,
    RefusedError,
    SendFailedError,
    UnreachableError,
)
from roketto.client.faults import Detector, Faults
from roketto.client.hooks import MessageKind, SendContext, SendHooks, SendMode
from roketto.client.message import MessageQueue, SendResult
from roketto.client.permits import Permits
from roketto.client.routes import MASTER_ID
from roketto.client.send_settings import SendSettings
from roketto.client.sending import Outgoing, read_result
from roketto.client.targets import Target
from roketto.clock import monotonic_s, wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.offsets import GetMaxOffsetRequest
from roketto.remoting.errors import RemotingError

__all__ = ["RETRIED_CODES", "Delivery"]

RETRIED_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID, ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY,
    }
)  # fmt: skip
"""Refusals after which another broker is tried, as in Java; all others are final."""

_MOVED_S: Final = 0.5
"""How long a send waits for news of a broker that could not be reached."""
_STALLED_S: Final = 0.005
"""How long to wait for a broker that does not read, before looking again."""


class Delivery:
    """Sends what one producer has prepared, from ``start`` to ``stop``.

    result = await delivery.send(outgoing, target, None, deadline_s, timeout_ms)
    """

    def __init__(self, client: Client, group: str, settings: SendSettings) -> None:
        self._client = client
        self._calls = client.calls
        self._group = group
        self._settings = settings
        self._attempts = 1 + settings.retries
        self._limit_ms = settings.attempt_timeout_ms
        self._retries_unsafe = settings.retries_unsafe
        self.hooks = SendHooks()
        self.permits = Permits(settings.sends_max, settings.bytes_max)
        self.faults = Faults(settings.detect_interval_ms) if settings.avoids_slow_brokers else None
        self._is_watched = self.faults is not None
        self._detector: Detector | None = None

    def start(self) -> None:
        if self.faults is not None and self._settings.detects_brokers:
            self._detector = Detector(self.faults, self._answers)
            self._detector.start()

    async def stop(self) -> None:
        """Let what is under way end; there is nothing new any more."""
        await self.permits.wait_empty(self._settings.timeout_ms / 1000)
        if self._detector is not None:
            await self._detector.stop()

    async def send(
        self,
        outgoing: Outgoing,
        target: Target,
        queue: MessageQueue | None,
        deadline_s: float,
        timeout_ms: int,
        first_broker: str = "",
    ) -> SendResult:
        """Send, again if need be; SendFailedError when there is no time or attempt left.

        Without a queue each attempt goes to the next one, the first one to ``first_broker`` if that
        has any.
        """
        permits = self.permits
        size = len(outgoing.body)
        if not permits.try_take(size):
            await self._wait_for_turn(outgoing, size, deadline_s, timeout_ms)
        try:
            failures: list[ClientError] = []
            unsafe: SendResult | None = None
            attempts = self._attempts if queue is None else 1
            chosen = queue or self._first_queue(target, first_broker)
            while attempts:
                left_ms = int((deadline_s - monotonic_s()) * 1000)
                if left_ms <= 0:
                    break
                attempts -= 1
                if attempts and self._limit_ms is not None:
                    left_ms = min(left_ms, self._limit_ms)
                try:
                    result = await self._attempt(outgoing, target, chosen, left_ms)
                    if not attempts or result.is_ok or not self._retries_unsafe:
                        return result
                    unsafe = result
                except ClientError as error:
                    failures.append(error)
                    if _is_final(error):
                        break
                    if attempts and isinstance(error, UnreachableError):
                        await self._follow(target, error.address, deadline_s)
                if attempts:
                    chosen = target.turn.next(target.queues, chosen.broker_name, self.faults)
            if unsafe is not None:
                return unsafe
            raise _failed(outgoing, failures, timeout_ms)
        finally:
            permits.give(size)

    async def _follow(self, target: Target, address: str, deadline_s: float) -> None:
        """Look where the broker is that was at an address: the next attempt may find it there."""
        routes = self._client.routes
        await routes.settle(address, min(_MOVED_S, max(0.0, deadline_s - monotonic_s())))
        route = routes.known(target.name)
        if route is not None and route is not target.route and route.publish_queues:
            target.follow(route)

    def _first_queue(self, target: Target, broker_name: str) -> MessageQueue:
        if broker_name:
            for queue in target.queues:
                if queue.broker_name == broker_name:
                    return queue
        return target.turn.next(target.queues, None, self.faults)

    async def _wait_for_turn(
        self, outgoing: Outgoing, size: int, deadline_s: float, timeout_ms: int
    ) -> None:
        try:
            await self.permits.take(size, max(0.0, deadline_s - monotonic_s()))
        except TimeoutError:
            raise SendFailedError(
                f"a message for {outgoing.topic} was not sent: its turn did not come within"
                f" {timeout_ms} ms; {self.permits}: send less at once, or raise sends_max or"
                " bytes_max",
                [],
            ) from None

    async def _attempt(
        self, outgoing: Outgoing, target: Target, queue: MessageQueue, limit_ms: int
    ) -> SendResult:
        broker_name = queue.broker_name
        if target.hosts:
            broker_name = target.hosts.get(queue, broker_name)
        address = target.masters.get(broker_name)
        if address is None:
            address = await self._client.routes.master_of(broker_name, target.name)
        command = self._calls.sign(outgoing.command(queue, broker_name))
        if self._is_watched or not self.hooks.is_empty:
            return await self._attempt_watched(outgoing, queue, address, command, limit_ms)
        answer = await self._calls.send(address, command, limit_ms)
        return read_result(outgoing, queue, address, answer)

    async def _attempt_watched(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        address: str,
        command: Command,
        limit_ms: int,
    ) -> SendResult:
        """The same with hooks around it, and a note of how long it took."""
        context = self._context(outgoing, queue, address, SendMode.SYNC)
        self.hooks.before(context)
        begun_s = monotonic_s()
        try:
            answer = await self._calls.send(address, command, limit_ms)
            context.result = read_result(outgoing, queue, address, answer)
            return context.result
        except ClientError as error:
            context.error = error
            raise
        finally:
            context.latency_ms = (monotonic_s() - begun_s) * 1000
            if self.faults is not None:
                self._note(self.faults, context)
            self.hooks.after(context)

    def _note(self, faults: Faults, context: SendContext) -> None:
        """Let a broker's latency or failure be known, as Java does."""
        error = context.error
        faults.note(
            context.queue.broker_name,
            context.latency_ms,
            is_isolated=isinstance(error, UnreachableError | RefusedError),
            is_reachable=not (
                isinstance(error, RefusedError)
                or (isinstance(error, UnreachableError) and self._detector is not None)
            ),
        )

    def _context(
        self, outgoing: Outgoing, queue: MessageQueue, address: str, mode: SendMode
    ) -> SendContext:
        properties = outgoing.properties
        kind = MessageKind.NORMAL
        if properties.get(names.TRANSACTION_PREPARED) == "true":
            kind = MessageKind.HALF
        elif any(message.is_delayed for message in outgoing.messages):
            kind = MessageKind.DELAYED
        return SendContext(
            group=self._group,
            messages=outgoing.messages,
            message_id=outgoing.message_id,
            topic=outgoing.topic,
            namespace=self._client.settings.namespace,
            properties=properties,
            body_bytes=len(outgoing.body),
            queue=queue,
            address=address,
            client_ip=self._client.ip,
            mode=mode,
            kind=kind,
            begun_ms=wall_ms(),
        )

    # --- without an answer ------------------------------------------------------------------------

    async def send_one_way(
        self,
        outgoing: Outgoing,
        target: Target,
        queue: MessageQueue | None,
        deadline_s: float,
        timeout_ms: int,
    ) -> None:
        """Hand a message to the network, and know no more; SendFailedError if that cannot be."""
        chosen = queue or self._first_queue(target, "")
        try:
            broker_name = target.hosts.get(chosen, chosen.broker_name)
            address = target.masters.get(broker_name)
            if address is None:
                address = await self._client.routes.master_of(broker_name, target.name)
            command = self._calls.sign(outgoing.command(chosen, broker_name))
            if self.hooks.is_empty:
                await self._hand_over(address, command, deadline_s)
                return
            context = self._context(outgoing, chosen, address, SendMode.ONE_WAY)
            self.hooks.before(context)
            try:
                await self._hand_over(address, command, deadline_s)
            except ClientError as error:
                context.error = error
                raise
            finally:
                self.hooks.after(context)
        except ClientError as error:
            raise _failed(outgoing, [error], timeout_ms) from error

    async def _hand_over(self, address: str, command: Command, deadline_s: float) -> None:
        """Wait, as long as there is time, for a broker that does not read as fast as it is sent."""
        try:
            while not await self._calls.pool.send_one_way(address, command):
                if monotonic_s() >= deadline_s:
                    raise UnreachableError(
                        address, f"{self._calls.describe(address)} does not read what it is sent",
                        is_sent=False, is_timeout=True,
                    )  # fmt: skip
                await asyncio.sleep(_STALLED_S)
        except RemotingError as error:
            raise self._calls.unreachable(error) from error

    async def _answers(self, broker_name: str) -> bool | None:
        """Whether a broker answers, for the detector; None if there is no such broker."""
        routes = self._client.routes
        address = routes.addresses_of(broker_name).get(MASTER_ID)
        topic = next(iter(routes.topics), None)
        if address is None or topic is None:
            return None
        try:
            await self._calls.ask(
                address, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(topic=topic, queue_id=0),
                timeout_ms=self._settings.detect_timeout_ms,
            )  # fmt: skip
        except ClientError:
            return False
        return True


def _is_final(error: ClientError) -> bool:
    """Whether no other attempt can help."""
    if isinstance(error, RefusedError):
        return error.code not in RETRIED_CODES
    return isinstance(error, ClientClosedError)


def _failed(outgoing: Outgoing, failures: list[ClientError], timeout_ms: int) -> SendFailedError:
    """What is said of a message that was not acknowledged."""
    count = len(outgoing.messages)
    what = f"message {outgoing.message_id}" if count == 1 else f"a batch of {count} messages"
    tried = "; ".join(f"{number}. {error}" for number, error in enumerate(failures, 1))
    failed = SendFailedError(
        f"{what} for {outgoing.topic} was not acknowledged within {timeout_ms} ms, after"
        f" {len(failures)} attempts: {tried or 'there was no time for one'}",
        failures,
    )
    failed.__cause__ = failures[-1] if failures else None
    return failed
