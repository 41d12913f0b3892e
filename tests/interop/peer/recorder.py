"""A TCP proxy that keeps every frame it passes on.

Clients find brokers through the name server, which therefore must know the proxies as the
brokers: a broker's address is replaced in what it tells the name server, though not in what is
kept. The ports of proxies have as many digits as those of brokers, so that no length changes.
"""

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from .frames import FrameView, view_frame
from .ports import PortLease, lease_ports

_LENGTH_BYTES: Final = 4
_STOP_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One frame as it was on the wire, and the code of the request that it is or answers."""

    link: str
    view: FrameView
    request_code: int
    frame: bytes


@dataclass(slots=True)
class _Connection:
    """Requests on their way, by the side that sent them (False: client, True: server)."""

    link: str
    pending: dict[tuple[bool, int], int] = field(default_factory=dict)


class Recorder:
    """Runs proxies in a thread of its own; `frames` grows while it is open."""

    def __init__(self) -> None:
        self.frames: list[Recorded] = []
        self._rewrites: dict[bytes, bytes] = {}
        self._leases: list[PortLease] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorder")
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for lease in self._leases:
            lease.release()

    def name_server(self, port: int) -> str:
        """Listen for the name server at `port`; the answer is the address to use instead."""
        return self._proxy("namesrv", port, (0,))

    def broker(self, port: int) -> str:
        """The same for a broker and its fast port; name servers will know it by this address."""
        address = self._proxy("broker", port, (-2, 0))
        self._rewrites[f"127.0.0.1:{port}".encode()] = address.encode()
        return address

    def _proxy(self, link: str, port: int, offsets: tuple[int, ...]) -> str:
        lease = lease_ports(offsets)
        self._leases.append(lease)
        for offset in offsets:
            self._run(self._listen(link, lease.first + offset, port + offset))
        return f"127.0.0.1:{lease.first}"

    async def _listen(self, link: str, port: int, upstream: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(link, upstream, reader, writer)
            finally:
                self._tasks.discard(task)

        self._servers.append(await asyncio.start_server(serve, "127.0.0.1", port))

    async def _serve(
        self,
        link: str,
        upstream: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", upstream)
        except OSError:
            writer.close()  # the server has stopped: its clients are to see that
            return
        connection = _Connection(link)
        try:
            await asyncio.gather(
                self._pump(connection, reader, server_writer, from_server=False),
                self._pump(connection, server_reader, writer, from_server=True),
            )
        except OSError:
            pass  # one side has gone; the other learns of it below
        finally:
            writer.close()
            server_writer.close()

    async def _pump(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        from_server: bool,
    ) -> None:
        while True:
            try:
                length = await reader.readexactly(_LENGTH_BYTES)
                frame = length + await reader.readexactly(int.from_bytes(length))
            except asyncio.IncompleteReadError as end:
                raise ConnectionResetError("end of input") from end
            self._keep(connection, frame, from_server=from_server)
            if connection.link == "namesrv" and not from_server:
                frame = self._rewritten(frame)
            writer.write(frame)
            await writer.drain()

    def _keep(self, connection: _Connection, frame: bytes, *, from_server: bool) -> None:
        view = view_frame(frame)
        if view.is_response:
            request_code = connection.pending.pop((not from_server, view.opaque))
        else:
            request_code = view.code
            connection.pending[from_server, view.opaque] = view.code
        self.frames.append(Recorded(connection.link, view, request_code, frame))

    def _rewritten(self, frame: bytes) -> bytes:
        for address, replacement in self._rewrites.items():
            frame = frame.replace(address, replacement)
        return frame

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_STOP_TIMEOUT_S)
