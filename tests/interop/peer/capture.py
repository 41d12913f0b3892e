"""Capture golden frames from the real peer: `PYTHONPATH=tests python -m interop.peer.capture`.

For each version and each serialisation of headers it runs a name server, a master and a slave
behind recording proxies, lets clients and mqadmin use them, and keeps a few frames of each kind.
"""

import sys
import time
from typing import Final

from .fetch import VERSIONS
from .frames import SERIALIZATIONS
from .golden import select, write_golden
from .mqadmin_commands import FILES, admin_commands
from .peer import Peer
from .ports import lease_ports
from .readiness import wait_until_registered
from .recorder import Recorded, Recorder
from .servers import BROKER_PORTS, Broker, NameServer

TOPIC: Final = "Golden"
ORDERED_TOPIC: Final = "GoldenOrdered"
LIVE_GROUP: Final = "GoldenLive"
POP_GROUP: Final = "GoldenPop"

_NAME_SERVER: Final = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}

_AUTH: Final = "org.apache.rocketmq.auth"
_BROKER: Final = {
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "registerNameServerPeriod": "10000",
    "enableSlaveActingMaster": "true",  # 5.x: the broker's heartbeat and its member group
    "recallMessageEnable": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}

# A probe of the data version comes before every registration of the master, and is also its
# heartbeat; the slave sends the heartbeat that 5.x has for it.
_MASTER: Final = {**_BROKER, "forceRegister": "false", "brokerRole": "ASYNC_MASTER"}
_SLAVE: Final = {
    **_BROKER,
    "brokerId": "1",
    "brokerRole": "SLAVE",
    "compatibleWithOldNameSrv": "false",
}

_SLAVE_SYNC_S: Final = 25.0
"""A slave copies its master's tables 3 s after its start and then every 10 s."""


def capture(version: str, serialization: str) -> list[Recorded]:
    """Give all frames of one run."""
    properties = {"rocketmq.serialize.type": serialization}
    with Peer(version, properties=properties) as peer, Recorder() as recorder:
        name_server = peer.name_server(_NAME_SERVER)
        entry = recorder.name_server(name_server.port)
        master, broker = _start_broker(peer, recorder, name_server, entry, _MASTER)
        slave, _ = _start_broker(peer, recorder, name_server, entry, _SLAVE)
        slave_started = time.monotonic()
        _use(peer, entry, broker, pops=serialization == "JSON" and not version.startswith("4."))
        time.sleep(max(0.0, slave_started + _SLAVE_SYNC_S - time.monotonic()))
        master.stop()  # in order: it unregisters, and the slave hears that it is alone
        slave.stop()
        return recorder.frames


def _start_broker(
    peer: Peer,
    recorder: Recorder,
    name_server: NameServer,
    entry: str,
    config: dict[str, str],
) -> tuple[Broker, str]:
    """Start a broker behind a proxy of its own; the address is the proxy's."""
    lease = lease_ports(BROKER_PORTS)
    address = recorder.broker(lease.first)
    broker = peer.broker([entry], config, lease=lease, wait_registered=False)
    wait_until_registered(broker.address, [name_server.address], known_as=address)
    return broker, address


def _use(peer: Peer, name_server: str, broker: str, *, pops: bool) -> None:
    for topic in (TOPIC, ORDERED_TOPIC):
        create = ("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "2", "-w", "2")
        peer.mqadmin(*create, name_server=name_server)
    clients = peer.start("GoldenClients", name_server, TOPIC, ORDERED_TOPIC)
    clients.wait_for_output("READY", timeout_s=180)
    ready = next(line for line in clients.log.read_text().splitlines() if "READY" in line)
    message_id, unique_id, client_id = ready.split()[1:]
    message_id = _lead_to(broker, message_id)
    # This property of the client turns the short form of send requests off.
    long_form = {"org.apache.rocketmq.client.sendSmartMsg": "false"}
    peer.run("SendReceive", name_server, TOPIC, "2", properties=long_form)
    for name, text in FILES.items():
        (clients.log.parent / name).write_text(text)
    values = {
        "broker": broker,
        "client_id": client_id,
        "files": str(clients.log.parent),
        "message_id": message_id,
        "unique_id": unique_id,
    }
    commands = admin_commands(values)
    for command in commands.before:
        _report(command, peer.mqadmin_output(*command, name_server=name_server).stderr)
    arguments = (name_server, broker, TOPIC, LIVE_GROUP, client_id, message_id)
    print(peer.run("GoldenAdmin", *arguments))
    if pops:  # a code above 32767 does not fit into the compact header
        peer.run("PopConsumer", name_server, TOPIC, POP_GROUP, "3")
    clients.stop()
    for command in commands.after:
        _report(command, peer.mqadmin_output(*command, name_server=name_server).stderr)


def _lead_to(broker: str, message_id: str) -> str:
    """Put another port into the id of a message, which begins with its broker's address."""
    return f"{message_id[:8]}{int(broker.rpartition(':')[2]):08X}{message_id[16:]}"


def _report(command: list[str], stderr: str) -> None:
    first = next((line for line in stderr.splitlines() if "Exception" in line), "")
    print(f"  mqadmin {command[0]}: {first[:150] or 'done'}")


def request_names(version: str) -> dict[int, str]:
    """Ask the peer for the names of its request codes."""
    with Peer(version) as peer:
        pairs = (line.split() for line in peer.run("RequestCodes").splitlines())
        return {int(code): name for code, name in pairs}


def main(versions: list[str]) -> None:
    for version in versions or VERSIONS:
        recorded = []
        for serialization in SERIALIZATIONS:
            print(f"{version} {serialization}")
            recorded += capture(version, serialization)
        frames = select(recorded, request_names(version))
        path = write_golden(version, frames)
        kinds = {(frame.direction, frame.request_code) for frame in frames}
        print(f"{path.name}: {len(frames)} frames, {len(kinds)} kinds, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
