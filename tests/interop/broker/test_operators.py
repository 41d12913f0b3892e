"""mqadmin on topics, groups and who consumes them: Java's broker and ours say the same."""

import re

import pytest

from interop.broker.clients import Clients, eventually, eventually_equal
from interop.broker.cluster import Cluster
from interop.peer import Peer


class Operator:
    """Somebody at a terminal."""

    def __init__(self, peer: Peer, cluster: Cluster) -> None:
        self._peer = peer
        self._cluster = cluster

    def run(self, *command: str) -> str:
        """What a command prints, blanks in a row as one."""
        output = self._peer.mqadmin_output(*command, name_server=self._cluster.name_server)
        return re.sub(r"[ \t]+", " ", output.stdout + output.stderr)

    def ask_broker(self, command: str, *options: str) -> str:
        return self.run(command, "-b", self._cluster.main.address, *options)


@pytest.fixture(scope="session")
def operator(peer: Peer, cluster: Cluster) -> Operator:
    return Operator(peer, cluster)


def test_topic_is_made_and_changed(operator: Operator) -> None:
    """Its route follows, and its queues are shown."""
    out = operator.ask_broker("updateTopic", "-t", "Made", "-r", "3", "-w", "3", "-p", "6")
    assert "create topic to" in out
    assert "TopicConfig [topicName=Made, readQueueNums=3, writeQueueNums=3, perm=RW-" in out
    eventually(lambda: '"readQueueNums":3' in operator.run("topicRoute", "-t", "Made"), "a route")
    status = operator.run("topicStatus", "-t", "Made")
    assert [line.split() for line in status.splitlines() if line.startswith("broker-a")] == [
        ["broker-a", str(queue), "0", "0"] for queue in range(3)
    ]
    operator.ask_broker("updateTopic", "-t", "Made", "-r", "4", "-w", "4", "-p", "4")
    eventually(lambda: '"readQueueNums":4' in operator.run("topicRoute", "-t", "Made"), "a change")


def test_deleted_topic_is_gone(operator: Operator) -> None:
    """From the broker and from the name server.

    Java's 5.5.0 fails at the last step of a deletion while its timer wheel is off, as it is in
    these tests: the configuration is gone by then.
    """
    operator.ask_broker("updateTopic", "-t", "Doomed")
    out = operator.run("deleteTopic", "-t", "Doomed", "-c", "Interop")
    if "getTimerMetrics" not in out:
        assert "delete topic [Doomed] from cluster [Interop] success." in out
        assert "Doomed" not in operator.run("topicList").split()
    assert "create topic to" in operator.ask_broker("updateTopic", "-t", "Doomed", "-r", "1")


def test_topics_of_the_system_are_not_for_operators(operator: Operator) -> None:
    """Neither to change nor to delete."""
    reason = "The topic[TBW102] is conflict with system topic."
    assert reason in operator.ask_broker("updateTopic", "-t", "TBW102")
    assert reason in operator.run("deleteTopic", "-t", "TBW102", "-c", "Interop")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("+color=red", "unsupported key"),
        ("+message.type=ODD", "value is not in set"),
        ("+message.type=FIFO", "create topic to"),
        ("+queue.type=SimpleCQ", "attempt to update an unchangeable attribute. key:"),
        ("-message.type", "create topic to"),
        ("-message.type", "attempt to delete a nonexistent key"),
    ],
)
def test_attributes_are_taken_or_refused(
    operator: Operator, peer: Peer, attributes: str, said: str
) -> None:
    """One after the other, of one topic that the first three make; 4.9 has none."""
    output = operator.ask_broker("updateTopic", "-t", "Attributed", "-a", attributes)
    assert (said if peer.version.startswith("5.") else "usage: mqadmin updateTopic") in output


def test_group_is_made_shown_and_deleted(operator: Operator) -> None:
    """With what was asked for."""
    out = operator.ask_broker("updateSubGroup", "-g", "madeGroup", "-r", "5", "-q", "2")
    assert "create subscription group to" in out
    assert "groupName='madeGroup'" in out or "groupName=madeGroup" in out
    shown = operator.run("getConsumerConfig", "-g", "madeGroup")
    assert "retryMaxTimes = 5" in shown
    out = operator.ask_broker("deleteSubGroup", "-g", "madeGroup")
    assert "delete subscription group [madeGroup] from broker" in out
    assert "retryMaxTimes = 5" not in operator.run("getConsumerConfig", "-g", "madeGroup")


def progress_of(operator: Operator, group: str, topic: str) -> list[list[str]]:
    """Topic, broker, queue, both offsets and how far they are apart."""
    shown = operator.run("consumerProgress", "-g", group, "-s", "false")
    rows = [line.split() for line in shown.splitlines()]
    return [row[:6] for row in rows if row[:1] == [topic]]


def test_consumers_and_their_progress_are_shown(
    operator: Operator, cluster: Cluster, clients: Clients
) -> None:
    """Connection, subscription, every queue with both offsets; who reads the topic."""
    # The route of a topic that comes to be by sending changes while its producer sends: its
    # queues do not take turns then.
    clients.make_topic("Watched", 4, [cluster.main.address])
    clients.send("Watched", [f"{n}" for n in range(8)])
    with clients.push("watched", "Watched", group="watchers") as consumer:
        consumer.received(8)
        shown = operator.run("consumerConnection", "-g", "watchers")
        assert "JAVA" in shown
        assert re.search(r"^Watched \*$", shown, re.MULTILINE)
        assert "ConsumeType: CONSUME_PASSIVELY" in shown
        assert "MessageModel: CLUSTERING" in shown
        # It would tell the broker by itself only ten seconds after its start.
        commits = {f"broker-a:{queue}": 2 for queue in range(4)}
        eventually_equal(consumer.offsets, commits, "commits")
        expected = [["Watched", "broker-a", str(queue), "2", "2", "0"] for queue in range(4)]
        assert progress_of(operator, "watchers", "Watched") == expected
    status = operator.run("topicStatus", "-t", "Watched")
    assert len(re.findall(r"^broker-a \d 0 2 20\d\d-", status, re.M)) == 4


def test_cluster_and_configuration_are_shown(operator: Operator, cluster: Cluster) -> None:
    """The line of clusterList has every figure that the tool reads."""
    (line,) = [line for line in operator.run("clusterList").splitlines() if "broker-a" in line]
    cells = line.split()
    assert cells[:2] == ["Interop", "broker-a"]
    assert cluster.main.address in cells
    assert re.search(r"V5_\d+_\d+|V4_\d+_\d+", line)
    shown = operator.ask_broker("getBrokerConfig")
    assert "enablePropertyFilter = true" in shown
