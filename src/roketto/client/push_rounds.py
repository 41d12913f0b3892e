"""What a push consumer does from time to time: share queues, keep offsets, tell brokers of itself.

A round begins when members or routes change, every 20 seconds, and a second after one in which
something was missing: a route, an answer, or the lock of a queue.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.message import MessageQueue
from roketto.client.owned_queues import OwnedQueues
from roketto.client.push_subscriptions import PushSubscriptions
from roketto.client.rebalance import Rebalance
from roketto.clock import monotonic_s

__all__ = ["PushRounds", "QueuesListener"]

log = logging.getLogger(__name__)

_ROUND_S: Final = 20.0
_AGAIN_S: Final = 1.0
"""After a round in which something was missing, twice as long each time; also the least time
between two, however many members come and go."""
_HEARTBEAT_GAP_S: Final = 1.0

QueuesListener = Callable[[str, list[MessageQueue]], None]
"""Called with a topic and the queues of it that are this consumer's now."""


class PushRounds:
    """Tasks of one consumer; ``start`` begins them, ``stop`` ends them."""

    def __init__(
        self,
        client: Client,
        rebalance: Rebalance,
        queues: OwnedQueues,
        subscriptions: PushSubscriptions,
        on_queues: QueuesListener | None = None,
    ) -> None:
        self._client = client
        self._rebalance = rebalance
        self._queues = queues
        self._subscriptions = subscriptions
        self._on_queues = on_queues
        self._changed = asyncio.Event()
        self._unknown = asyncio.Event()
        self._met: set[str] = set()
        """Addresses of brokers that have had a heartbeat."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._met = self._addresses()
        work: list[Coroutine[Any, Any, None]] = [
            self._share_forever(), self._keep_offsets(), self._beat_when_unknown()
        ]  # fmt: skip
        self._tasks = [loop.create_task(some) for some in work]

    async def stop(self) -> None:
        me = asyncio.current_task()
        others = [task for task in self._tasks if task is not me]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def soon(self) -> None:
        """Members of the group, routes or subscriptions have changed."""
        self._changed.set()

    def heartbeat_soon(self) -> None:
        """A broker may not know this consumer: it was started again, or is new."""
        self._unknown.set()

    # --- shares -----------------------------------------------------------------------------------

    async def _share_forever(self) -> None:
        again_s = _AGAIN_S
        while True:
            self._changed.clear()
            began_s = monotonic_s()
            is_whole = await self._try_share_all()
            again_s = _AGAIN_S if is_whole else min(2 * again_s, _ROUND_S)
            await _wait(self._changed, _ROUND_S if is_whole else again_s / 2)
            await asyncio.sleep(max(0.0, began_s + _AGAIN_S - monotonic_s()))

    async def _try_share_all(self) -> bool:
        """Whether nothing was missing."""
        try:
            await self._meet_brokers()
            return await self._share_all()
        except ClientError as error:
            log.warning("queues stay as they are: %s", error)
        except Exception:
            log.exception("sharing queues failed, and is tried again")
        return False

    async def _meet_brokers(self) -> None:
        """Let brokers know this consumer before they are asked who is in its group."""
        for topic in list(self._subscriptions.topics):
            if self._client.routes.known(topic) is None:
                try:
                    await self._client.routes.get(topic)
                except ClientError as error:
                    log.debug("topic %s is waited for: %s", topic, error)
        addresses = self._addresses()
        if addresses - self._met:
            await self._subscriptions.tell()
        self._met = addresses

    def _addresses(self) -> set[str]:
        brokers = self._client.routes.brokers()
        return {address for by_id in brokers.values() for address in by_id.values()}

    async def _share_all(self) -> bool:
        is_whole = True
        changed: list[str] = []
        for topic in list(self._subscriptions.topics):
            names = await self._share_of(topic)
            if topic not in self._subscriptions.topics:
                continue
            if names is None:
                is_whole = False
                continue
            route = self._client.routes.known(topic)
            is_all = route is not None and len(names) == len(route.subscribe_queues)
            if await self._queues.share(topic, names, is_whole=is_all):
                changed.append(topic)
            is_whole = is_whole and set(self._queues.names(topic)) == set(names)
        await self._queues.keep_topics(self._subscriptions.topics)
        if changed:
            self._subscriptions.renew(changed)
            await self._subscriptions.tell()
        for topic in changed:
            self._tell(topic)
        return is_whole

    async def _share_of(self, topic: str) -> list[MessageQueue] | None:
        names = await self._rebalance.assign(topic)
        if names == [] and self._client.id not in await self._rebalance.members(topic):
            # A broker that was started again does not know this consumer: it is no member yet, and
            # nobody else has its queues.
            await self._subscriptions.tell()
            return None
        return names

    def _tell(self, topic: str) -> None:
        if self._on_queues is None:
            return
        try:
            self._on_queues(topic, self._queues.names(topic))
        except Exception:
            log.exception("the listener for queues of %s failed", topic)

    # --- offsets and heartbeats -------------------------------------------------------------------

    async def _keep_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._client.settings.offsets_interval_s)
            try:
                await self._queues.persist()
            except Exception:
                log.exception("offsets are not kept, and tried again")

    async def _beat_when_unknown(self) -> None:
        while True:
            await self._unknown.wait()
            self._unknown.clear()
            try:
                await self._subscriptions.tell()
            except Exception:
                log.exception("brokers are not told, and are the next time")
            await asyncio.sleep(_HEARTBEAT_GAP_S)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
