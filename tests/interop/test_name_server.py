"""Our name server in place of Java's: brokers, clients and mqadmin of both versions, unmodified.

One Java broker registers with our name server and with Java's at the same time. Whatever mqadmin
prints about it through one of them must be what it prints through the other.
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from interop.peer import Broker, Peer
from patience import in_time
from servers import ServerProcess, name_server

TOPIC = "Both"
WAIT_S = 20.0


class Twins(NamedTuple):
    """The same broker behind two name servers."""

    ours: str
    java: str
    broker: Broker


@pytest.fixture(scope="session")
def our_name_server(
    peer: Peer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    with name_server(tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="session")
def twins(peer: Peer, our_name_server: ServerProcess) -> Twins:
    """A broker registered with both, and a topic that both know; Java's knows no other broker."""
    java = peer.name_server()
    addresses = [our_name_server.address, java.address]
    broker = peer.broker(addresses, {"brokerName": "broker-both", "brokerClusterName": "Twins"})
    peer.mqadmin(
        "updateTopic", "-t", TOPIC, "-c", broker.cluster, "-r", "3", "-w", "5",
        name_server=our_name_server.address,
    )  # fmt: skip
    twins = Twins(our_name_server.address, java.address, broker)
    for address in (twins.ours, twins.java):
        eventually(lambda address=address: bool(route(peer, address, TOPIC)))  # type: ignore[misc]
    return twins


def route(peer: Peer, address: str, topic: str) -> str:
    """What mqadmin topicRoute prints, or nothing when there is no route."""
    output = peer.mqadmin_output("topicRoute", "-t", topic, name_server=address)
    if "\tat " not in output.stderr:
        return output.stdout
    assert "No topic route info" in output.stderr
    return ""


def eventually(condition: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    deadline_s = time.monotonic() + wait_s
    while not condition():
        in_time(deadline_s, "it did not happen")
        time.sleep(0.1)


def lines_of(output: str, name_server_address: str) -> list[str]:
    """Output without what must differ: the name server's own address, and clocks."""
    text = output.replace(name_server_address, "NAMESRV")
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def both(peer: Peer, twins: Twins, *command: str) -> tuple[list[str], list[str]]:
    """Run a command through ours and through Java's and give what each printed."""
    ours = peer.mqadmin(*command, name_server=twins.ours)
    java = peer.mqadmin(*command, name_server=twins.java)
    return lines_of(ours, twins.ours), lines_of(java, twins.java)


def test_java_producer_and_push_consumer_work_through_our_name_server(
    peer: Peer, twins: Twins
) -> None:
    """Sixteen messages to a topic that does not exist yet, and all of them back."""
    outcome = json.loads(peer.run("SendReceive", twins.ours, f"New{peer.version[0]}", "16"))
    assert (outcome["stored"], outcome["received"]) == (16, 16)
    assert all(queue.startswith("broker-both:") for queue in outcome["queues"])


def test_cluster_list_is_the_same(peer: Peer, twins: Twins) -> None:
    """The same clusters, brokers, ids, addresses and versions; rates are the broker's own."""
    ours, java = both(peer, twins, "clusterList")

    def rows(lines: list[str]) -> list[list[str]]:
        return sorted(line.split()[:5] for line in lines if twins.broker.cluster in line)

    assert rows(ours) == rows(java)
    assert rows(ours)[0][:4] == ["Twins", "broker-both", "0", twins.broker.address]
    assert ours[0] == java[0]


def test_topic_route_is_the_same(peer: Peer, twins: Twins) -> None:
    """Byte for byte what mqadmin prints of a route, and of one that is not there."""
    ours, java = both(peer, twins, "topicRoute", "-t", TOPIC)
    assert ours == java
    assert any("readQueueNums" in line and "3" in line for line in ours)
    for address in (twins.ours, twins.java):
        output = peer.mqadmin_output("topicRoute", "-t", "Nowhere", name_server=address)
        assert "CODE: 17  DESC: No topic route info in name server for the topic: Nowhere" in (
            output.stdout + output.stderr
        )


def test_topic_list_is_the_same(peer: Peer, twins: Twins) -> None:
    """All topics of the broker, whichever name server is asked, with clusters and without."""
    ours, java = both(peer, twins, "topicList")
    assert sorted(ours) == sorted(java)  # Java's order is that of its hash tables
    assert TOPIC in ours
    assert "TBW102" in ours
    ours, java = both(peer, twins, "topicClusterList", "-t", TOPIC)
    assert ours == java == ["Twins"]


def test_broker_status_is_found_through_our_name_server(peer: Peer, twins: Twins) -> None:
    """By address and by cluster, which needs the name server's list; the keys are the same."""
    for where in (("-b", twins.broker.address), ("-c", "Twins")):
        ours, java = both(peer, twins, "brokerStatus", *where)

        def keys(lines: list[str]) -> list[str]:
            return [line.split(":")[0].strip() for line in lines]

        assert keys(ours) == keys(java)
        assert any("bootTimestamp" in line for line in ours)


def test_kv_config_is_put_and_deleted_alike(peer: Peer, twins: Twins) -> None:
    """mqadmin says the same, and the value is there and gone (seen through the order config)."""
    for command in (
        ("updateKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "Ordered", "-v", "broker-both:4"),
        ("updateOrderConf", "-t", "Ordered", "-m", "get"),
        ("deleteKvConfig", "-s", "ORDER_TOPIC_CONFIG", "-k", "Ordered"),
    ):
        ours, java = both(peer, twins, *command)
        assert ours == java, command
    for address in (twins.ours, twins.java):
        output = peer.mqadmin_output(
            "updateOrderConf", "-t", "Ordered", "-m", "get", name_server=address
        )
        assert "No config item, Namespace: ORDER_TOPIC_CONFIG Key: Ordered" in (
            output.stdout + output.stderr
        )


def test_order_config_is_put_shown_and_deleted_alike(peer: Peer, twins: Twins) -> None:
    """updateOrderConf in its three ways."""
    for command in (
        ("updateOrderConf", "-t", TOPIC, "-m", "put", "-v", "broker-both:5"),
        ("updateOrderConf", "-t", TOPIC, "-m", "get"),
        ("updateOrderConf", "-t", TOPIC, "-m", "delete"),
    ):
        ours, java = both(peer, twins, *command)
        assert ours == java, command
    ours, _ = both(peer, twins, "updateOrderConf", "-t", TOPIC, "-m", "put", "-v", "broker-both:5")
    assert any("broker-both:5" in line for line in ours)


def test_write_permission_is_wiped_and_given_back_alike(peer: Peer, twins: Twins) -> None:
    """The counts of topics, and the permission in the route, are the same on both."""
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        ours, java = both(peer, twins, command, "-b", twins.broker.name)
        assert ours == java, command
        ours, java = both(peer, twins, "topicRoute", "-t", TOPIC)
        assert ours == java
        assert any(re.search(rf'"perm":\s*{perm}\b', line) for line in ours), ours


def test_name_server_config_has_the_same_keys(peer: Peer, twins: Twins) -> None:
    """getNamesrvConfig prints Java's keys and defaults, except for what is this server's own."""
    ours, java = both(peer, twins, "getNamesrvConfig")

    def items(lines: list[str]) -> dict[str, str]:
        pairs = (line.split("=", 1) for line in lines if "=" in line and "====" not in line)
        return {key.strip(): value.strip() for key, value in pairs}

    own = {"listenPort", "bindAddress", "kvConfigPath", "configStorePath", "rocketmqHome"}
    ours_items, java_items = items(ours), items(java)
    assert set(java_items) - set(ours_items) == set(), "keys of Java that ours does not show"
    known_to_both = set(java_items) - own
    differing = {
        key: (ours_items[key], java_items[key])
        for key in known_to_both
        if ours_items[key] != java_items[key]
    }
    assert differing == DIFFERENT_DEFAULTS.get(peer.version, {})


DIFFERENT_DEFAULTS: dict[str, dict[str, tuple[str, str]]] = {}
"""By version: keys whose default differs, ours and Java's."""


def test_name_server_config_is_changed_alike(peer: Peer, twins: Twins) -> None:
    """updateNamesrvConfig changes a key at run time, and the change shows in the config."""
    for value in ("true", "false"):
        ours, java = both(
            peer, twins, "updateNamesrvConfig", "-k", "orderMessageEnable", "-v", value
        )
        assert ours == java
        shown = peer.mqadmin("getNamesrvConfig", name_server=twins.ours)
        assert re.search(rf"^orderMessageEnable\s*=\s*{value}", shown, re.MULTILINE)


def test_order_config_reaches_clients_when_it_is_switched_on(peer: Peer, twins: Twins) -> None:
    """orderMessageEnable puts the order configuration into routes, on both."""
    both(peer, twins, "updateOrderConf", "-t", TOPIC, "-m", "put", "-v", "broker-both:2")
    both(peer, twins, "updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    ours, java = both(peer, twins, "topicRoute", "-t", TOPIC)
    both(peer, twins, "updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false")
    assert ours == java
    assert any("broker-both:2" in line for line in ours)


def test_paths_cannot_be_changed_over_the_wire(peer: Peer, twins: Twins) -> None:
    """The hole of CVE-2023-37582 stays shut, and mqadmin is told so with code 16."""
    output = peer.mqadmin_output(
        "updateNamesrvConfig", "-k", "configStorePath", "-v", "/tmp/evil", name_server=twins.ours
    )
    assert "CODE: 16" in output.stdout + output.stderr
    shown = peer.mqadmin("getNamesrvConfig", name_server=twins.ours)
    assert "evil" not in shown


def test_a_killed_broker_is_gone_from_both(peer: Peer, twins: Twins) -> None:
    """kill -9 closes its connections; its routes and its cluster disappear alike."""
    config = {"brokerName": "mortal", "brokerClusterName": "Mortals"}
    broker = peer.broker([twins.ours, twins.java], config)
    for address in (twins.ours, twins.java):
        eventually(lambda a=address: broker.address in peer.mqadmin("clusterList", name_server=a))  # type: ignore[misc]
    broker.kill()
    for address in (twins.ours, twins.java):
        eventually(lambda a=address: "mortal" not in peer.mqadmin("clusterList", name_server=a))  # type: ignore[misc]
        assert "Mortals" not in peer.mqadmin("clusterList", name_server=address)


def only(version: str) -> pytest.MarkDecorator:
    """Run a test with one version of the peer, in the group that shares its servers."""
    group = pytest.mark.xdist_group(f"peer-{version}")
    return pytest.mark.parametrize("peer", [pytest.param(version, marks=group)], indirect=True)


@only("5.5.0")
def test_a_silent_broker_expires(peer: Peer, twins: Twins) -> None:
    """A broker stopped in its tracks keeps its connection; its own time-out removes its route."""
    config = {"enableSlaveActingMaster": "true", "brokerNotActiveTimeoutMillis": "3000"}
    check_expiry(peer, twins.ours, config, WAIT_S)


@pytest.mark.slow
@pytest.mark.timeout(400)
@only("4.9.7")
def test_a_silent_broker_of_4_9_expires_after_two_minutes(peer: Peer, twins: Twins) -> None:
    """It cannot ask for less than the 120 s that every name server grants."""
    check_expiry(peer, twins.ours, {}, 150.0)


def check_expiry(peer: Peer, name_server: str, config: dict[str, str], wait_s: float) -> None:
    names = {"brokerName": "frozen", "brokerClusterName": "Frozen"}
    broker = peer.broker([name_server], names | config)
    own_topic = broker.name  # each broker has a topic of its own name
    eventually(lambda: broker.address in route(peer, name_server, own_topic))
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        eventually(lambda: not route(peer, name_server, own_topic), wait_s)
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    eventually(lambda: broker.address in route(peer, name_server, own_topic), 60.0)
    broker.kill()


def test_a_client_goes_on_with_the_name_server_that_is_left(
    peer: Peer, twins: Twins, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two name servers of ours both know the broker; one stops, clients find it by the other."""
    with name_server(tmp_path_factory.mktemp("second")) as second:
        config = {"brokerName": "broker-two", "brokerClusterName": "Two"}
        with name_server(tmp_path_factory.mktemp("first")) as first:
            broker = peer.broker([first.address, second.address], config)
            for server in (first, second):
                assert broker.address in peer.mqadmin("clusterList", name_server=server.address)
            client = peer.start("NewTopics", f"{first.address};{second.address}", "Survivor")
            client.wait_for_output("sent 3\n", WAIT_S)
        sent_before = client.log.read_text().count("sent ")
        eventually(lambda: client.log.read_text().count("sent ") > sent_before + 10)
        client.stop()
        broker.kill()
