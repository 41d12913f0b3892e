"""Our servers as processes of their own, as users start them; stopped by their own ids."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.peer.ports import PortLease, lease_ports
from interop.peer.servers import BROKER_PORTS

_STOP_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server: what it said when it was ready, and its log on standard error."""

    address: str
    port: int
    popen: subprocess.Popen[str]
    log: Path
    banner: str
    start_s: float
    """Seconds from starting the process to the banner."""

    def resident_kb(self) -> int:
        for line in Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("the server has no resident memory")

    def is_alive(self) -> bool:
        return self.popen.poll() is None


@contextmanager
def name_server(folder: Path, config: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """Run mqnamesrv with its files in ``folder`` until the block ends."""
    lease = lease_ports()
    settings = {
        "listenPort": str(lease.first),
        "bindAddress": "127.0.0.1",
        "kvConfigPath": str(folder / "kvConfig.json"),
        "configStorePath": str(folder / "namesrv.properties"),
        **(config or {}),
    }
    try:
        with _running(folder, "namesrv", [], settings) as server:
            yield server
    finally:
        lease.release()


@contextmanager
def broker(
    folder: Path,
    name_servers: Sequence[str],
    config: Mapping[str, str] | None = None,
    lease: PortLease | None = None,
) -> Iterator[ServerProcess]:
    """Run mqbroker with its store in ``folder`` until the block ends.

    ``lease`` holds BROKER_PORTS for whoever wants the same port again after a restart, and is
    left to them.
    """
    ports = lease or lease_ports(BROKER_PORTS)
    settings = broker_settings(folder, ports.first, config)
    try:
        with _running(folder, "broker", ["-n", ";".join(name_servers)], settings) as server:
            yield server
    finally:
        if lease is None:
            ports.release()


def broker_settings(
    folder: Path, port: int, config: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What a broker of a test has in its file."""
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        "storePathRootDir": str(folder / "store"),
        "autoCreateTopicEnable": "true",
        **(config or {}),
    }


@contextmanager
def _running(
    folder: Path, kind: str, arguments: Sequence[str], settings: Mapping[str, str]
) -> Iterator[ServerProcess]:
    starting = spawn(folder, kind, arguments, settings)
    try:
        yield starting.wait()
    finally:
        starting.popen.terminate()
        starting.popen.wait(_STOP_TIMEOUT_S)
        starting.close()


@dataclass(frozen=True, slots=True)
class StartingServer:
    """A process that may not serve yet; whoever has started it ends it and closes this."""

    kind: str
    port: int
    popen: subprocess.Popen[str]
    log: Path
    started_s: float

    def wait(self) -> ServerProcess:
        """Wait for the banner; AssertionError with the log if the process ends before."""
        assert self.popen.stdout is not None
        while "boot success" not in (line := self.popen.stdout.readline()):
            assert line, f"the {self.kind} ended before it was ready: {self.log.read_text()}"
        taken_s = time.perf_counter() - self.started_s
        address = f"127.0.0.1:{self.port}"
        return ServerProcess(address, self.port, self.popen, self.log, line.rstrip(), taken_s)

    def close(self) -> None:
        assert self.popen.stdout is not None
        self.popen.stdout.close()


def spawn(
    folder: Path,
    kind: str,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    program: Sequence[str] = ("roketto",),
) -> StartingServer:
    """Start a server of a kind; ``program`` is a module that stands in for ours, and its words."""
    port = int(settings["listenPort"])
    conf = folder / f"{kind}-{port}.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    log = folder / f"{kind}-{port}.log"
    started_s = time.perf_counter()
    with log.open("a") as stderr:
        popen = subprocess.Popen(
            [sys.executable, "-m", *program, kind, *arguments, "-c", str(conf)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    return StartingServer(kind, port, popen, log, started_s)
