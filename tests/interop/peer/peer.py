"""One version of the real Apache RocketMQ: its servers, its mqadmin and our Java programs."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .admin import ADMIN_CLASS, AdminOutput, AdminShell
from .clients import ClientShell
from .errors import PeerFailedError
from .ports import PortLease
from .process import QUICK, JavaProcess, Jvm, prepare_home
from .programs import Runtime, load_runtime
from .servers import Broker, NameServer, Server, start_broker, start_name_server

_NAME_SERVER_HEAP_MB: Final = 96
_BROKER_HEAP_MB: Final = 256
_PROGRAM_HEAP_MB: Final = 128
_CLIENTS_HEAP_MB: Final = 256

_ADMIN_TIMEOUT_S: Final = 60.0
_PROGRAM_TIMEOUT_S: Final = 120.0
_CLOSE_GRACE_S: Final = 1.0

_QUICK_CLIENTS: Final = {
    "rocketmq.client.rebalance.waitInterval": "1000",
    "rocketmq.client.rebalance.minInterval": "200",
    "rocketmq.client.rebalance.lockInterval": "1000",
}
"""Twenty seconds each by default, but for the second, which is one."""


class Peer:
    """Starts processes of one RocketMQ version and stops every one of them on `close`.

        with Peer("5.5.0") as peer:
            name_server = peer.name_server()
            broker = peer.broker([name_server.address])
            print(peer.mqadmin("clusterList", name_server=name_server.address))

    Tests keep the default `flags`, which start quickly; benchmarks give PLAIN and larger heaps.
    `properties` are system properties of every JVM, such as rocketmq.serialize.type.
    """

    def __init__(
        self,
        version: str,
        *,
        flags: Sequence[str] = QUICK,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self._runtime = load_runtime(version)
        self._flags = flags
        self._properties = dict(properties or {})
        self._base = Path(tempfile.mkdtemp(prefix="roketto-peer-"))
        self._homes = 0
        self._servers: list[Server] = []
        self._programs: list[JavaProcess] = []
        self._clients: list[ClientShell] = []
        self._admin = AdminShell(self._runtime, self._new_home("mqadmin"), self._jvm())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def name_server(
        self,
        config: Mapping[str, str] | None = None,
        *,
        heap_mb: int = _NAME_SERVER_HEAP_MB,
    ) -> NameServer:
        """Start a name server; `config` adds to or replaces lines of its configuration."""
        home = self._new_home("namesrv")
        server = start_name_server(self._runtime, home, self._jvm(heap_mb), config or {})
        self._servers.append(server)
        return server

    def broker(
        self,
        name_servers: Sequence[str],
        config: Mapping[str, str] | None = None,
        *,
        heap_mb: int = _BROKER_HEAP_MB,
        lease: PortLease | None = None,
        wait_registered: bool = True,
    ) -> Broker:
        """Start a broker that registers with `name_servers` ("host:port"), Java's or not.

        It has registered with all of them on return, unless told not to wait for that. `lease`
        holds BROKER_PORTS for whoever has to know its port before it starts.

        Once it had a transaction and then none for three seconds, a thread of 5.5.0 asks again and
        again whether there is one: in tests, others come first.
        """
        home = self._new_home("broker")
        jvm = self._jvm(heap_mb)
        broker = start_broker(
            self._runtime,
            home,
            jvm,
            name_servers,
            config or {},
            lease=lease,
            wait_registered=wait_registered,
        )
        self._servers.append(broker)
        if self._flags is QUICK:
            broker.process.calm("TransactionalOpBatchService")
        return broker

    def mqadmin(
        self, *arguments: str, name_server: str, timeout_s: float = _ADMIN_TIMEOUT_S
    ) -> str:
        """Run an mqadmin command and give what it printed; a stack trace is a failure."""
        output = self.mqadmin_output(*arguments, name_server=name_server, timeout_s=timeout_s)
        if output.exit_code != 0 or "\tat " in output.stderr:
            raise PeerFailedError(f"mqadmin {' '.join(arguments)}: {output.stdout}{output.stderr}")
        return output.stdout

    def mqadmin_output(
        self, *arguments: str, name_server: str, timeout_s: float = _ADMIN_TIMEOUT_S
    ) -> AdminOutput:
        """Run an mqadmin command that may fail and give all that is known of it."""
        return self._admin.run([*arguments, "-n", name_server], timeout_s)

    def start_mqadmin(self, *arguments: str, name_server: str) -> JavaProcess:
        """Start an mqadmin command that goes on until it is killed; it logs its output."""
        return self._start(self._runtime, ADMIN_CLASS, [*arguments, "-n", name_server])

    def mqadmin_commands(self) -> list[str]:
        """The commands that this version has: in its help, each is behind three blanks."""
        shown = self._admin.run([], _ADMIN_TIMEOUT_S).stdout.splitlines()
        return [line.split()[0] for line in shown if line.startswith("   ")]

    def run(
        self,
        program: str,
        *arguments: str,
        properties: Mapping[str, str] | None = None,
        timeout_s: float = _PROGRAM_TIMEOUT_S,
    ) -> str:
        """Run a program of `tests/interop/java` to its end and give its standard output."""
        home = self._new_home(program)
        prepare_home(home)
        output = home / "output"
        jvm = Jvm(_PROGRAM_HEAP_MB, self._flags, {**self._properties, **(properties or {})})
        command = self._runtime.leashed(jvm, home, program, arguments)
        process = JavaProcess(program, command, home, output)
        try:
            exit_code = process.wait(timeout_s)
        finally:
            process.kill()
        text = output.read_text()
        if exit_code != 0:
            raise process.failed(f"ended with {exit_code} and printed {text!r}")
        return text

    def start(self, program: str, *arguments: str) -> JavaProcess:
        """Start a program of `tests/interop/java` that runs until stopped; it logs its output."""
        return self._start(self._runtime, program, arguments)

    def start_benchmark(self, program: str, *arguments: str) -> JavaProcess:
        """Start one of RocketMQ's own benchmark programs, such as Producer; 4.9 has none."""
        main_class = f"org.apache.rocketmq.example.benchmark.{program}"
        return self._start(self._runtime.with_examples(), main_class, arguments)

    def _start(self, runtime: Runtime, main_class: str, arguments: Sequence[str]) -> JavaProcess:
        home = self._new_home(main_class.rpartition(".")[2])
        prepare_home(home)
        command = runtime.leashed(self._jvm(), home, main_class, arguments)
        process = JavaProcess(main_class, command, home)
        self._programs.append(process)
        return process

    def clients(self, name_servers: Sequence[str]) -> ClientShell:
        """Give a JVM for clients of these name servers; it starts with its first command."""
        home = self._new_home("clients")
        jvm = Jvm(_CLIENTS_HEAP_MB, self._flags, {**_QUICK_CLIENTS, **self._properties})
        shell = ClientShell(self._runtime, home, jvm, ";".join(name_servers))
        self._clients.append(shell)
        return shell

    def close(self) -> None:
        """Stop everything, all at once rather than one after another, and remove the files.

        Nobody will read these stores again: what does not end soon is killed.
        """
        self._admin.close()
        for shell in self._clients:
            shell.close()
        processes = [*self._programs, *(server.process for server in self._servers)]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + _CLOSE_GRACE_S
        for process in self._programs:
            process.stop(max(0.0, deadline - time.monotonic()))
        for server in self._servers:
            server.stop(max(0.0, deadline - time.monotonic()))
        shutil.rmtree(self._base, ignore_errors=True)

    def _jvm(self, heap_mb: int = _PROGRAM_HEAP_MB) -> Jvm:
        return Jvm(heap_mb, self._flags, self._properties)

    def _new_home(self, name: str) -> Path:
        self._homes += 1
        return self._base / f"{self._homes:02d}-{name}"
