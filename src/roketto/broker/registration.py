"""The broker announces itself and its topics to all its name servers, each on its own."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from roketto.broker.config import BrokerConfig
from roketto.broker.registrar import Registrar
from roketto.broker.registration_requests import RegistrationRequests, TopicSource
from roketto.clock import monotonic_s
from roketto.protocol.bodies.topics import TopicConfig
from roketto.remoting.pool import Pool

__all__ = ["Registration"]

log = logging.getLogger(__name__)

_START_WAIT_S: Final = 4.0
"""A name server that does not answer must not keep a broker from serving those who know it."""

_STOP_WAIT_MS: Final = 1_000

_WHOLE_TOPICS_MAX: Final = 200
"""Up to here, some 50 kB, the whole table is sent whatever has changed: a name server with
``deleteTopicWithBrokerRegistration`` takes topics that are not in a registration for deleted."""


class Registration:
    """All name servers of ``namesrvAddr``, told of this broker from ``start`` to ``stop``.

    registration = Registration(config, topics, "10.0.0.1:10911")
    topics.on_change = registration.announce
    await registration.start()
    await registration.stop()

    ``address`` is where clients reach the broker. Topics that a name server has configured as
    ordered become so here.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicSource,
        address: str,
        *,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._config = config
        self._topics = topics
        self._address = address
        self._now_s = now_s
        self._pool: Pool | None = None
        self._registrars: list[Registrar] = []

    async def start(self) -> None:
        """Register everywhere; back when every name server was tried, or after four seconds."""
        addresses = split_addresses(self._config.namesrv_addr)
        if not addresses:
            log.warning("namesrvAddr is empty: this broker registers nowhere, and only clients "
                        "that know %s find it", self._address)  # fmt: skip
            return
        pool = self._pool = Pool()
        requests = RegistrationRequests(self._config, self._topics, self._address)
        self._registrars = [
            Registrar(address, self._config, requests, pool.connection, self._mark_ordered,
                      self._now_s)
            for address in addresses
        ]  # fmt: skip
        for registrar in self._registrars:
            registrar.start()
        try:
            async with asyncio.timeout(_START_WAIT_S):
                for registrar in self._registrars:
                    await registrar.has_tried.wait()
        except TimeoutError:
            late = [registrar.address for registrar in self._registrars
                    if not registrar.has_tried.is_set()]  # fmt: skip
            log.warning("no answer within %g s from %s; it is tried further", _START_WAIT_S,
                        ", ".join(late))  # fmt: skip

    def announce(self, topic: TopicConfig | None) -> None:
        """A topic is new or has changed; None: anything may have, or a topic is gone."""
        is_small = len(self._topics.topics) <= _WHOLE_TOPICS_MAX
        name = None if topic is None or is_small else topic.topic_name
        for registrar in self._registrars:
            registrar.announce(name)

    def _mark_ordered(self, names: Iterable[str]) -> None:
        for name in names:
            topic = self._topics.topics.get(name)
            if topic is not None and not topic.order:
                log.info("topic %s is ordered: a name server has it in its configuration", name)
                self._topics.put(replace(topic, order=True))

    async def stop(self) -> None:
        """Say farewell to those that know us; a second at most."""
        registrars, self._registrars = self._registrars, []
        await asyncio.gather(*[registrar.stop(_STOP_WAIT_MS) for registrar in registrars])
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    @property
    def standings(self) -> dict[str, str]:
        """How we stand with each name server, by address."""
        return {registrar.address: registrar.standing for registrar in self._registrars}


def split_addresses(text: str) -> list[str]:
    """The addresses of ``namesrvAddr``, each once, in their order."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(";")))))
