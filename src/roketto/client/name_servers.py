"""The name servers of a client: where their addresses come from, and which of them is asked.

The first of these that says something counts:

1. ``name_servers`` in the code
2. the environment: ``ROCKETMQ_NAMESRV_ADDR``, then ``NAMESRV_ADDR``
3. an address server, asked by HTTP (address_server.py)
4. 127.0.0.1:9876

One of them is asked until it fails, or answers what is of no use; then the next one is.
"""

import asyncio
import logging
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from roketto.client.address_server import address_server_url, fetch_line
from roketto.client.addresses import configured_addresses, split_addresses
from roketto.client.errors import ClientError, NoNameServerError, RefusedError, UnreadableError
from roketto.clock import monotonic_s
from roketto.protocol.command import Command
from roketto.remoting.errors import RemotingError
from roketto.remoting.pool import Pool

__all__ = ["LOCAL", "NameServers"]

log = logging.getLogger(__name__)

LOCAL: Final = "127.0.0.1:9876"
"""Where a name server is that was started without options."""

_INSTANCE: Final = re.compile(r"(MQ_INST_\w+_\w+)\.")

T = TypeVar("T")


class NameServers:
    """Asks one name server after the other until one answers.

    names = NameServers(pool, "127.0.0.1:9876;127.0.0.1:9877")
    await names.refresh()              # once before the first question; again every two minutes
    answer = await names.ask(Command(105, {"topic": "T"}), 3_000)
    """

    def __init__(
        self,
        pool: Pool,
        given: str | Sequence[str] | None = None,
        unit_name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        self._pool = pool
        self._url = ""
        addresses, source = configured_addresses(given, environment)
        if not addresses:
            self._url = address_server_url(environment, unit_name)
            if self._url:
                source = f"the address server {self._url}"
            else:
                addresses, source = [LOCAL], "nobody: this is where one runs without options"
        self._source = source
        found = _INSTANCE.match(addresses[0]) if addresses else None
        self._instance = "" if found is None else found[1]
        self._addresses: list[str] = []
        self._at = 0
        self._refreshing = asyncio.Lock()
        self._refreshed_s = 0.0
        self._take(addresses)

    @property
    def addresses(self) -> list[str]:
        """All of them, in the order in which they are asked."""
        return list(self._addresses)

    @property
    def current(self) -> str:
        """The one that is asked next."""
        return self._addresses[self._at] if self._addresses else ""

    @property
    def source(self) -> str:
        """Who has named the addresses, for those who look for a wrong one."""
        return self._source

    @property
    def instance(self) -> str:
        """The namespace that an address such as ``MQ_INST_1_2.host:port`` implies, as in Java."""
        return self._instance

    @property
    def is_by_http(self) -> bool:
        """Whether an address server names them, and so may name others later."""
        return bool(self._url)

    def _take(self, addresses: list[str]) -> None:
        """Know these instead; clients do not all begin with the same one."""
        if set(addresses) != set(self._addresses):
            current = self.current
            self._addresses = random.sample(addresses, len(addresses))
            self._at = self._addresses.index(current) if current in addresses else 0

    async def refresh(self) -> None:
        """Ask the address server, if there is one; what it said last counts if it fails.

        Those who want that at the same time share one question.
        """
        if not self._url:
            return
        wanted_s = monotonic_s()
        async with self._refreshing:
            if self._refreshed_s > wanted_s:
                return
            try:
                addresses = split_addresses(await fetch_line(self._url))
            except (OSError, ValueError) as error:
                log.warning("address server %s: %s", self._url, str(error) or "no answer in time")
            else:
                if addresses:
                    self._take(addresses)
                else:
                    log.warning("address server %s names no name server", self._url)
            self._refreshed_s = monotonic_s()

    async def ask(self, command: Command, timeout_ms: int) -> Command:
        """The answer of the first name server that gives one; NoNameServerError without any.

        The time is for each of them.
        """
        return await self.ask_for(command, timeout_ms, lambda address, answer: answer)

    async def ask_for(
        self, command: Command, timeout_ms: int, read: Callable[[str, Command], T]
    ) -> T:
        """What ``read`` makes of an answer, given with the address that it is from.

        The next name server is asked where ``read`` raises UnreadableError or RefusedError, too;
        that is what is raised if no other has a better answer. What else it raises ends this.
        """
        if not self._addresses:
            await self.refresh()
        failures: list[str] = []
        refusal: ClientError | None = None
        for address in self._addresses[self._at :] + self._addresses[: self._at]:
            try:
                return read(address, await self._pool.request(address, command, timeout_ms))
            except RemotingError as error:
                failures.append(str(error))
            except (RefusedError, UnreadableError) as error:
                refusal = error
            if address == self.current:  # somebody else may have gone on already
                self._at = (self._at + 1) % len(self._addresses)
        if refusal is not None:
            raise refusal
        tried = "; ".join(failures) or "there are none"
        raise NoNameServerError(
            f"no name server answers ({tried}); their addresses come from {self._source}:"
            " start one (roketto up), or set name_servers or $ROCKETMQ_NAMESRV_ADDR"
        )
