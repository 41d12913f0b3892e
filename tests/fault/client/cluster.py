"""A cluster that a test can hurt: name servers and brokers that are killed, stopped, started again.

Brokers are those of fault/broker/site.py. They are started beside the loop, so that clients feel
that there is none meanwhile.
"""

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from checker import Found, QueueRead
from fault.appender import value_of
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, ask, connected, read_queue
from interop.peer.ports import lease_ports
from patience import LateError
from roketto.client.message import MessageQueue
from roketto.client.settings import ClientSettings
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import GetMaxOffsetRequest, GetMaxOffsetResponse
from roketto.protocol.headers.topics import CreateTopicRequest
from servers import ServerProcess, name_server

QUEUES: Final = 4
"""Of each topic, on each broker."""
PATIENCE_S: Final = 60.0
"""Whatever is waited for comes long before, also on a machine that does much else."""
OFFSETS_S: Final = 0.2
"""How often consumers of these tests tell how far they are, and brokers save it."""
CONFIG: Final = {**LARGE, "flushConsumerOffsetInterval": str(int(OFFSETS_S * 1000))}

_numbers = itertools.count()


def fresh(kind: str) -> str:
    """A name for a topic or group that no other test has."""
    return f"{kind}{next(_numbers)}"


class Names:
    """Name servers with ports of their own."""

    def __init__(self, folder: Path, count: int, stack: ExitStack) -> None:
        lease = lease_ports(range(count))
        stack.callback(lease.release)
        self._folder = folder
        self._stack = stack
        self._ports = [lease.first + number for number in range(count)]
        self._running: dict[int, ServerProcess] = {}
        self.kills = 0

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports]

    @property
    def missing(self) -> list[int]:
        return [number for number in range(len(self._ports)) if number not in self._running]

    def start(self, number: int) -> None:
        folder = self._folder / f"names-{number}"
        folder.mkdir(exist_ok=True)
        running = name_server(folder, {"listenPort": str(self._ports[number])})
        self._running[number] = self._stack.enter_context(running)

    def kill(self, number: int) -> None:
        """kill -9; AssertionError if it was not that which ended the process."""
        popen = self._running.pop(number).popen
        popen.send_signal(signal.SIGKILL)
        ended = popen.wait(10)
        assert ended == -signal.SIGKILL, f"it was not the kill that ended it: {ended}"
        self.kills += 1


class Cluster:
    """Servers of one test, or of several one after the other.

    with Cluster(folder, brokers=2) as cluster:
        await cluster.ready()
        await cluster.topic("T")
        cluster.sites["broker-a"].kill()
        await cluster.start("broker-a")
    """

    def __init__(
        self,
        folder: Path,
        *,
        names: int = 1,
        brokers: int = 1,
        config: Mapping[str, str] | None = None,
        route_interval_s: float = 30.0,
    ) -> None:
        self._route_interval_s = route_interval_s
        self._stack = ExitStack()
        self.names = Names(folder, names, self._stack)
        self.sites: dict[str, Site] = {}
        self.servers: dict[str, ServerProcess] = {}
        for number in range(brokers):
            name = f"broker-{'abc'[number]}"
            own = folder / name
            own.mkdir()
            settings = {**CONFIG, **(config or {}), "brokerName": name}
            site = Site(own, settings, name_servers=self.names.addresses)
            self.sites[name] = self._stack.enter_context(site)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # --- servers ----------------------------------------------------------------------------------

    @property
    def site(self) -> Site:
        """The broker, where there is one."""
        [site] = self.sites.values()
        return site

    @property
    def kills(self) -> int:
        return sum(site.kills for site in self.sites.values())

    async def ready(self) -> None:
        """Start whatever does not run: at first everything, later what an earlier test has left."""
        for number in self.names.missing:
            await asyncio.to_thread(self.names.start, number)
        await asyncio.gather(*(self.start(name) for name in self.sites if name not in self.servers))

    async def start(self, name: str) -> None:
        """Start a broker, and wait until it serves."""
        self.servers[name] = await asyncio.to_thread(self.sites[name].start)

    def kill(self, name: str) -> None:
        """kill -9 of a broker."""
        del self.servers[name]
        self.sites[name].kill()

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """SIGSTOP for a broker, and SIGCONT at the end; it was stopped, or AssertionError."""
        popen = self.servers[name].popen
        popen.send_signal(signal.SIGSTOP)
        try:
            yield
            assert _state(popen.pid) == "T", "it was not stopped"
        finally:
            popen.send_signal(signal.SIGCONT)

    # --- clients ----------------------------------------------------------------------------------

    def settings(self, **others: Any) -> ClientSettings:
        """Of a client; it tells brokers often how far it is."""
        values: dict[str, Any] = {
            "name_servers": self.names.addresses,
            "client_ip": "127.0.0.1",
            "route_interval_s": self._route_interval_s,
            "offsets_interval_s": OFFSETS_S,
            **others,
        }
        return ClientSettings(**values)

    async def topic(self, topic: str | None = None) -> str:
        """Make a topic with QUEUES queues on each broker, of which all name servers know."""
        topic = topic or fresh("Topic")
        header = CreateTopicRequest(
            topic=topic, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES,
            perm=6, topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        for site in self.sites.values():
            async with connected(site.address) as connection:
                request = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, encode_header(header))
                answer = await ask(connection, request)
                assert answer.code == 0, answer.remark
        await until("name servers know the topic", lambda: self._all_know(topic))
        return topic

    async def _all_know(self, topic: str) -> bool:
        return all([await self._knows(address, topic) for address in self.names.addresses])

    async def _knows(self, name_server: str, topic: str) -> bool:
        async with connected(name_server) as connection:
            request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            answer = await ask(connection, request)
        assert answer.code in (0, ResponseCode.TOPIC_NOT_EXIST), answer.remark
        return answer.code == 0 and all(name.encode() in bytes(answer.body) for name in self.sites)

    async def read(self, topic: str) -> list[QueueRead]:
        """All queues of a topic from the start, for the checker."""
        reads: list[QueueRead] = []
        for name, site in self.sites.items():
            async with connected(site.address) as connection:
                for number in range(QUEUES):
                    records = await read_queue(connection, Queue(topic, number))
                    found = [
                        Found(one.queue_offset, value_of(bytes(one.body)), one.offset_id)
                        for one in records
                    ]
                    queue = name_of(MessageQueue(name, number, topic))
                    reads.append(QueueRead("cluster", queue, found))
        return reads

    async def count(self, topic: str) -> int:
        """How many messages all queues of a topic have had."""
        total = 0
        for name, site in self.sites.items():
            async with connected(site.address) as connection:
                for queue in queues_of(topic, [name]):
                    header = GetMaxOffsetRequest(topic=topic, queue_id=queue.queue_id)
                    request = Command(RequestCode.GET_MAX_OFFSET, encode_header(header))
                    answer = await ask(connection, request)
                    total += decode_header(GetMaxOffsetResponse, answer.ext).queue_offset
        return total


def queues_of(topic: str, brokers: Sequence[str] = ("broker-a",)) -> list[MessageQueue]:
    return [MessageQueue(name, number, topic) for name in brokers for number in range(QUEUES)]


def name_of(queue: MessageQueue) -> str:
    """A queue as evidence and reads call it."""
    return f"{queue.broker_name}/{queue.topic}/{queue.queue_id}"


def _state(pid: int) -> str:
    """The letter by which the kernel says what a process does."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def until(
    what: str, is_so: Callable[[], bool | Awaitable[bool]], wait_s: float | None = None
) -> None:
    """Wait until something is so; AssertionError if it does not become so."""
    wait_s = PATIENCE_S if wait_s is None else wait_s
    try:
        async with asyncio.timeout(wait_s):
            while True:
                found = is_so()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise LateError(f"not within {wait_s:g} s: {what}") from None
