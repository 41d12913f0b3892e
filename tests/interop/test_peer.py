"""Proves that the Java peer starts, works through itself, and is gone afterwards."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interop.peer import Broker, JavaProcess, NameServer, Peer, PeerFailedError
from patience import in_time

TESTS = Path(__file__).resolve().parent.parent

OWNER_THAT_DIES = """
import os, signal
from interop.peer import Peer
server = Peer({version!r}).name_server()
print(server.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_mqadmin_cluster_list_shows_the_broker(
    peer: Peer, java_name_server: NameServer, java_broker: Broker
) -> None:
    """The broker is registered when the fixture hands it out, under the name it was given."""
    listed = peer.mqadmin("clusterList", name_server=java_name_server.address)
    row = next(line.split() for line in listed.splitlines() if java_broker.address in line)
    version = "V" + peer.version.replace(".", "_")
    assert row[:5] == [java_broker.cluster, java_broker.name, "0", java_broker.address, version]


def test_messages_of_a_java_producer_reach_a_java_push_consumer(
    peer: Peer, java_name_server: NameServer, java_broker: Broker
) -> None:
    """A program of ours sends and receives through the peer's servers with the peer's client."""
    printed = peer.run("SendReceive", java_name_server.address, "TestPeer", "16")
    outcome = json.loads(printed)
    assert (outcome["stored"], outcome["received"]) == (16, 16)
    assert outcome["queues"] == [f"{java_broker.name}:{queue}" for queue in range(4)]


def test_one_admin_shell_serves_commands_that_end_the_jvm_and_others(
    peer: Peer, java_name_server: NameServer
) -> None:
    """mqadmin ends its process on bad options; the next command must not notice."""
    address = java_name_server.address
    refused = peer.mqadmin_output("topicRoute", name_server=address)
    assert refused.exit_code != 0
    assert "usage: mqadmin topicRoute" in refused.stdout
    peer.mqadmin("updateKvConfig", "-s", "ns", "-k", "a key", "-v", "ü 1", name_server=address)
    with pytest.raises(PeerFailedError, match="No topic route info"):
        peer.mqadmin("topicRoute", "-t", "Nowhere", name_server=address)


def test_broker_registers_with_every_name_server_and_leaves_nothing_when_stopped(
    peer: Peer, java_name_server: NameServer
) -> None:
    """Processes and ports are gone after `stop` and after `kill`; the shared server lives on."""
    second = peer.name_server()
    broker = peer.broker([java_name_server.address, second.address], {"brokerName": "twice"})
    for server in (java_name_server, second):
        assert broker.address in peer.mqadmin("clusterList", name_server=server.address)
        config = peer.mqadmin("getNamesrvConfig", name_server=server.address)
        assert str(server.port) in config  # one shell, but each command goes where it is told
    broker.kill()
    second.stop()
    assert_gone(broker.process, broker.port)
    assert_gone(second.process, second.port)
    assert java_name_server.process.running


def test_a_thread_that_never_rests_gets_what_others_leave(peer: Peer, java_broker: Broker) -> None:
    """That of 5.5.0 which is busy for ever after a transaction; 4.9.7 has none."""
    tasks = Path(f"/proc/{java_broker.process.pid}/task")
    priorities = {
        (task / "comm").read_text().strip(): os.getpriority(os.PRIO_PROCESS, int(task.name))
        for task in tasks.iterdir()
    }
    calm = [name for name, priority in priorities.items() if priority == 19]
    assert calm == (["TransactionalOp"] if peer.version == "5.5.0" else [])


def test_servers_end_when_the_process_that_started_them_is_killed(
    peer: Peer, tmp_path: Path
) -> None:
    """A test run that dies without any cleaning up leaves no JVM behind."""
    owner = subprocess.run(
        [sys.executable, "-c", OWNER_THAT_DIES.format(version=peer.version)],
        env={**os.environ, "PYTHONPATH": str(TESTS), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert owner.returncode == -signal.SIGKILL
    wait_until_gone(int(owner.stdout))


def test_server_that_cannot_start_is_reported_with_the_end_of_its_log(
    peer: Peer, java_name_server: NameServer
) -> None:
    """The reason is in the error: nobody has to look for a log file that is gone by then."""
    with pytest.raises(PeerFailedError, match=r"(?s)NamesrvStartup.*BindException"):
        peer.name_server({"listenPort": str(java_name_server.port)})


def assert_gone(process: JavaProcess, port: int) -> None:
    wait_until_gone(process.pid)
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_running(pid):
        in_time(deadline, f"process {pid} still runs")
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """An orphan that nobody reaps is a zombie here: ended, though it still has its number."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return state.stdout.strip()[:1] not in ("", "Z")
