"""A gate before a cluster: looks at every request, and lets it pass to the servers behind."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.route import ClusterInfo, TopicRouteData
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection
from roketto.remoting.pool import Pool
from roketto.remoting.server import Server
from roketto.remoting.settings import ServerSettings

Look = Callable[[Command], None]
_OF_NAMES: Final = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
"""What the name server answers; all else is for the broker."""


class Gate:
    """Name server and broker in one, to its clients; routes name it as the only broker.

    What brokers ask of clients does not pass.
    """

    def __init__(self, names: str, broker: str, look: Look) -> None:
        self._names = names
        self._broker = broker
        self._look = look
        self._pool = Pool()
        self._server = Server(self._pass, ServerSettings())
        self.codes: set[int] = set()
        """Kinds of requests that have passed, and of those nobody answers as negative numbers."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Gate"]:
        await self._server.start()
        try:
            yield self
        finally:
            await self._server.stop()
            await self._pool.close()

    async def _pass(self, connection: Connection, request: Command) -> Command | None:
        self._look(request)
        passed = Command(request.code, dict(request.ext or {}), bytes(request.body))
        if request.is_one_way:
            self.codes.add(-request.code)
            await self._pool.send_one_way(self._broker, passed)
            return None
        self.codes.add(request.code)
        is_of_names = request.code in _OF_NAMES
        answer = await self._pool.request(
            self._names if is_of_names else self._broker, passed, 30_000
        )
        body = bytes(answer.body)
        if is_of_names and not answer.code:
            body = self._renamed(request.code, body)
        return request.answer(answer.code, answer.ext, body, answer.remark)

    def _renamed(self, code: int, body: bytes) -> bytes:
        """The same brokers, all of them here."""
        found: TopicRouteData | ClusterInfo
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            found = decode_body(ClusterInfo, body)
            brokers = list(found.broker_addr_table.values())
        else:
            found = decode_body(TopicRouteData, body)
            brokers = found.broker_datas
        for broker in brokers:
            broker.broker_addrs = dict.fromkeys(broker.broker_addrs, self.address)
        return encode_body(found)
