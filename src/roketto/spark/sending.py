"""The requests of one task: several under way to each broker, each tried again where that helps.

What a request looks like and what its answer means is the outlet's to say: rows are sent (here),
staged (staging.py) or prepared as half messages (half.py) by the same rules.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from roketto.client.errors import ClientError, RefusedError, TopicNotFoundError
from roketto.client.selectors import RoundRobin
from roketto.client.sendable import check_sendable
from roketto.clock import wall_ms
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.names import DEFAULT_TOPIC
from roketto.protocol.sysflags import TRANSACTION_PREPARED
from roketto.spark.cluster import Cluster
from roketto.spark.packing import Parcel
from roketto.spark.patience import Patience
from roketto.spark.rows import Single
from roketto.spark.sink_options import SinkOptions

__all__ = ["Load", "Outlet", "SendOutlet", "Sender", "Targets", "check_stored", "send_fields"]

log = logging.getLogger(__name__)

Load = Parcel | Single
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_SINGLES_IN_FLIGHT: Final = 256
"""Messages that go one by one, to one broker."""
_TEMPLATE_QUEUES: Final = "4"
_UNSAFE: Final = frozenset(
    {
        ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)  # fmt: skip


class Targets:
    """Topic -> its queues, under the name that brokers know it by.

    With ``must_exist`` topics that brokers would make when they are first sent to do not count.
    """

    def __init__(self, cluster: Cluster, *, must_exist: bool) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._must_exist = must_exist
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those that can be written, the same for the whole task; TopicNotFoundError without."""
        found = self._queues.get(topic)
        if found is None:
            found = self._queues[topic] = self._cluster.run(self._find(topic))
        return found

    def current(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those that are known now: brokers come and go while rows wait to be sent."""
        route = self._client.routes.known(self._client.wrap(topic))
        return (route and route.publish_queues) or self._queues[topic]

    async def _find(self, topic: str) -> tuple[MessageQueue, ...]:
        check_sendable(topic)
        routes = self._client.routes
        name = self._client.wrap(topic)
        route = await (routes.get(name) if self._must_exist else routes.for_sending(name))
        if not route.publish_queues:
            raise TopicNotFoundError(
                topic,
                f"{route.advertiser} knows no queue of it that can be written: it has no write"
                " permission, or none of its brokers has a master",
            )
        return route.publish_queues


class Outlet(Protocol[R_co]):
    """What becomes of rows: the request for them, and what its answer says."""

    @property
    def verb(self) -> str:
        """What is done, for errors: ``send``."""

    @property
    def keeps_order(self) -> bool:
        """Whether requests to a queue that rows have chosen must wait for each other."""

    def command(self, load: Load, queue: MessageQueue, broker_name: str) -> Command:
        """The request, not signed yet."""

    def read(self, load: Load, queue: MessageQueue, address: str, answer: Command) -> R_co:
        """What is kept of an answer; ClientError if it is a refusal. ``queue`` is on its host."""


class Sender(Generic[R]):
    """Sends what one task has, from the beginning of a ``with`` block to its end.

    with Sender(cluster, options, outlet, targets) as sender:
        sender.send(loads)              # waits while too much is under way
        receipts = sender.finish()      # in the order of the loads

    The first failure ends it: it is raised by whatever is called next.
    """

    def __init__(
        self, cluster: Cluster, options: SinkOptions, outlet: Outlet[R], targets: Targets
    ) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._options = options
        self._outlet = outlet
        self._targets = targets
        self._patience = Patience.of(options)
        self._turns: dict[str, RoundRobin] = {}
        self._slots: dict[tuple[str, bool], asyncio.Semaphore] = {}
        self._orders: dict[MessageQueue, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._receipts: dict[int, R] = {}
        self._count = 0

    def __enter__(self) -> "Sender[R]":
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.run(self._cancel())

    def send(self, loads: Iterable[Load]) -> None:
        """Begin to send some; returns when they are under way."""
        for group in _grouped(loads):
            for load in group:
                self._targets.queues(load.topic)  # asked for here, as the event loop cannot wait
            self._cluster.run(self._admit(group))

    def finish(self) -> list[R]:
        """Wait for all answers."""
        self._cluster.run(self._drain())
        return [self._receipts[number] for number in range(self._count)]

    # --- in the event loop ------------------------------------------------------------------------

    async def _admit(self, loads: list[Load]) -> None:
        for load in loads:
            queue = load.queue or self._turn(load.topic).next(self._targets.current(load.topic))
            slot = self._slot(queue.broker_name, isinstance(load, Single))
            await slot.acquire()
            if self._failure is not None:
                slot.release()
                raise self._failure
            task = asyncio.get_running_loop().create_task(
                self._deliver(self._count, load, queue, slot)
            )
            self._count += 1
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _turn(self, topic: str) -> RoundRobin:
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = RoundRobin()
        return turn

    def _slot(self, broker_name: str, is_single: bool) -> asyncio.Semaphore:
        slot = self._slots.get((broker_name, is_single))
        if slot is None:
            count = _SINGLES_IN_FLIGHT if is_single else self._options.in_flight
            slot = self._slots[broker_name, is_single] = asyncio.Semaphore(count)
        return slot

    async def _deliver(
        self, number: int, load: Load, queue: MessageQueue, slot: asyncio.Semaphore
    ) -> None:
        try:
            if self._outlet.keeps_order and load.queue is not None:
                async with self._orders.setdefault(queue, asyncio.Lock()):
                    self._receipts[number] = await self._keep_trying(load, queue)
            else:
                self._receipts[number] = await self._keep_trying(load, queue)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is for the task's thread)
            self._failure = self._failure or error
        finally:
            slot.release()

    async def _keep_trying(self, load: Load, queue: MessageQueue) -> R:
        if self._failure is not None:
            raise self._failure
        chosen = queue

        async def attempt(left_ms: int) -> R:
            return await self._attempt(load, chosen, left_ms)

        def choose(error: ClientError) -> None:
            nonlocal chosen
            if load.queue is None:
                queues = self._targets.current(load.topic)
                chosen = self._turn(load.topic).next(queues, avoid=chosen.broker_name)

        count = load.count if isinstance(load, Parcel) else 1
        what = f"{self._outlet.verb} {count} rows for topic {load.topic}"
        return await self._patience.keep_trying(what, attempt, choose)

    async def _attempt(self, load: Load, queue: MessageQueue, left_ms: int) -> R:
        routes, calls = self._client.routes, self._client.calls
        broker_name = routes.broker_of(queue)
        address = await routes.master_of(broker_name, queue.topic)
        command = calls.sign(self._outlet.command(load, queue, broker_name))
        limit_ms = min(left_ms, self._options.connection.request_timeout_ms)
        answer = await calls.send(address, command, limit_ms)
        host = MessageQueue(broker_name, queue.queue_id, queue.topic)
        return self._outlet.read(load, host, address, answer)

    async def _drain(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)
        if self._failure is not None:
            raise self._failure

    async def _cancel(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_GROUP_COUNT_MAX: Final = 256


def _grouped(loads: Iterable[Load]) -> Iterable[list[Load]]:
    """Large ones by themselves as soon as they are made, small ones some at a time."""
    group: list[Load] = []
    for load in loads:
        group.append(load)
        if isinstance(load, Parcel) or len(group) >= _GROUP_COUNT_MAX:
            yield group
            group = []
    if group:
        yield group


# --- plain sends ----------------------------------------------------------------------------------


class SendOutlet:
    """Rows are sent, and may be consumed as soon as they are stored."""

    verb: Final = "send"
    keeps_order: Final = True

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._group = cluster.client.wrap(options.producer_group)

    def command(self, load: Load, queue: MessageQueue, broker_name: str) -> Command:
        if isinstance(load, Single):
            fields = send_fields(
                self._group, queue, broker_name, flag=load.flag, properties=load.properties
            )
            return Command(RequestCode.SEND_MESSAGE_V2, fields, load.body)
        fields = send_fields(self._group, queue, broker_name, is_batch=True)
        return Command(RequestCode.SEND_BATCH_MESSAGE, fields, load.body)

    def read(self, load: Load, queue: MessageQueue, address: str, answer: Command) -> int:
        check_stored(queue, address, answer)
        return load.count if isinstance(load, Parcel) else 1


def send_fields(
    group: str,
    queue: MessageQueue,
    broker_name: str,
    *,
    flag: int = 0,
    properties: str = "",
    is_batch: bool = False,
    is_half: bool = False,
) -> dict[str, str]:
    """SendMessageV2Request as ext fields, in the order of Java's headers."""
    return {
        "a": group,
        "b": queue.topic,
        "c": DEFAULT_TOPIC,
        "d": _TEMPLATE_QUEUES,
        "e": str(queue.queue_id),
        "f": str(TRANSACTION_PREPARED) if is_half else "0",
        "g": str(wall_ms()),
        "h": str(flag),
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "true" if is_batch else "false",
        "n": broker_name,
    }


def check_stored(queue: MessageQueue, address: str, answer: Command) -> None:
    """RefusedError unless rows were stored, be it not as safely as the broker promises."""
    if answer.code in _UNSAFE:
        log.warning(
            "%s has stored rows for %s, but not safely: code %d", address, queue.topic, answer.code
        )
    elif answer.code != ResponseCode.SUCCESS:
        raise RefusedError(address, answer.code, answer.remark or "without a reason")
