"""The routes a client has, asked for when they are first needed and again from time to time.

A route that cannot be asked for, or that is gone, stays as it was: brokers may still be there. When
a broker does not answer, the routes that name it are asked for at once: it may have moved.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from roketto.client.broker_table import BrokerTable
from roketto.client.calls import Calls, read_body
from roketto.client.errors import (
    BrokerNotFoundError,
    ClientError,
    NoNameServerError,
    TopicNotFoundError,
)
from roketto.client.name_servers import NameServers
from roketto.client.routes import MASTER_ID, Route, make_route, route_like
from roketto.protocol.bodies.route import MessageQueue, TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.namesrv import GetRouteInfoRequest
from roketto.protocol.names import DEFAULT_TOPIC

__all__ = ["RouteTable"]

log = logging.getLogger(__name__)

_REFRESHES_AT_ONCE: Final = 16
_ROUTES_MAX: Final = 16_384
"""Topics that are remembered; what was first asked for goes first, and is found again."""
_DOUBT_S: Final = 1.0
"""The least time between two looks after a broker that does not answer."""


class _Doubt:
    """A broker that did not answer."""

    __slots__ = ("is_settled", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.is_settled = asyncio.Event()


class RouteTable:
    """Topic -> route, and from these broker name -> addresses.

    route = await routes.get("Orders")              # TopicNotFoundError
    address = await routes.master_of("broker-a")    # BrokerNotFoundError
    """

    def __init__(self, calls: Calls, names: NameServers, zone: str = "") -> None:
        self._calls = calls
        self._names = names
        self._zone = zone
        self._routes: dict[str, Route] = {}
        self._brokers = BrokerTable()
        self._asked: dict[str, asyncio.Task[Route]] = {}
        self._doubts: dict[str, _Doubt] = {}
        """Broker name -> a look after it, or the rest after that."""
        self._is_cut_off = False
        self.on_change: Callable[[Route], None] | None = None
        """Called with each route that differs from what was known of its topic."""
        calls.describe = self._brokers.describe

    # --- topics -----------------------------------------------------------------------------------

    @property
    def topics(self) -> Collection[str]:
        """Those whose routes are kept."""
        return self._routes.keys()

    def known(self, topic: str) -> Route | None:
        """The route of a topic, if somebody has asked for it before."""
        return self._routes.get(topic)

    async def get(self, topic: str) -> Route:
        """The route of a topic; TopicNotFoundError if there is none."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def for_sending(
        self, topic: str, template: str = DEFAULT_TOPIC, queues: int = 4
    ) -> Route:
        """The same, or that of a topic which brokers make when it is first sent to."""
        route = self._routes.get(topic)
        if route is not None and route.publish_queues:
            return route
        try:
            return await self.refresh(topic)
        except TopicNotFoundError as error:
            try:
                like = await self.refresh(template)
            except TopicNotFoundError:
                raise TopicNotFoundError(
                    topic,
                    f"{self._names.current} knows no route to it, and brokers make none by"
                    " themselves (autoCreateTopicEnable): create it, for example with mqadmin"
                    " updateTopic",
                ) from error
            route = route_like(topic, like, queues)
            self._keep(route)
            return route

    async def refresh(self, topic: str) -> Route:
        """Ask for a route now; whoever else wants it meanwhile gets the same answer."""
        task = self._asked.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(topic))
            self._asked[topic] = task
            task.add_done_callback(lambda done: self._fetched(topic, done))
        return await asyncio.shield(task)

    def _fetched(self, topic: str, task: asyncio.Task[Route]) -> None:
        self._asked.pop(topic, None)
        if not task.cancelled():
            task.exception()  # marked as seen: those who waited may have given up

    async def _fetch(self, topic: str) -> Route:
        request = GetRouteInfoRequest(
            topic=topic,
            zone_name=self._zone or None,
            zone_mode="true" if self._zone else None,
        )
        route = await self._calls.ask_names_for(
            lambda address, answer: _read_route(topic, address, answer),
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            request,
        )
        self._keep(route)
        return route

    def _keep(self, route: Route) -> None:
        known = self._routes.get(route.topic)
        if known is None and len(self._routes) >= _ROUTES_MAX:
            del self._routes[next(iter(self._routes))]
        self._routes[route.topic] = route
        self._brokers.note(route)
        if route == known:
            return
        if known is not None and not known.brokers.keys() <= route.brokers.keys():
            self._brokers.keep({name for each in self._routes.values() for name in each.brokers})
        if self.on_change is not None:
            self.on_change(route)

    async def refresh_all(self) -> None:
        """Ask for every route that is kept; what fails stays as it was."""
        await self._refresh_some(list(self._routes))

    async def _refresh_some(self, topics: list[str]) -> None:
        for begin in range(0, len(topics), _REFRESHES_AT_ONCE):
            some = topics[begin : begin + _REFRESHES_AT_ONCE]
            await asyncio.gather(*(self._try_refresh(topic) for topic in some))
            if self._is_cut_off:
                return

    async def _try_refresh(self, topic: str) -> None:
        try:
            await self.refresh(topic)
        except NoNameServerError as error:
            level = logging.DEBUG if self._is_cut_off else logging.WARNING
            self._is_cut_off = True  # said once, and not for each topic every half minute
            log.log(level, "routes stay as they were: %s", error)
            return
        except TopicNotFoundError:
            log.debug("topic %s has no route yet", topic)
        except ClientError as error:
            log.warning("the route of topic %s stays as it was: %s", topic, error)
        if self._is_cut_off:
            self._is_cut_off = False
            log.info("name server %s answers", self._names.current)

    async def close(self) -> None:
        """Give up what is being asked."""
        tasks: list[asyncio.Task[Any]] = [
            *self._asked.values(), *(doubt.task for doubt in self._doubts.values())
        ]  # fmt: skip
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- brokers that do not answer ---------------------------------------------------------------

    def doubt(self, address: str) -> None:
        """Look whether the broker at an address is still there, soon and not too often."""
        name = self.name_at(address)
        if name is not None and name not in self._doubts:
            self._doubts[name] = _Doubt(
                asyncio.get_running_loop().create_task(self._look_after(name))
            )

    async def settle(self, address: str, wait_s: float) -> None:
        """Wait until a doubt about the broker at an address was looked into, if there is one."""
        doubt = self._doubts.get(self.name_at(address) or "")
        if doubt is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await doubt.is_settled.wait()

    async def _look_after(self, broker_name: str) -> None:
        """Ask for a few routes of a broker, and for all of them if something has changed."""
        doubt = self._doubts[broker_name]
        try:
            topics = [name for name, route in self._routes.items() if broker_name in route.brokers]
            random.shuffle(topics)
            known = self._brokers.addresses_of(broker_name)
            await self._refresh_some(topics[:_REFRESHES_AT_ONCE])
            if self._brokers.addresses_of(broker_name) != known:
                await self._refresh_some(topics[_REFRESHES_AT_ONCE:])
            doubt.is_settled.set()
            await asyncio.sleep(_DOUBT_S)
        finally:
            doubt.is_settled.set()
            del self._doubts[broker_name]

    # --- brokers ----------------------------------------------------------------------------------

    def addresses_of(self, broker_name: str) -> dict[int, str]:
        """Broker id -> address, as the newest route says."""
        return self._brokers.addresses_of(broker_name)

    def brokers(self) -> dict[str, dict[int, str]]:
        """All brokers that routes name, by their names."""
        return self._brokers.all()

    def name_at(self, address: str) -> str | None:
        """The broker at an address, if a route names it."""
        return self._brokers.name_at(address)

    def broker_of(self, queue: MessageQueue) -> str:
        """The broker that has a queue: of a static topic it is not the one that it is named by."""
        route = self._routes.get(queue.topic)
        return queue.broker_name if route is None else route.hosts.get(queue, queue.broker_name)

    async def master_of(self, broker_name: str, topic: str | None = None) -> str:
        """The address of a master, with a new look at its topic's route if it is not known."""
        return await self._find(
            broker_name, topic, lambda: self.addresses_of(broker_name).get(MASTER_ID)
        )

    async def any_of(self, broker_name: str, topic: str | None = None) -> str:
        """That of the master, or else of a slave."""
        return await self._find(broker_name, topic, lambda: self._any(broker_name))

    async def for_pulling(self, broker_name: str, broker_id: int, topic: str) -> tuple[str, int]:
        """Where to pull: the broker that was suggested, the next one, or any; with its id."""
        addresses = self.addresses_of(broker_name)
        if not addresses:
            await self._try_refresh(topic)
            addresses = self.addresses_of(broker_name)
        for wanted in (broker_id, broker_id + 1 if broker_id != MASTER_ID else broker_id):
            if wanted in addresses:
                return addresses[wanted], wanted
        if not addresses:
            raise self._missing(broker_name)
        lowest = min(addresses)
        return addresses[lowest], lowest

    def _any(self, broker_name: str) -> str | None:
        addresses = self.addresses_of(broker_name)
        return addresses[min(addresses)] if addresses else None

    async def _find(
        self, broker_name: str, topic: str | None, look: Callable[[], str | None]
    ) -> str:
        found = look()
        if found is None and topic is not None:
            await self._try_refresh(topic)
            found = look()
        if found is None:
            raise self._missing(broker_name)
        return found

    def _missing(self, broker_name: str) -> BrokerNotFoundError:
        return BrokerNotFoundError(
            f"broker {broker_name} is in no route that {self._names.current} has told: it is down,"
            " or has not registered"
        )


def _read_route(topic: str, address: str, answer: Command) -> Route:
    """The route in an answer of the name server at ``address``."""
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        raise TopicNotFoundError(
            topic, f"{address} knows no route to it; create it, or check the name"
        )
    return make_route(topic, read_body(TopicRouteData, address, answer), address)
