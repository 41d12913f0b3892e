"""A cluster whose brokers are Java's or ours: the same tests run against both."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from interop.peer import Peer
from interop.peer.ports import lease_ports
from interop.peer.process import JavaProcess
from interop.peer.readiness import wait_until_registered
from interop.peer.servers import BROKER_PORTS
from servers import ServerProcess, broker, name_server

KINDS: Final = ("java", "ours")

CLUSTER_NAME: Final = "Interop"

DELAY_LEVELS_S: Final = (1, 2, 1, 1, 1, 3)
"""Seconds of each level. A message that failed is tried again with level 3, then 4, then 5."""

_CONFIG: Final = {
    "brokerClusterName": CLUSTER_NAME,
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in DELAY_LEVELS_S),
    "enablePropertyFilter": "true",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
}

_PATIENT_JAVA: Final = {
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
    "timerWheelEnable": "true",
    "timerFlushIntervalMs": "600000",
}
"""On a busy machine Java's broker refuses messages that it could not store within 200 ms. Its wheel
is on, and synced hardly ever: each time it compares 40 MB byte by byte."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker is, and the name that it has in routes."""

    name: str
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def offset_id(self, log_offset: int) -> str:
        """The id that a broker on 127.0.0.1 gives to what it stored at this offset of its log."""
        return f"7F000001{self.port:08X}{log_offset:016X}"


class Cluster(ABC):
    """A name server and the brokers that were started with it; all end with `close`.

    A broker that was stopped and is started again has its port, its store and what it was
    configured with back.
    """

    def __init__(self, folder: Path) -> None:
        self.name_server = ""
        self.main: BrokerAddress
        """The broker that most tests use; clients may create topics on no other."""
        self._folder = folder
        names = ("broker-a", "broker-b", "broker-c")
        self._ports = {name: lease_ports(BROKER_PORTS) for name in names}
        self._configs: dict[str, Mapping[str, str]] = {}

    def __enter__(self) -> Self:
        try:
            self.name_server = self._start_name_server()
            self.main = self.start("broker-a", {"autoCreateTopicEnable": "true"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        for lease in self._ports.values():
            lease.release()

    def start(self, name: str, config: Mapping[str, str] | None = None) -> BrokerAddress:
        """Start a master, one of three, and wait until the name server knows it."""
        port = self._ports[name].first
        if config is not None:
            self._configs[name] = config
        store = self._folder / name
        store.mkdir(exist_ok=True)
        settings = {
            **_CONFIG,
            "brokerName": name,
            "listenPort": str(port),
            "storePathRootDir": str(store),
            "autoCreateTopicEnable": "false",
            **self._configs.get(name, {}),
        }
        self._start_broker(name, settings)
        address = self.address_of(name)
        wait_until_registered(address, [self.name_server])
        return BrokerAddress(name, address)

    def address_of(self, name: str) -> str:
        """Where a broker is, or would be if it ran."""
        return f"127.0.0.1:{self._ports[name].first}"

    def log_files(self, name: str) -> list[Path]:
        """The files of a broker's log; each has the log offset of its begin as its name."""
        return sorted((self._folder / name / "commitlog").iterdir())

    @abstractmethod
    def stop(self, name: str) -> None:
        """End a broker in order; harmless when it does not run."""

    @abstractmethod
    def kill(self, name: str) -> None:
        """End a broker at once; harmless when it does not run."""

    @abstractmethod
    def close(self) -> None:
        """End all that was started."""

    @abstractmethod
    def _start_name_server(self) -> str: ...

    @abstractmethod
    def _start_broker(self, name: str, settings: dict[str, str]) -> None: ...


class JavaCluster(Cluster):
    """Java's servers, of the version of the clients."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        super().__init__(folder)
        self._peer = peer
        self._processes: dict[str, JavaProcess] = {}

    def stop(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            process.stop()

    def kill(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            process.kill()

    def close(self) -> None:
        for name in list(self._processes):
            self.kill(name)  # nobody reads these stores again, and an orderly end takes seconds

    def _start_name_server(self) -> str:
        server = self._peer.name_server()
        self._processes["name server"] = server.process
        return server.address

    def _start_broker(self, name: str, settings: dict[str, str]) -> None:
        paths = {"storePathCommitLog": f"{settings['storePathRootDir']}/commitlog"}
        server = self._peer.broker(
            [self.name_server], {**_PATIENT_JAVA, **settings, **paths}, lease=self._ports[name]
        )
        self._processes[name] = server.process


class OurCluster(Cluster):
    """Our servers, started as users start them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._running: dict[str, ExitStack] = {}
        self.processes: dict[str, ServerProcess] = {}

    def stop(self, name: str) -> None:
        if running := self._running.pop(name, None):
            running.close()

    def kill(self, name: str) -> None:
        if running := self._running.pop(name, None):
            self.processes[name].popen.kill()
            running.close()

    def close(self) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def _start_name_server(self) -> str:
        stack = self._running["name server"] = ExitStack()
        return stack.enter_context(name_server(self._folder)).address

    def _start_broker(self, name: str, settings: dict[str, str]) -> None:
        stack = ExitStack()
        running = broker(self._folder / name, [self.name_server], settings, self._ports[name])
        self.processes[name] = stack.enter_context(running)
        self._running[name] = stack
