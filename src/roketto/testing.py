"""A broker for tests: with its name server, in a thread of this process, gone without a trace.

with roketto.testing.Broker() as broker:
    broker.create_topic("Orders", queues=4)
    shop = Shop(name_servers=broker.name_server)
    shop.sell("tea")
    assert [message.body for message in broker.messages("Orders")] == [b"tea"]

It takes free ports of 127.0.0.1, keeps its files in a directory of its own, and has an event loop
of its own: tests may block or be coroutines. ``roketto.pytest_plugin`` has it as fixtures.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from roketto.clock import monotonic_s
from roketto.up import Both, broker_config, names_config

if TYPE_CHECKING:
    from roketto.client.client import Client
    from roketto.client.received import ReceivedMessage

__all__ = ["Broker", "ConfigValue"]

T = TypeVar("T")
ConfigValue = str | int | bool

_WAIT_S: Final = 30.0
"""How long a start, a stop or a request may take before a test fails for it."""
_ROUTE_LOOKS_S: Final = 0.002
_READER: Final = "TOOLS_CONSUMER"
"""A group that every broker has, also one that makes none when it is asked."""
_DEFAULTS: Final[Mapping[str, ConfigValue]] = {
    "mappedFileSizeCommitLog": 16 * 1024 * 1024,
    "busyPollMicros": 0,  # a loop that waits awake takes time from the tests in the same process
}


class Broker:
    """A name server and a broker, from ``start`` to ``close``, or as a context manager.

    ``config`` has keys of a broker's file: ``Broker({"autoCreateTopicEnable": False})``. Between
    ``stop`` and ``start`` it is away, and is back at the same addresses with all its messages.
    """

    def __init__(self, config: Mapping[str, ConfigValue] | None = None) -> None:
        self._config = {key: _text(value) for key, value in {**_DEFAULTS, **(config or {})}.items()}
        self._folder: TemporaryDirectory[str] | None = None
        self._ports = (0, 0)
        self._running: _Running | None = None

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, or start it again; ConfigError if the configuration is none."""
        running = self._begin()
        try:
            running.ready.result(_WAIT_S)
        except BaseException:
            self._give_up(running)
            raise
        self._ports = running.ports

    def stop(self) -> None:
        """Let it be away; its messages are kept for the next start."""
        running, self._running = self._running, None
        if running is not None:
            running.end()
            running.ended.result(_WAIT_S)
            running.thread.join(_WAIT_S)

    def close(self) -> None:
        """Stop it, and remove everything it has kept."""
        try:
            self.stop()
        finally:
            self._remove()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        running = self._begin()
        try:
            async with asyncio.timeout(_WAIT_S):
                await asyncio.wrap_future(running.ready)
        except BaseException:
            self._give_up(running)
            raise
        self._ports = running.ports
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        running = self._running
        try:
            if running is not None:
                running.end()
                async with asyncio.timeout(_WAIT_S):
                    await asyncio.wrap_future(running.ended)
        finally:
            self.close()

    def _begin(self) -> "_Running":
        if self._running is not None:
            raise RuntimeError("this broker runs already; make another one to have two")
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="roketto-")
        self._running = _Running(Path(self._folder.name), self._config, self._ports)
        self._running.thread.start()
        return self._running

    def _give_up(self, running: "_Running") -> None:
        self._running = None
        running.end()
        running.thread.join(_WAIT_S)
        self._remove()

    def _remove(self) -> None:
        folder, self._folder = self._folder, None
        self._ports = (0, 0)
        if folder is not None:
            folder.cleanup()

    # --- use --------------------------------------------------------------------------------------

    @property
    def name_server(self) -> str:
        """The address of the name server: all that a client has to know."""
        return f"127.0.0.1:{self._port(0)}"

    @property
    def address(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self._port(1)}"

    def _port(self, number: int) -> int:
        if not self._ports[number]:
            raise RuntimeError("this broker was not started: use it with `with` or `async with`")
        return self._ports[number]

    def create_topic(
        self, name: str, queues: int = 4, *, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic, or change it; clients find it when this returns.

        ``attributes`` are those of the topic, such as {"dedup.window.seconds": "600"}.
        """
        self._run(lambda running: running.create_topic(name, queues, attributes or {}))

    def messages(self, topic: str) -> list["ReceivedMessage"]:
        """All messages of a topic, in the order in which they were stored; nobody consumes them."""
        return self._run(lambda running: running.messages(topic))

    def _run(self, work: "Callable[[_Running], Coroutine[Any, Any, T]]") -> T:
        running = self._running
        if running is None:
            raise RuntimeError("this broker does not run: start it first")
        return asyncio.run_coroutine_threadsafe(work(running), running.loop).result(_WAIT_S)


class _Running:
    """One run of both servers; everything but ``end`` happens in its own thread."""

    loop: asyncio.AbstractEventLoop
    ports: tuple[int, int]

    def __init__(self, folder: Path, config: Mapping[str, str], ports: tuple[int, int]) -> None:
        self.ready = _future()
        """Done when clients can come; or it says why they cannot."""
        self.ended = _future()
        # A test that never stops it must not keep the process from ending.
        self.thread = threading.Thread(target=self._main, name="roketto-testing", daemon=True)
        self._folder = folder
        self._config = config
        self._wanted_ports = ports
        self._is_unwanted = False
        self._stopping: asyncio.Event | None = None
        self._client: Client | None = None

    def end(self) -> None:
        """Ask it to stop, from any thread, also while it starts."""
        self._is_unwanted = True
        if self._stopping is not None and not self.ended.done():
            with suppress(RuntimeError):  # its loop has ended by itself
                self.loop.call_soon_threadsafe(self._stopping.set)

    def _main(self) -> None:
        from roketto.remoting.loop import run

        try:
            run(self._serve())
        except BaseException as error:  # noqa: BLE001 (it is raised in the thread that waits)
            _first_open(self.ready, self.ended).set_exception(error)
        else:
            self.ended.set_result(None)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        names_port, broker_port = self._wanted_ports
        config = broker_config(self._folder, broker_port)
        config.override(self._config)
        both = Both(names_config(self._folder, names_port), config)
        await both.start()
        self.ports = _port_of(both.name_server), _port_of(both.address)
        self._stopping = asyncio.Event()
        if not self._is_unwanted:
            self.ready.set_result(None)
            await self._stopping.wait()
        if self._client is not None:
            await self._client.stop()
        await both.stop()

    async def _connected(self) -> "Client":
        """A client of its own, made when it is first needed: importing it takes a while."""
        from roketto.client.client import Client
        from roketto.client.settings import ClientSettings

        if self._client is None:
            names = f"127.0.0.1:{self.ports[0]}"
            self._client = Client(ClientSettings(name_servers=names, client_ip="127.0.0.1"))
            await self._client.start()
        return self._client

    async def create_topic(self, name: str, queues: int, attributes: Mapping[str, str]) -> None:
        from roketto.client.calls import expect_success
        from roketto.protocol.codes import RequestCode
        from roketto.protocol.headers.topics import CreateTopicRequest

        client = await self._connected()
        address = f"127.0.0.1:{self.ports[1]}"
        request = CreateTopicRequest(
            topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
            perm=6, topic_filter_type="SINGLE_TAG",
            attributes=",".join(f"+{key}={value}" for key, value in attributes.items()) or None,
        )  # fmt: skip
        answer = await client.calls.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, request)
        expect_success(address, answer)
        deadline_s = monotonic_s() + _WAIT_S
        while not await self._has_queues(client, name, queues):  # the broker tells it in its time
            if monotonic_s() > deadline_s:
                raise TimeoutError(f"the name server knows nothing of {name} after {_WAIT_S:g} s")
            await asyncio.sleep(_ROUTE_LOOKS_S)

    async def _has_queues(self, client: "Client", topic: str, queues: int) -> bool:
        from roketto.client.errors import TopicNotFoundError

        try:
            return len((await client.routes.refresh(topic)).publish_queues) == queues
        except TopicNotFoundError:
            return False

    async def messages(self, topic: str) -> list["ReceivedMessage"]:
        from roketto.client.pulling import PullRequest, PullStatus, pull
        from roketto.client.subscription import make_subscription

        client = await self._connected()
        wanted = make_subscription(topic)
        found: list[ReceivedMessage] = []
        for queue in (await client.routes.refresh(topic)).subscribe_queues:
            offset, is_all = 0, False
            while not is_all:
                pulled = await pull(
                    client, PullRequest(queue, _READER, wanted, offset, sends_expression=True)
                )
                found += pulled.messages
                offset, is_all = pulled.next_offset, pulled.status is PullStatus.NO_NEW
        return sorted(found, key=lambda message: message.log_offset)


def _text(value: ConfigValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def _future() -> "Future[None]":
    """One that a waiter who gives up cannot cancel."""
    made: Future[None] = Future()
    made.set_running_or_notify_cancel()
    return made


def _first_open(*futures: "Future[None]") -> "Future[None]":
    return next(future for future in futures if not future.done())
