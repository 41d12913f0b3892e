"""The shared client of a process: one for all who ask, again after it was stopped or forked."""

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest

from integration.spark.spark_rig import Rig
from roketto.client.errors import ClientError
from roketto.spark import cluster as module
from roketto.spark.cluster import Cluster, MessageQueue, close_clusters
from roketto.spark.options import ConnectionOptions

Name = Callable[[], str]


def connection(rig: Rig) -> ConnectionOptions:
    return ConnectionOptions(name_servers=rig.names)


def test_all_who_ask_share_one_client_until_it_is_stopped(rig: Rig, topic_name: Name) -> None:
    topic = rig.topic(topic_name(), queues=2)
    cluster = Cluster.of(connection(rig))
    assert Cluster.of(connection(rig)) is cluster
    client = cluster.client
    assert cluster.queues(topic) == [MessageQueue("broker-a", number, topic) for number in (0, 1)]
    assert cluster.client is client
    close_clusters()
    assert len(cluster.queues(topic)) == 2, "it opens anew"
    cluster.stop()


def test_clients_that_nobody_uses_are_stopped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Cluster.of(connection(rig))
    client = old.client
    monkeypatch.setattr(module, "IDLE_S", -1.0)
    Cluster.of(replace(connection(rig), request_timeout_ms=999))
    with pytest.raises(ClientError, match="was stopped"):
        client.check_started()
    assert Cluster.of(connection(rig)) is not old


def test_positions_of_many_queues_come_at_once(rig: Rig, topic_name: Name) -> None:
    topic = rig.topic(topic_name(), queues=3)
    rig.send(topic, ["a", "b"], queue_id=1)
    cluster = Cluster.of(connection(rig))
    queues = cluster.queues(topic)
    assert list(cluster.max_offsets(queues).values()) == [0, 2, 0]
    assert (cluster.min_offset(queues[1]), cluster.max_offset(queues[1])) == (0, 2)
    assert cluster.offset_by_time(queues[1], 2**42) == 2
    missing = MessageQueue("broker-x", 0, topic)
    found, failed = cluster.try_max_offsets([queues[1], missing])
    assert found == {queues[1]: 2}
    assert list(failed) == [missing]
    with pytest.raises(ClientError, match=f"queue 0 of {topic} on broker-x: "):
        cluster.max_offsets([missing])


def test_a_group_is_kept_by_brokers_that_have_never_seen_it(rig: Rig, topic_name: Name) -> None:
    topic = rig.topic(topic_name())
    cluster = Cluster.of(connection(rig))
    [queue] = cluster.queues(topic)
    rig.send(topic, ["a", "b", "c"])
    cluster.commit_group_offset(f"new-{topic}", queue, 2)
    assert cluster.group_offset(f"new-{topic}", queue) == 2


def test_our_brokers_are_known_by_what_only_they_can(rig: Rig) -> None:
    assert Cluster.of(connection(rig)).is_ours(rig.broker.address)


def test_a_child_has_a_client_of_its_own(rig: Rig, topic_name: Name) -> None:
    topic = rig.topic(topic_name())
    cluster = Cluster.of(connection(rig))
    assert len(cluster.queues(topic)) == 1
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_ask_as_child, args=(theirs, connection(rig), topic))
    child.start()
    assert ours.poll(30)
    assert ours.recv() == (1, True)
    child.join(30)
    ours.close()
    theirs.close()
    assert len(cluster.queues(topic)) == 1


def _ask_as_child(pipe: Connection, options: ConnectionOptions, topic: str) -> None:
    clusters_before = len(module._shared.clusters)
    count = len(Cluster.of(options).queues(topic))
    pipe.send((count, clusters_before == 0))
    close_clusters()
