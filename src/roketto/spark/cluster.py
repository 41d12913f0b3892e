"""A cluster as drivers and executors use it: blocking calls over one shared client per process.

Spark keeps Python workers for many tasks, so clients are kept as well: one for each set of
connection options, with one connection to each broker. A client that nobody has used for five
minutes is stopped when somebody asks for another one. After a fork the child begins anew.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from roketto.client.calls import read_body
from roketto.client.client import Client
from roketto.client.errors import ClientClosedError, ClientError, RefusedError
from roketto.client.offset_store import BrokerOffsets
from roketto.client.portal import Portal, enter
from roketto.client.positions import BoundaryType, Positions
from roketto.client.pulling import PullRequest, pull
from roketto.client.subscription import make_subscription
from roketto.clock import monotonic_s
from roketto.protocol.bodies.route import ClusterInfo, MessageQueue, TopicList
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.range_read import ReadRangeRequest
from roketto.protocol.namespaces import has_namespace
from roketto.spark.options import ConnectionOptions

__all__ = ["Cluster", "MessageQueue", "close_clusters"]

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_S: Final = 300.0
"""As long as Kafka's consumers are kept by Spark."""
CLUSTERS_MAX: Final = 16
"""Clients of one process; the one that was used longest ago is stopped for a new one."""
_ASKED_AT_ONCE: Final = 64
_KIND_S: Final = 300.0
"""How long it is believed whose broker listens at an address: it may be exchanged."""
_PROBE_TOPIC: Final = "TBW102"


class Cluster:
    """One cluster in this process; ``Cluster.of`` gives the one that is shared.

    cluster = Cluster.of(connection)
    queues = cluster.queues("Orders")
    ends = cluster.max_offsets(queues)

    Topics and groups are named as users do, without the namespace. Whatever is asked raises
    ClientError if it cannot be answered. Any thread may call; none has to stop it.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self._settings = options.settings()
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._client: Client | None = None
        self._used_s = monotonic_s()
        self._kinds: dict[str, tuple[bool, float]] = {}

    def __repr__(self) -> str:
        return f"cluster of {self.options.name_servers}"

    @classmethod
    def of(cls, options: ConnectionOptions) -> "Cluster":
        """The one of this process; those that nobody has used for a while are stopped."""
        with _shared.lock:
            cluster = _shared.clusters.pop(options, None) or cls(options)
            _shared.clusters[options] = cluster  # the last one is what was used last
            now_s = monotonic_s()
            idle = [one for one in _shared.clusters.values() if now_s - one._used_s > IDLE_S]
            surplus = list(_shared.clusters.values())[:-CLUSTERS_MAX]
            old = {id(one): one for one in (*idle, *surplus) if one is not cluster}
            for one in old.values():
                del _shared.clusters[one.options]
        for one in old.values():
            one.stop()
        return cluster

    # --- life -------------------------------------------------------------------------------------

    def _open(self) -> tuple[Portal, Client]:
        """The running client; started when it is first needed, and anew after it was stopped."""
        with self._lock:
            self._used_s = monotonic_s()
            portal, client = self._portal, self._client
            if portal is not None and client is not None and portal.is_alive:
                return portal, client
            portal = enter(self)
            try:
                client = portal.run(self._start())
            except BaseException:
                portal.leave(self)
                raise
            self._portal, self._client = portal, client
            return portal, client

    async def _start(self) -> Client:
        client = Client(self._settings)
        await client.start()
        return client

    def stop(self) -> None:
        """Close its connections; whoever asks something later opens them anew."""
        with self._lock:
            portal, client = self._portal, self._client
            self._portal = self._client = None
            if portal is None or portal.is_forked:
                return
            try:
                if client is not None and portal.is_alive:
                    portal.run(client.stop())
            finally:
                portal.leave(self)

    @property
    def client(self) -> Client:
        """The asyncio client; use it in coroutines that ``run`` is given."""
        return self._open()[1]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns or raises, in the client's event loop."""
        try:
            portal = self._open()[0]
        except BaseException:
            coroutine.close()
            raise
        try:
            return portal.run(coroutine)
        finally:
            self._used_s = monotonic_s()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """The same without waiting: somebody asks for its result later, or cancels it."""
        try:
            portal = self._open()[0]
            portal.check()
        except BaseException:
            coroutine.close()
            raise
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, portal.loop)
        except RuntimeError as error:
            coroutine.close()
            raise ClientClosedError(f"{self!r} was stopped by somebody else") from error

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """All topics that name servers know, in order, as users name them."""
        client = self.client
        return self.run(_topics(client))

    def server_names(self) -> set[str]:
        """Names of brokers and clusters; each of these has a topic of its own, as in Java."""
        client = self.client

        def read(address: str, answer: Command) -> set[str]:
            info = read_body(ClusterInfo, address, answer)
            return {*info.broker_addr_table, *info.cluster_addr_table}

        return self.run(client.calls.ask_names_for(read, RequestCode.GET_BROKER_CLUSTER_INFO))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, as a name server tells them now."""
        client = self.client

        async def work() -> list[MessageQueue]:
            route = await client.routes.refresh(client.wrap(topic))
            return [
                MessageQueue(queue.broker_name, queue.queue_id, topic)
                for queue in sorted(route.subscribe_queues)
            ]

        return self.run(work())

    def named(self, queue: MessageQueue) -> MessageQueue:
        """A queue with the namespace, as brokers know it."""
        topic = self.client.wrap(queue.topic)
        if topic == queue.topic:
            return queue
        return MessageQueue(queue.broker_name, queue.queue_id, topic)

    # --- positions --------------------------------------------------------------------------------

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        return self.min_offsets([queue])[queue]

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self.max_offsets([queue])[queue]

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """That of the first message stored at a time or later; the end if there is none."""
        return self.offsets_by_time({queue: timestamp_ms})[queue]

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Those of many queues, asked at once."""
        positions = Positions(self.client)
        return self._all(queues, positions.min_offset)

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Those of many queues, asked at once."""
        positions = Positions(self.client)
        return self._all(queues, positions.max_offset)

    def try_max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, ClientError]]:
        """The same of those whose brokers answer, and why others are not among them."""
        positions = Positions(self.client)
        return self._ask(queues, positions.max_offset)

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """For each queue the first offset at its time or later; its end if there is none."""
        positions = Positions(self.client)
        named = {self.named(queue): time_ms for queue, time_ms in times_ms.items()}
        return self._all(
            times_ms, lambda queue: positions.search(queue, named[queue], BoundaryType.LOWER)
        )

    def _all(
        self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Coroutine[Any, Any, T]]
    ) -> dict[MessageQueue, T]:
        found, failed = self._ask(queues, ask)
        for queue, error in failed.items():
            raise ClientError(
                f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}: {error}"
            ) from error
        return found

    def _ask(
        self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Coroutine[Any, Any, T]]
    ) -> tuple[dict[MessageQueue, T], dict[MessageQueue, ClientError]]:
        asked = [(queue, self.named(queue)) for queue in queues]
        found: dict[MessageQueue, T] = {}
        failed: dict[MessageQueue, ClientError] = {}

        async def one(queue: MessageQueue, named: MessageQueue) -> None:
            try:
                found[queue] = await ask(named)
            except ClientError as error:
                failed[queue] = error

        async def work() -> None:
            for begin in range(0, len(asked), _ASKED_AT_ONCE):
                some = asked[begin : begin + _ASKED_AT_ONCE]
                await asyncio.gather(*(one(queue, named) for queue, named in some))

        self.run(work())
        return found, failed

    # --- groups -----------------------------------------------------------------------------------

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group is in a queue; None if it has committed nothing there."""
        return self.group_offsets(group, [queue])[queue]

    def group_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """Where a group is in many queues."""
        store = BrokerOffsets(self.client, self.client.wrap(group))
        return self._all(queues, lambda queue: store.read(queue, memory_first=False))

    def commit_group_offset(self, group: str, queue: MessageQueue, consume_offset: int) -> None:
        """All before this offset is handled."""
        self.commit_group_offsets(group, {queue: consume_offset})

    def commit_group_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """The same of many queues; ClientError with the first that could not be kept."""
        client = self.client
        store = BrokerOffsets(client, client.wrap(group))
        for queue, consume_offset in offsets.items():
            store.update(self.named(queue), consume_offset, increase_only=False)

        self.run(_keep(client, store, client.wrap(group)))

    # --- brokers ----------------------------------------------------------------------------------

    def is_ours(self, address: str) -> bool:
        """Whether a broker knows READ_RANGE and what else only Roketto's have."""
        self._open()
        return self.run(self.knows_ranges(address))

    async def knows_ranges(self, address: str) -> bool:
        """The same within the event loop, where ``run`` has begun; asked once in a while."""
        client = self._client
        assert client is not None, "used within run() or begin(), which open it"
        known = self._kinds.get(address)
        if known is not None and monotonic_s() - known[1] < _KIND_S:
            return known[0]
        request = ReadRangeRequest(topic=_PROBE_TOPIC, queue_id=0, queue_offset=0, max_bytes=1)
        answer = await client.calls.ask(address, RequestCode.READ_RANGE, request)
        is_ours = answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        self._kinds[address] = is_ours, monotonic_s()
        return is_ours


async def _keep(client: Client, store: BrokerOffsets, group: str) -> None:
    """Let brokers keep what is in the store, and make the group where they do not know it."""
    queues = list(store.offsets())
    for topic in {queue.topic for queue in queues}:
        await client.routes.get(topic)
    failed = await store.persist(queues)
    unknown = {queue.broker_name: queue for queue, error in failed.items() if _is_unknown(error)}
    if unknown:
        for queue in unknown.values():
            await _introduce(client, group, queue, store.memory(queue) or 0)
        failed = await store.persist(list(failed))
    for queue, error in failed.items():
        raise ClientError(
            f"group {group} is not kept at queue {queue.queue_id} of {queue.topic} on"
            f" {queue.broker_name}: {error}"
        ) from error


def _is_unknown(error: ClientError) -> bool:
    code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    return isinstance(error, RefusedError) and error.code == code


async def _introduce(client: Client, group: str, queue: MessageQueue, at: int) -> None:
    """Brokers make a group when it first pulls. A heartbeat would, too, and make it a member."""
    request = PullRequest(
        queue, group, make_subscription(queue.topic), at, count_max=1, sends_expression=True
    )
    await pull(client, request)


async def _topics(client: Client) -> list[str]:
    def read(address: str, answer: Command) -> list[str]:
        return read_body(TopicList, address, answer).topic_list

    names = await client.calls.ask_names_for(read, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    namespace = client.settings.namespace
    return sorted(
        client.unwrap(name) for name in names if not namespace or has_namespace(namespace, name)
    )


# --- those of this process ------------------------------------------------------------------------


class _Shared:
    """What a process has once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clusters: dict[ConnectionOptions, Cluster] = {}


_shared = _Shared()


def close_clusters(only: Collection[ConnectionOptions] | None = None) -> None:
    """Stop the clients of this process, or some of them; at its end that is done by itself."""
    with _shared.lock:
        chosen = list(_shared.clusters) if only is None else list(only)
        clusters = [_shared.clusters.pop(one) for one in chosen if one in _shared.clusters]
    for cluster in clusters:
        try:
            cluster.stop()
        except ClientClosedError:
            log.debug("%r had ended", cluster)


def _forget() -> None:
    """In the child after a fork: connections and the lock are the parent's."""
    global _shared
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
# Later than that of the portal, and so called before it: nothing is left to complain about.
atexit.register(close_clusters)
