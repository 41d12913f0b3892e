"""Listen, cap, accept, hand commands to a handler, write answers.

TLS and plain connections share the port, as in Java: the first byte of a TLS connection is 0x16,
which no frame begins with (it would be 369 MB long). It is peeked at, not read, so that either
transport starts with an untouched stream.
"""

import asyncio
import logging
import resource
import socket
from collections import Counter

from roketto.clock import monotonic_s
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.versions import V5_3_1
from roketto.remoting.connection import Connection, Handler, Reply
from roketto.remoting.lane import Lane
from roketto.remoting.load import Load
from roketto.remoting.memo import Memo
from roketto.remoting.settings import ServerSettings
from roketto.remoting.vigil import Vigil, make_vigil

log = logging.getLogger(__name__)

_TLS_HANDSHAKE = 0x16
_SWEEP_S = 1.0
_DESCRIPTORS_RESERVED = 64
"""Descriptors kept free for files, name-server connections and the interpreter itself."""
_FLUSH_PATIENCE_S = 1.0
"""How long a stopping server waits for peers to read what is buffered for them."""
_DRAIN_PAUSE_S = 0.005
_ACCEPT_PAUSE_S = 1.0
_LOG_REFUSALS_EVERY_S = 10.0


class Server:
    """Accept connections and serve them until stopped.

    server = Server(handler, ServerSettings(port=9876))
    await server.start()      # raises OSError when the port is taken
    ...
    await server.stop()       # answers under way are finished, then everything is closed

    A server that needs time before it can serve calls ``bind`` first, and may set ``handler`` and
    ``lane`` until it starts.
    """

    def __init__(
        self, handler: Handler, settings: ServerSettings, memo: Memo | None = None
    ) -> None:
        self.handler = handler
        self.lane: Lane | None = None
        self._memo = memo
        self._settings = settings
        self._load = Load(settings.requests_in_flight_max)
        self._connections_max = min(settings.connections_max, _descriptors_available())
        self._connections: set[Connection] = set()
        self._admissions: set[asyncio.Task[None]] = set()
        self._per_address: Counter[str] = Counter()
        self._held = 0
        self._refused = 0
        self._refusals_logged_s = float("-inf")
        self._listening: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._all_closed: asyncio.Event | None = None
        self._vigil: Vigil | None = None

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""
        assert self._listening is not None, "the server was not started"
        return int(self._listening.getsockname()[1])

    @property
    def connections(self) -> frozenset[Connection]:
        return frozenset(self._connections)

    @property
    def load(self) -> Load:
        """What its connections have under way, and what they have read and written."""
        return self._load

    @property
    def refused(self) -> int:
        """How many connections the caps have turned away."""
        return self._refused

    def bind(self) -> None:
        """Take the port without accepting yet; OSError if it is taken."""
        if self._listening is None:
            self._listening = _listen(self._settings)

    async def start(self) -> None:
        self.bind()
        loop = asyncio.get_running_loop()
        self._vigil = make_vigil(loop, self._settings.spin_s)
        self._tasks = [loop.create_task(self._accept_all()), loop.create_task(self._sweep_all())]

    async def stop(self) -> None:
        """Stop accepting, let answers under way go out, close every connection."""
        for task in (*self._tasks, *self._admissions):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._admissions, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
        for connection in self._connections:
            connection.handler = _refuse_while_stopping(connection.handler)
            connection.lane = None
        await self._drain()
        for connection in tuple(self._connections):
            connection.close("the server stops")
        await self._wait_closed()

    async def _drain(self) -> None:
        """Wait for the handlers at work and for held requests, within the grace time."""
        deadline_s = monotonic_s() + self._settings.stop_grace_s
        while any(peer.is_serving for peer in self._connections):
            left_s = deadline_s - monotonic_s()
            if left_s <= 0:
                return
            waiting = {task for peer in self._connections for task in peer.tasks}
            if waiting:
                await asyncio.wait(waiting, timeout=left_s)
            else:  # who holds requests releases them in turns of the loop
                await asyncio.sleep(_DRAIN_PAUSE_S)

    async def _wait_closed(self) -> None:
        for patience_s in (_FLUSH_PATIENCE_S, None):
            if not self._connections:
                return
            self._all_closed = asyncio.Event()
            try:
                await asyncio.wait_for(self._all_closed.wait(), patience_s)
            except TimeoutError:
                for connection in tuple(self._connections):
                    connection.abort("the server stops")

    # --- accepting --------------------------------------------------------------------------------

    async def _accept_all(self) -> None:
        assert self._listening is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError as error:  # no descriptors left, or the peer is already gone
                log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            host = address[0]
            if not self._has_room(host):
                accepted.close()
                continue
            self._hold(host)
            task = loop.create_task(self._admit(accepted, host))
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)

    def _has_room(self, host: str) -> bool:
        limits = self._settings
        if self._held >= self._connections_max:
            bound = f"{self._connections_max} connections are open, the bound for all addresses"
        elif self._per_address[host] >= limits.connections_per_address_max:
            bound = f"{limits.connections_per_address_max} are open from there, the bound for one"
        else:
            return True
        self._refused += 1
        now_s = monotonic_s()
        if now_s - self._refusals_logged_s > _LOG_REFUSALS_EVERY_S:
            self._refusals_logged_s = now_s
            log.warning("refused a connection from %s (%d so far): %s", host, self._refused, bound)
        return False

    def _hold(self, host: str) -> None:
        self._held += 1
        self._per_address[host] += 1

    def _release(self, host: str) -> None:
        self._held -= 1
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

    async def _admit(self, accepted: socket.socket, host: str) -> None:
        """Turn an accepted socket into a connection, with TLS if that is what it speaks."""
        settings = self._settings
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            tls = settings.tls
            if tls is not None:
                async with asyncio.timeout(settings.connection.idle_s):
                    first = await _peek(accepted)
                if first != _TLS_HANDSHAKE:
                    if settings.tls_required:
                        raise ConnectionRefusedError("it does not speak TLS, which is required")
                    tls = None
            connection = Connection(
                self.handler, settings.connection, self._load, self._memo, self._vigil, self.lane,
                None if tls else accepted,
            )  # fmt: skip
            await asyncio.get_running_loop().connect_accepted_socket(
                connection.as_protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=settings.tls_handshake_s if tls else None,
            )
        except (OSError, TimeoutError) as error:
            log.warning("%s: connection not taken: %s", host, error or type(error).__name__)
            accepted.close()
            self._release(host)
        except asyncio.CancelledError:
            accepted.close()
            raise
        else:
            self._adopt(connection, host)

    def _adopt(self, connection: Connection, host: str) -> None:
        def ended(_: Connection) -> None:
            self._connections.discard(connection)
            self._release(host)
            if not self._connections and self._all_closed is not None:
                self._all_closed.set()

        if connection.closed:
            self._release(host)
        else:
            self._connections.add(connection)
            connection.add_close_callback(ended)

    async def _sweep_all(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = monotonic_s()
            for connection in tuple(self._connections):
                connection.sweep(now_s)


def _refuse_while_stopping(handler: Handler) -> Handler:
    """Tell clients that understand it to go elsewhere; serve the others to the end."""

    def handle(connection: Connection, request: Command) -> Reply:
        if request.version > V5_3_1:
            return request.answer(ResponseCode.GO_AWAY, remark="please go away")
        return handler(connection, request)

    return handle


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind((settings.host, settings.port))
        listening.listen(settings.backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _descriptors_available() -> int:
    """Raise the soft limit on open files to the hard one; return what connections may use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError) as error:  # macOS refuses an unlimited soft limit
            log.debug("the limit on open files stays at %d: %s", soft, error)
    return max(soft - _DESCRIPTORS_RESERVED, 1) if soft != resource.RLIM_INFINITY else 1 << 30


async def _peek(accepted: socket.socket) -> int | None:
    """Return the first byte the peer sends without taking it, None if it closes before."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(accepted)
    first = accepted.recv(1, socket.MSG_PEEK)
    return first[0] if first else None
