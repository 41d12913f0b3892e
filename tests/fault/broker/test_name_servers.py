"""Name servers that are killed, one by one, then all (F24): clients of a broker never notice.

They go on sending over the connections that they have; and a name server that comes back knows the
broker again, with topics that were made meanwhile.
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
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from servers import ServerProcess, name_server

COUNT: Final = 3
RECOVERY_S: Final = 30.0


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
    request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    async with connected(address) as connection, asyncio.timeout(patience_s):
        while True:
            answer = await ask(connection, request)
            if answer.code == 0:
                route = decode_body(TopicRouteData, answer.body)
                assert [data.broker_addrs for data in route.broker_datas] == [{0: broker}]
                return
            await asyncio.sleep(0.05)


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
        producers = Producers([Queue("T", 0)], seed=1, pause_s=0.005)
        queues = {Queue("T", 0)}
        async with producers.sending_to(broker):
            for turn in range(rounds):
                for number in range(COUNT):
                    names.kill(number)
                    queue = Queue(f"After{turn}{number}", 0)  # made while some are down, or all
                    queues.add(queue)
                    producers.queues = [Queue("T", 0), queue]
                    await producers.until_more(50, RECOVERY_S)
                for number in range(COUNT):
                    address = names.start(number)
                    for topic in ("T", *(f"After{turn}{made}" for made in range(COUNT))):
                        await until_known(address, topic, broker, patience_s)
        async with connected(broker) as connection:
            reads = [await found_in(connection, queue) for queue in sorted(queues)]
        assert (producers.lost, producers.refusals) == (0, {}), "a client has noticed"
        report = check(producers.evidence, reads, faults={"name server killed": names.kills})
        report.raise_if_bad()
        assert (report.fail, report.unknown) == (0, 0), str(report)
        site.stop()
    print(report)


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
