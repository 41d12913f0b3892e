"""Name servers that are killed, one by one, then all (F24): clients of a broker never notice.

Clients know the broker from the name servers only. Some go on sending over the connections that
they have; others come for a new topic after each kill, by the route that a name server has or, when
there is none left, by the one that was known before. A name server that comes back knows the broker
again, with topics that were made meanwhile.
"""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from checker import check
from fault.broker.planted import planted, register_once
from fault.broker.producers import Producers
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, ask, connected, found_in
from interop.peer.ports import lease_ports
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import TopicRouteData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.remoting.connection import Connection
from roketto.remoting.errors import ConnectError
from servers import ServerProcess, name_server

COUNT: Final = 3
RECOVERY_S: Final = 30.0
DEFAULT_TOPIC: Final = "TBW102"
"""Whose queues a new topic gets, and whose route a client takes for it."""


class Names:
    """Three name servers with ports of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        lease = lease_ports(range(COUNT))
        stack.callback(lease.release)
        self._folder = folder
        self._stack = stack
        self._ports = [lease.first + number for number in range(COUNT)]
        self._running: dict[int, ServerProcess] = {}
        self.kills = 0

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports]

    def start(self, number: int) -> str:
        port = self._ports[number]
        folder = self._folder / f"names-{number}"
        folder.mkdir(exist_ok=True)
        running = name_server(folder, {"listenPort": str(port)})
        self._running[number] = self._stack.enter_context(running)
        return f"127.0.0.1:{port}"

    def kill(self, number: int) -> None:
        popen = self._running.pop(number).popen
        popen.send_signal(signal.SIGKILL)
        assert popen.wait(10) == -signal.SIGKILL
        self.kills += 1


async def until_known(address: str, topic: str, broker: str, patience_s: float) -> None:
    """Wait until a name server says of a topic that this broker has it."""
    async with connected(address) as connection, asyncio.timeout(patience_s):
        while True:
            found = await route_of(connection, topic)
            if found is not None:
                assert found == broker
                return
            await asyncio.sleep(0.05)


class Routes:
    """What clients know of where to send: asked of whoever answers, and kept while nobody does."""

    def __init__(self, name_servers: Sequence[str]) -> None:
        self.answered: dict[str, int] = dict.fromkeys(name_servers, 0)
        """How often each name server had a route."""
        self.unanswered = 0
        self._known: dict[str, str] = {}

    async def broker_of(self, topic: str) -> str:
        """The broker of a topic; of a new one that of the default topic, as for Java's clients."""
        for name in (topic, DEFAULT_TOPIC):
            for address in self.answered:
                broker = await self._ask(address, name)
                if broker is not None:
                    self.answered[address] += 1
                    self._known[name] = broker
                    return broker
        self.unanswered += 1
        return self._known.get(topic) or self._known[DEFAULT_TOPIC]

    async def _ask(self, address: str, topic: str) -> str | None:
        try:
            async with connected(address) as connection:
                return await route_of(connection, topic)
        except ConnectError:
            return None


async def route_of(connection: Connection, topic: str) -> str | None:
    """The master of a topic, as a name server has it; None if it has none."""
    answer = await ask(connection, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
    if answer.code:
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST, answer.remark
        return None
    [data] = decode_body(TopicRouteData, answer.body).broker_datas
    return data.broker_addrs[0]


@contextmanager
def cluster(folder: Path, program: Sequence[str]) -> Iterator[tuple[Names, Site]]:
    with ExitStack() as stack:
        names = Names(folder, stack)
        for number in range(COUNT):
            names.start(number)
        site = Site(folder, LARGE, name_servers=names.addresses, program=program)
        yield names, stack.enter_context(site)


async def run_kills(
    folder: Path,
    rounds: int,
    program: Sequence[str] = ("roketto",),
    patience_s: float = RECOVERY_S,
) -> None:
    with cluster(folder, program) as (names, site):
        broker = site.start().address
        for address in names.addresses:
            await until_known(address, DEFAULT_TOPIC, broker, RECOVERY_S)
        routes = Routes(names.addresses)
        staying = Producers([Queue("T", 0)], seed=1, pause_s=0.005)
        coming = Producers([], seed=2, pause_s=0.005)
        async with staying.sending_to(await routes.broker_of("T")):
            for turn in range(rounds):
                topics = [f"After{turn}{number}" for number in range(COUNT)]
                for number, topic in enumerate(topics):
                    names.kill(number)
                    coming.queues = [Queue(topic, 0)]
                    async with coming.sending_to(await routes.broker_of(topic)):
                        await staying.until_more(50, RECOVERY_S)
                        await coming.until_more(20, RECOVERY_S)
                assert routes.unanswered == turn + 1, "one of them was not killed"
                for number in range(COUNT):
                    address = names.start(number)
                    for topic in ("T", *topics):
                        await until_known(address, topic, broker, patience_s)
        made = [
            Queue(f"After{turn}{number}", 0) for turn in range(rounds) for number in range(COUNT)
        ]
        reports = []
        async with connected(broker) as connection:
            for producers, queues in ((staying, [Queue("T", 0)]), (coming, made)):
                reads = [await found_in(connection, queue) for queue in queues]
                assert (producers.lost, producers.refusals) == (0, {}), "a client has noticed"
                killed = {"name server killed": names.kills}
                reports.append(check(producers.evidence, reads, faults=killed))
        site.stop()
    for report in reports:
        report.raise_if_bad()
        assert (report.fail, report.unknown) == (0, 0), str(report)
        print(report)
    # The first has the route of the beginning; when it is killed the next one is asked.
    assert all(routes.answered.values()), routes.answered
    print(f"routes by {routes.answered}, {routes.unanswered} times by nobody")


@pytest.mark.timeout(240)
async def test_clients_go_on_without_name_servers_which_know_the_broker_again(
    tmp_path: Path,
) -> None:
    """Three are killed one by one, and come back."""
    await run_kills(tmp_path, 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_many_more_kills_of_name_servers(tmp_path: Path) -> None:
    """The long tier: 51 kills."""
    await run_kills(tmp_path, 17)


async def test_a_broker_that_registers_only_once_is_noticed(tmp_path: Path) -> None:
    """Planted: a name server that came back is not told."""
    with pytest.raises(TimeoutError):
        await run_kills(tmp_path, 1, planted(register_once), patience_s=3.0)
