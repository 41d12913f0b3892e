"""What the producers and consumers of a program share: connections, routes, heartbeats.

Each of them makes one of its own unless it is given one. All that have the same one are one client
to the brokers, with one id, one connection to each and one heartbeat.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, Self

from roketto.client.calls import Calls
from roketto.client.errors import ClientClosedError, ClientError, NotStartedError
from roketto.client.heartbeats import Heartbeats
from roketto.client.identity import (
    DEFAULT_INSTANCE,
    client_id,
    local_ip,
    make_unique_ids,
    own_instance_name,
)
from roketto.client.inbound import Inbound
from roketto.client.name_servers import NameServers
from roketto.client.roles import ConsumerRole, ProducerRole
from roketto.client.route_table import RouteTable
from roketto.client.routes import Route
from roketto.client.settings import ClientSettings
from roketto.protocol.namespaces import unwrap_namespace, wrap_namespace
from roketto.remoting.pool import Pool
from roketto.remoting.settings import ConnectionSettings

__all__ = ["Client"]

log = logging.getLogger(__name__)

_ADDRESS_SERVER_FIRST_S: Final = 10.0
_ADDRESS_SERVER_S: Final = 120.0
"""How often an address server is asked, as Java: soon after the start, then every two minutes."""
_BACKOFF_MAX_S: Final = 1.0
"""How long a server is left alone that does not answer. Consumers look every second whether their
broker is back; more would only let them wait."""
_STOP_S: Final = 3.0
"""How long taking leave of brokers may take."""
_ZONE: Final = "ROCKETMQ_ZONE"
_ZONE_MODE: Final = "ROCKETMQ_ZONE_MODE"


class Client:
    """Connections, routes and heartbeats of one program.

    async with Client(ClientSettings(name_servers="10.0.0.5:9876")) as client:
        producer = Producer("orders", client=client)

    ``keeps_instance`` is for consumers that all get everything: what they keep on this machine is
    kept by their id, which must be the same the next time.
    """

    def __init__(
        self, settings: ClientSettings | None = None, *, keeps_instance: bool = False
    ) -> None:
        settings = settings or ClientSettings()
        instance = settings.instance_name
        if instance == DEFAULT_INSTANCE and not keeps_instance:
            instance = own_instance_name()
        self.ip = settings.client_ip or local_ip()
        self.id = client_id(self.ip, instance, settings.unit_name)
        self.unique_ids = make_unique_ids(self.ip)
        self.inbound = Inbound(self.id)
        """Who answers what brokers ask."""
        self.pool = Pool(
            handler=self.inbound.handle,
            settings=ConnectionSettings(calls_in_flight_max=settings.calls_in_flight_max),
            connect_timeout_ms=settings.connect_timeout_ms,
            tls=settings.tls,
            backoff_max_s=_BACKOFF_MAX_S,
        )
        self.names = NameServers(self.pool, settings.name_servers, settings.unit_name)
        if not settings.namespace and self.names.instance:
            settings = replace(settings, namespace=self.names.instance)
        self.settings = settings
        self.calls = Calls(self.pool, self.names, settings)
        self.routes = RouteTable(self.calls, self.names, settings.zone or _zone(os.environ))
        self.routes.on_change = self._route_changed
        self.heartbeats = Heartbeats(self.calls, self.id)
        self._tasks: list[asyncio.Task[None]] = []
        self._greetings: dict[str, asyncio.Task[None]] = {}
        self._users = 0
        self._is_started = False
        self._is_closed = False

    # --- names ------------------------------------------------------------------------------------

    def wrap(self, name: str) -> str:
        """A topic or group with the namespace."""
        return wrap_namespace(self.settings.namespace, name)

    def unwrap(self, name: str) -> str:
        """A topic or group as the user calls it."""
        return unwrap_namespace(self.settings.namespace, name)

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin, or count one more who uses it. Everybody who starts it stops it."""
        if self._is_closed:
            raise self._closed()
        self._users += 1
        if not self._is_started:
            self._is_started = True
            self._begin()
        if not self.names.addresses:
            try:
                await self.names.refresh()
            except BaseException:
                await self.stop()
                raise

    def _begin(self) -> None:
        settings = self.settings
        self.calls.on_unreachable = self.routes.doubt
        self.pool.on_connect = self._greet
        self.pool.on_disconnect = self._lost
        self._repeat(settings.route_interval_s, self.routes.refresh_all)
        self._repeat(settings.heartbeat_interval_s, self.send_heartbeats)
        if self.names.is_by_http:
            self._repeat(_ADDRESS_SERVER_S, self.names.refresh, _ADDRESS_SERVER_FIRST_S)

    async def stop(self) -> None:
        """End, when the last one who uses it stops it."""
        self._users -= 1
        if self._users > 0 or self._is_closed:
            return
        self._is_closed = True
        self.calls.close(str(self._closed()))
        self.calls.on_unreachable = self.pool.on_connect = self.pool.on_disconnect = None
        tasks = [*self._tasks, *self._greetings.values()]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.inbound.close()
            await self.routes.close()
        finally:  # whoever is too impatient to wait for these leaves no connection open
            await self.pool.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def check_started(self) -> None:
        """NotStartedError or ClientClosedError unless it can be used."""
        if self._is_closed:
            raise self._closed()
        if not self._is_started:
            raise NotStartedError(
                "not started: use it with `async with`, or await its start() first"
            )

    def _closed(self) -> ClientClosedError:
        return ClientClosedError(f"client {self.id} was stopped; make a new one")

    def _repeat(
        self,
        seconds: float,
        work: Callable[[], Coroutine[Any, Any, None]],
        first_s: float | None = None,
    ) -> None:
        first_s = seconds if first_s is None else first_s
        self._tasks.append(asyncio.get_running_loop().create_task(_every(first_s, seconds, work)))

    # --- groups -----------------------------------------------------------------------------------

    async def add_producer(self, producer: ProducerRole) -> None:
        """Let brokers know a producer; a group may be registered once."""
        self.inbound.add_producer(producer)
        try:
            await self.send_heartbeats()
        except BaseException:
            self.inbound.remove_producer(producer)
            raise

    async def remove_producer(self, producer: ProducerRole) -> None:
        """Let brokers forget it."""
        if self.inbound.remove_producer(producer):
            await self._take_leave(producer_group=producer.group)

    async def add_consumer(self, consumer: ConsumerRole) -> None:
        """Let brokers know a consumer, whose routes are known; a group may be registered once."""
        self.inbound.add_consumer(consumer)
        try:
            await self.send_heartbeats()
        except BaseException:
            self.inbound.remove_consumer(consumer)
            raise

    async def remove_consumer(self, consumer: ConsumerRole) -> None:
        """Let brokers forget it."""
        if self.inbound.remove_consumer(consumer):
            await self._take_leave(consumer_group=consumer.group)

    async def _take_leave(self, **groups: str) -> None:
        addresses = [
            address for by_id in self.routes.brokers().values() for address in by_id.values()
        ]
        try:
            async with asyncio.timeout(_STOP_S):
                await self.heartbeats.unregister(addresses, **groups)
        except TimeoutError:
            log.debug("brokers were slow to be taken leave of")

    async def send_heartbeats(self) -> None:
        """Tell all brokers who is here."""
        inbound = self.inbound
        await self.heartbeats.send(
            inbound.producer_groups, inbound.consumers, self.routes.brokers()
        )

    def _greet(self, address: str) -> None:
        """A connection was made: a broker that was started again has forgotten who is here."""
        if address not in self._greetings and not self.heartbeats.is_under_way(address):
            task = asyncio.get_running_loop().create_task(self._introduce(address))
            self._greetings[address] = task
            task.add_done_callback(lambda _: self._greetings.pop(address, None))

    async def _introduce(self, address: str) -> None:
        inbound = self.inbound
        is_known = await self.heartbeats.send_to(
            address, inbound.producer_groups, inbound.consumers, self.routes.brokers()
        )
        if is_known:
            for consumer in inbound.consumers:
                consumer.rebalance_soon()

    def _lost(self, address: str) -> None:
        """A connection has ended: a broker that ends, too, forgets what it had only in memory."""
        broker_name = self.routes.name_at(address)
        if broker_name is not None:
            for consumer in self.inbound.consumers:
                consumer.disconnected(broker_name)

    def _route_changed(self, route: Route) -> None:
        for consumer in self.inbound.consumers:
            if route.topic in consumer.topics:
                consumer.rebalance_soon()


def _zone(environment: Mapping[str, str]) -> str:
    """The zone whose brokers are wanted, as Java has it from the environment."""
    is_wanted = environment.get(_ZONE_MODE, "").strip().lower() == "true"
    return environment.get(_ZONE, "").strip() if is_wanted else ""


async def _every(
    first_s: float, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Do something again and again; what fails is tried again the next time."""
    await asyncio.sleep(first_s)
    while True:
        try:
            await work()
        except ClientError as error:
            log.warning("%s", error)
        except Exception:
            log.exception("%s failed, and is tried again", getattr(work, "__qualname__", work))
        await asyncio.sleep(seconds)
