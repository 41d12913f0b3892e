"""What a lite pull consumer does from time to time: share queues, watch topics, keep offsets."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.lite_assignment import LiteAssignment
from roketto.client.message import MessageQueue
from roketto.client.offset_store import OffsetStore
from roketto.client.rebalance import Rebalance
from roketto.clock import monotonic_s

__all__ = ["LiteRounds", "QueuesListener"]

log = logging.getLogger(__name__)

_ROUND_S: Final = 20.0
_AGAIN_S: Final = 1.0
"""As Java: between two rounds, and after one in which something could not be told; also the least
time between two, however many members come and go."""

QueuesListener = Callable[[str, list[MessageQueue]], None]
"""Called with a topic and queues of it."""


class LiteRounds:
    """Two tasks of one consumer; ``start`` begins them, ``stop`` ends them.

    rounds.shared["Orders"] = None      # the group shares its queues
    rounds.announce()                   # brokers are told, and the round begins at once
    """

    def __init__(
        self, client: Client, rebalance: Rebalance, assignment: LiteAssignment, store: OffsetStore
    ) -> None:
        self.shared: dict[str, QueuesListener | None] = {}
        """Topics whose queues the group shares, and who wants to know the own ones."""
        self.watched: dict[str, QueuesListener] = {}
        """Topics, and who wants to know all their queues."""
        self._client = client
        self._rebalance = rebalance
        self._assignment = assignment
        self._store = store
        self._seen: dict[str, list[MessageQueue]] = {}
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._is_announced = True
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def topics(self) -> Collection[str]:
        """All that have to do with this consumer."""
        assigned = {name.topic for name in self._assignment.names}
        return assigned | self.shared.keys() | self.watched.keys()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._keep_offsets())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def soon(self) -> None:
        """Others have changed something."""
        self._changed.set()

    def announce(self) -> None:
        """The consumer itself has changed what it wants; brokers are to know."""
        self._is_announced = False
        self._urgent.set()
        self._changed.set()

    # --- rounds -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._urgent.clear()
            began_s = monotonic_s()
            is_whole = await self._try_round()
            await _wait(self._changed, _ROUND_S if is_whole else _AGAIN_S)
            await _wait(self._urgent, began_s + _AGAIN_S - monotonic_s())

    async def _try_round(self) -> bool:
        """Whether all could be done."""
        try:
            await self._tell_brokers()
            is_whole = await self._share_all()
            await self._assignment.release()
            self._watch()
        except ClientError as error:
            log.warning("queues stay as they are: %s", error)
            return False
        except Exception:
            log.exception("sharing queues failed, and is tried again")
            return False
        return is_whole

    async def _tell_brokers(self) -> None:
        if self._is_announced:
            return
        self._is_announced = True
        for topic in self.topics:
            try:
                await self._client.routes.get(topic)
            except ClientError as error:
                log.warning("topic %s is waited for: %s", topic, error)
        await self._client.send_heartbeats()

    async def _share_all(self) -> bool:
        is_whole = True
        for topic in list(self.shared):
            queues = await self._share(topic)
            if queues is None:
                is_whole = False
            elif topic in self.shared and self._assignment.change(queues, topic):
                log.info("queues of %s are shared anew: %d are here", topic, len(queues))
                _call(self.shared[topic], topic, queues)
        return is_whole

    async def _share(self, topic: str) -> list[MessageQueue] | None:
        queues = await self._rebalance.assign(topic)
        if queues is None or (not queues and not await self._is_member(topic)):
            # A broker that was started again, or has the topic only now, does not know this
            # consumer: it is no member yet, and nobody else took its queues.
            await self._client.send_heartbeats()
            return None
        return queues

    async def _is_member(self, topic: str) -> bool:
        return self._client.id in await self._rebalance.members(topic)

    def _watch(self) -> None:
        for topic, listener in list(self.watched.items()):
            route = self._client.routes.known(topic)
            queues = [] if route is None else list(route.subscribe_queues)
            if queues != self._seen.setdefault(topic, queues):
                self._seen[topic] = queues
                _call(listener, topic, queues)

    # --- offsets ----------------------------------------------------------------------------------

    async def _keep_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._client.settings.offsets_interval_s)
            try:
                await self._store.persist(list(self._assignment.names))
            except Exception:
                log.exception("offsets are not kept, and tried again")


async def _wait(event: asyncio.Event, seconds: float) -> None:
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _call(listener: QueuesListener | None, topic: str, queues: list[MessageQueue]) -> None:
    if listener is None:
        return
    try:
        listener(topic, list(queues))
    except Exception:
        log.exception("the listener for queues of %s failed", topic)
