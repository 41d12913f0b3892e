"""The peer's name server and broker, each on free ports with a store of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .ports import PortLease, lease_ports
from .process import STOP_TIMEOUT_S, JavaProcess, Jvm, prepare_home
from .programs import Runtime
from .readiness import wait_until_answering, wait_until_registered

_BOOT_TIMEOUT_S: Final = 90.0
_BOOTED: Final = "boot success"

BROKER_PORTS: Final = (-2, 0, 1)
"""A broker listens on its port, on the "fast" port two below and on its replication port."""

# Small files: the defaults map 1 GiB for the log and 420 MB for the first index.
_SMALL_STORE: Final = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "timerWheelEnable": "false",  # an idle broker would sync its 40 MB wheel all the time
}


class Server:
    """A running server of the peer; `address` is where clients reach it."""

    def __init__(self, process: JavaProcess, lease: PortLease) -> None:
        self.process = process
        self.port = lease.first
        self.address = f"127.0.0.1:{lease.first}"
        self._lease = lease

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it in order, or by force when it takes longer than `timeout_s`."""
        self.process.stop(timeout_s)
        self._lease.release()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self._lease.release()


class NameServer(Server):
    """The peer's name server."""


class Broker(Server):
    """The peer's broker, registered with its name servers under `name` in `cluster`."""

    def __init__(self, process: JavaProcess, lease: PortLease, name: str, cluster: str) -> None:
        super().__init__(process, lease)
        self.name = name
        self.cluster = cluster


def start_name_server(
    runtime: Runtime, home: Path, jvm: Jvm, config: Mapping[str, str]
) -> NameServer:
    """Start a name server and wait until it serves."""
    lease = lease_ports()
    settings = {
        "listenPort": str(lease.first),
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(home / "namesrv.properties"),
        **config,
    }
    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
    process = _start(runtime, home, jvm, main_class, settings, lease)
    return NameServer(process, lease)


def start_broker(
    runtime: Runtime,
    home: Path,
    jvm: Jvm,
    name_servers: Sequence[str],
    config: Mapping[str, str],
    *,
    lease: PortLease | None,
    wait_registered: bool,
) -> Broker:
    """Start a broker and wait until it serves; also until all `name_servers` know it, if asked."""
    lease = lease or lease_ports(BROKER_PORTS)
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "namesrvAddr": ";".join(name_servers),
        "listenPort": str(lease.first),
        "haListenPort": str(lease.first + 1),
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store" / "commitlog"),
        "autoCreateTopicEnable": "true",
        **_SMALL_STORE,
        **config,
    }
    main_class = "org.apache.rocketmq.broker.BrokerStartup"
    process = _start(runtime, home, jvm, main_class, settings, lease)
    broker = Broker(process, lease, settings["brokerName"], settings["brokerClusterName"])
    try:
        wait_until_answering(broker.address)
        if wait_registered:
            wait_until_registered(broker.address, name_servers)
    except BaseException:
        broker.kill()
        raise
    return broker


def _start(
    runtime: Runtime,
    home: Path,
    jvm: Jvm,
    main_class: str,
    settings: Mapping[str, str],
    lease: PortLease,
) -> JavaProcess:
    prepare_home(home)
    conf = home / "server.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    name = f"{main_class.rpartition('.')[2]} {runtime.version}"
    command = runtime.leashed(jvm, home, main_class, ["-c", str(conf)])
    process = JavaProcess(name, command, home)
    try:
        process.wait_for_output(_BOOTED, _BOOT_TIMEOUT_S)
    except BaseException:
        process.kill()
        lease.release()
        raise
    return process
