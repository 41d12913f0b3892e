"""One connection per address, made when it is needed, made again after it broke.

Callers that need the same address at the same time share one attempt. After a failed attempt the
address is left alone for a while that doubles with each failure; a caller in that time gets the
failure at once, so that it can turn to another server instead of waiting.

A connection on which nothing at all came for the whole time of a request is given up: something
between the two ends may have forgotten it, and a new one may work.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.client import CONNECT_TIMEOUT_MS, connect
from roketto.remoting.connection import Connection, Handler, refuse_requests
from roketto.remoting.errors import ConnectError, RequestTimeoutError
from roketto.remoting.settings import ConnectionSettings

_BACKOFF_FIRST_S = 0.1
_BACKOFF_MAX_S = 5.0
_BACKOFF_KEPT_S = 60.0
"""An address that nobody has asked for since is forgotten."""
_SILENCE_MS = 3_000
"""A request that had less time says nothing about its connection. Java closes after any timeout of
a synchronous request, by default after this one."""
_SWEEP_S = 1.0


class _Backoff:
    """How long to leave an address alone, and what the last failure was."""

    __slots__ = ("delay_s", "reason", "until_s")

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.until_s = 0.0
        self.reason = ""

    def fail(self, reason: str, delay_s_max: float) -> None:
        self.delay_s = min(max(self.delay_s * 2, _BACKOFF_FIRST_S), delay_s_max)
        self.until_s = monotonic_s() + self.delay_s
        self.reason = reason


class Pool:
    """The client side of the transport.

    pool = Pool()
    answer = await pool.request("127.0.0.1:9876", Command(105, {"topic": "T"}), 3_000)
    await pool.close()
    """

    def __init__(
        self,
        *,
        handler: Handler = refuse_requests,
        settings: ConnectionSettings | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        tls: ssl.SSLContext | None = None,
        backoff_max_s: float = _BACKOFF_MAX_S,
    ) -> None:
        self.on_connect: Callable[[str], None] | None = None
        """Called with the address whenever a connection was made, before it is used."""
        self.on_disconnect: Callable[[str], None] | None = None
        """Called with the address whenever one has ended, whoever has ended it."""
        self._handler = handler
        self._settings = settings or ConnectionSettings()
        self._connect_timeout_ms = connect_timeout_ms
        self._tls = tls
        self._backoff_max_s = backoff_max_s
        self._connections: dict[str, Connection] = {}
        self._attempts: dict[str, asyncio.Task[Connection]] = {}
        self._backoffs: dict[str, _Backoff] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    async def request(self, address: str, command: Command, timeout_ms: int) -> Command:
        """Return the answer of the server at ``address``; connecting counts against the time.

        A server that is about to stop answers GO_AWAY: the request is sent once more, over a new
        connection.
        """
        deadline_s = monotonic_s() + timeout_ms / 1000
        connection = await self.connection(address, timeout_ms)
        left_ms = _left_ms(deadline_s, address, timeout_ms)
        heard_bytes = connection.bytes_in
        try:
            answer = await connection.request(command, left_ms)
        except RequestTimeoutError:
            if timeout_ms >= _SILENCE_MS and connection.bytes_in == heard_bytes:
                connection.abort(f"nothing came for {timeout_ms} ms")
            raise
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        connection.close("the server asked to go away")
        self._forget(address, connection)
        connection = await self.connection(address, _left_ms(deadline_s, address, timeout_ms))
        return await connection.request(command, _left_ms(deadline_s, address, timeout_ms))

    async def send_one_way(self, address: str, command: Command) -> bool:
        """Send a request that nobody answers; False if it could not be handed to the network."""
        connection = await self.connection(address, self._connect_timeout_ms)
        return connection.send_one_way(command)

    async def connection(self, address: str, timeout_ms: int) -> Connection:
        """Return the open connection to ``address``, making it if there is none."""
        connection = self._connections.get(address)
        if connection is not None and not connection.closed:
            return connection
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = self._start_attempt(address)
        try:
            return await _bounded(asyncio.shield(attempt), timeout_ms)
        except TimeoutError:
            raise ConnectError(address, f"no connection within {timeout_ms} ms") from None

    async def close(self) -> None:
        """Close every connection; the pool is of no further use."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._attempts.values()]
        if self._sweeper is not None:
            tasks.append(self._sweeper)
        await _end(tasks)
        connections = list(self._connections.values())
        for connection in connections:
            connection.close("the client closes")
        self._connections.clear()
        await _end([task for connection in connections for task in connection.tasks])
        await asyncio.sleep(0)

    def _start_attempt(self, address: str) -> asyncio.Task[Connection]:
        if self._closed:
            raise ConnectError(address, "the client was closed")
        backoff = self._backoffs.get(address)
        wait_s = backoff.until_s - monotonic_s() if backoff else 0.0
        if backoff and wait_s > 0:
            raise ConnectError(address, f"{backoff.reason}; next attempt in {wait_s:.1f} s")
        loop = asyncio.get_running_loop()
        attempt = loop.create_task(self._connect(address))
        self._attempts[address] = attempt
        attempt.add_done_callback(lambda done: self._attempt_done(address, done))
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._sweep_all())
        return attempt

    async def _connect(self, address: str) -> Connection:
        try:
            connection = await connect(
                address,
                handler=self._handler,
                settings=self._settings,
                timeout_ms=self._connect_timeout_ms,
                tls=self._tls,
            )
        except ConnectError as error:
            self._backoffs.setdefault(address, _Backoff()).fail(error.reason, self._backoff_max_s)
            raise
        self._backoffs.pop(address, None)
        connection.peer = address  # callers and routes know it by this, whatever it resolves to
        self._connections[address] = connection
        connection.add_close_callback(lambda closed: self._ended(address, closed))
        if self.on_connect is not None:
            self.on_connect(address)
        return connection

    def _attempt_done(self, address: str, attempt: asyncio.Task[Connection]) -> None:
        del self._attempts[address]
        if not attempt.cancelled():
            attempt.exception()  # marked as seen: its waiters may all have given up

    def _ended(self, address: str, connection: Connection) -> None:
        self._forget(address, connection)
        if self.on_disconnect is not None:
            self.on_disconnect(address)

    def _forget(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]

    async def _sweep_all(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = monotonic_s()
            for connection in tuple(self._connections.values()):
                connection.sweep(now_s)
            for address, backoff in tuple(self._backoffs.items()):
                if now_s - backoff.until_s > _BACKOFF_KEPT_S:
                    del self._backoffs[address]


def _left_ms(deadline_s: float, address: str, timeout_ms: int) -> int:
    left_ms = int((deadline_s - monotonic_s()) * 1000)
    if left_ms <= 0:
        raise RequestTimeoutError(address, f"no answer within {timeout_ms} ms")
    return left_ms


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them; not for the one that does this, if it is among them."""
    others = [task for task in tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _bounded(attempt: Awaitable[Connection], timeout_ms: int) -> Connection:
    async with asyncio.timeout(timeout_ms / 1000):
        return await attempt
