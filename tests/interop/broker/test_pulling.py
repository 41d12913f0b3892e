"""Java clients that pull for themselves: the old pull consumer, and the lite one."""

import time
from typing import Any

import pytest

from interop.broker.clients import Clients, Message, Sent, eventually, messages_of
from interop.broker.cluster import Cluster
from interop.peer import ClientError


def fill(clients: Clients, cluster: Cluster, topic: str, count: int = 10) -> list[Sent]:
    """Make a topic of two queues; all but the last message go to the first of them."""
    clients.make_topic(topic, 2, [cluster.main.address])
    asked = [
        {"body": f"pull {n}", "tags": f"T{n % 2}", "properties": {"number": str(n)},
         "broker": "broker-a", "queue": n // (count - 1)}
        for n in range(count)
    ]  # fmt: skip
    sent = clients.send(topic, asked, "queue")
    clients.drain(topic, count)  # what was sent last may not have come to its queue yet
    return sent


def pull(clients: Clients, topic: str, offset: int, **options: Any) -> tuple[str, int, int, int]:
    """Pull from the first queue; status, next offset, smallest and largest."""
    answer = clients.shell.do("pull", **pulling(topic, offset, options))
    return answer["status"], answer["next"], answer["min"], answer["max"]


def pulled(clients: Clients, topic: str, offset: int, **options: Any) -> list[Message]:
    return messages_of(clients.shell.do("pull", **pulling(topic, offset, options))["messages"])


def pulling(topic: str, offset: int, options: dict[str, Any]) -> dict[str, Any]:
    place = {"group": "puller", "topic": topic, "broker": "broker-a", "queue": 0}
    return {**place, "tags": "*", "count": 32, "offset": offset, **options}


def test_pull_gives_what_is_asked_for(cluster: Cluster, clients: Clients) -> None:
    """From an offset on, so many; what is found, what is new, what does not match."""
    sent = fill(clients, cluster, "Pull")
    assert pull(clients, "Pull", 0) == ("FOUND", 9, 0, 9)
    assert [one.id for one in pulled(clients, "Pull", 0)] == [one.id for one in sent[:9]]
    assert pull(clients, "Pull", 4, count=3) == ("FOUND", 7, 0, 9)
    assert [one.body for one in pulled(clients, "Pull", 4, count=3)] == [
        "pull 4", "pull 5", "pull 6",
    ]  # fmt: skip
    assert pull(clients, "Pull", 9) == ("NO_NEW_MSG", 9, 0, 9)


def test_pull_from_an_offset_that_is_not_there_is_put_right(
    cluster: Cluster, clients: Clients
) -> None:
    """Beyond the end, before the begin, and in a queue that has nothing yet."""
    fill(clients, cluster, "PullWrong")
    assert pull(clients, "PullWrong", 100) == ("OFFSET_ILLEGAL", 9, 0, 9)
    clients.make_topic("PullEmpty", 1, [cluster.main.address])
    assert pull(clients, "PullEmpty", 0) == ("NO_NEW_MSG", 0, 0, 0)
    assert pull(clients, "PullEmpty", 7) == ("OFFSET_ILLEGAL", 0, 0, 0)
    with pytest.raises(ClientError):
        pull(clients, "PullNowhere", 0)


def test_pull_is_filtered(cluster: Cluster, clients: Clients) -> None:
    """By tags and by SQL; what does not match is passed over, and the next offset says so."""
    fill(clients, cluster, "PullFiltered")
    tagged = pulled(clients, "PullFiltered", 0, tags="T1")
    assert [one.body for one in tagged] == [f"pull {n}" for n in (1, 3, 5, 7)]
    chosen = pulled(clients, "PullFiltered", 0, sql="number > 6")
    assert [one.body for one in chosen] == ["pull 7", "pull 8"]
    assert pull(clients, "PullFiltered", 0, tags="Other") == ("NO_MATCHED_MSG", 9, 0, 9)


def test_pull_that_waits_gets_the_next_message(cluster: Cluster, clients: Clients) -> None:
    """pullBlockIfNotFound is answered when there is something, and not before."""
    fill(clients, cluster, "PullWaits")
    assert [one.body for one in pulled(clients, "PullWaits", 8, block=True)] == ["pull 8"]
    late = {"body": "late", "broker": "broker-a", "queue": 0, "delayLevel": 1}
    clients.send("PullWaits", [late], "queue")
    started_s = time.monotonic()
    waited = pulled(clients, "PullWaits", 9, block=True, timeout_s=20.0)
    assert [one.body for one in waited] == ["late"]
    assert time.monotonic() - started_s < 15.0, "it was answered when its time was over"


def test_bounds_of_queues_and_of_times_are_found(cluster: Cluster, clients: Clients) -> None:
    """minOffset, maxOffset and searchOffset: before all, at each message, after all."""
    clients.make_topic("Bounds", 1, [cluster.main.address])
    stored = []
    for n in range(4):
        clients.send("Bounds", [f"{n}"])
        stored.append(clients.drain("Bounds", n + 1)[-1].stored_ms)
        time.sleep(0.01)  # so that no two have the same time
    assert clients.bounds("Bounds", stored[0] - 10_000) == {"broker-a:0": [0, 4, 0]}
    for n, time_ms in enumerate(stored):
        assert clients.bounds("Bounds", time_ms) == {"broker-a:0": [0, 4, n]}
        between = clients.bounds("Bounds", time_ms + 1)["broker-a:0"][2]
        assert between in (n, n + 1)  # 4.9 gives the nearest, 5.x the next


def test_group_offset_of_a_puller_is_kept(cluster: Cluster, clients: Clients) -> None:
    """What updateConsumeOffset has written, fetchConsumeOffset reads from the broker."""
    fill(clients, cluster, "PullOffset")
    place: dict[str, Any] = {
        "group": "puller",
        "topic": "PullOffset",
        "broker": "broker-a",
        "queue": 0,
    }
    assert clients.shell.do("update", **place, offset=5) == 5
    assert clients.shell.do("update", **place, offset=3) == 3


def test_lite_consumer_takes_the_queues_it_is_told(cluster: Cluster, clients: Clients) -> None:
    """assign: one queue of two, from its begin, in order."""
    fill(clients, cluster, "LiteAssigned")
    with clients.lite("liteAssigned", "LiteAssigned", assign=[0]) as consumer:
        assert consumer.queues() == ["broker-a:0"]
        assert [one.body for one in consumer.poll(9)] == [f"pull {n}" for n in range(9)]


def test_lite_consumer_seeks(cluster: Cluster, clients: Clients) -> None:
    """To an offset, to the begin, to the end; an offset beyond is refused."""
    fill(clients, cluster, "LiteSeeks")
    with clients.lite("liteSeeks", "LiteSeeks", assign=[0]) as consumer:
        consumer.poll(9)
        consumer.seek("broker-a", 0, 6)
        assert [one.offset for one in consumer.poll(3)] == [6, 7, 8]
        consumer.seek("broker-a", 0, -1)
        assert [one.offset for one in consumer.poll(9)] == list(range(9))
        consumer.seek("broker-a", 0, 2)
        consumer.seek("broker-a", 0, -2)
        clients.send(
            "LiteSeeks", [{"body": "new", "broker": "broker-a", "queue": 0}], "queue"
        )  # fmt: skip
        assert [one.body for one in consumer.poll(1)] == ["new"]
        with pytest.raises(ClientError, match=r"Seek offset illegal.* seek offset = 100"):
            consumer.seek("broker-a", 0, 100)


def test_lite_consumer_commits_what_it_polled(cluster: Cluster, clients: Clients) -> None:
    """The next one of its group goes on there."""
    fill(clients, cluster, "LiteCommits")
    with clients.lite("lite-0", "LiteCommits", group="liteCommits", assign=[0]) as first:
        assert len(first.poll(9)) == 9
        assert first.commit() == {"broker-a:0": 9}
    clients.send("LiteCommits", [{"body": "next", "broker": "broker-a", "queue": 0}], "queue")
    with clients.lite("lite-1", "LiteCommits", group="liteCommits", assign=[0]) as second:
        assert [one.body for one in second.poll(1)] == ["next"]


def test_lite_consumers_share_what_they_subscribe_to(cluster: Cluster, clients: Clients) -> None:
    """subscribe: all queues for one, one queue each for two, filtered by tags and by SQL."""
    fill(clients, cluster, "LiteShared")
    with clients.lite("share-0", "LiteShared", group="liteShared") as first:
        assert sorted(one.body for one in first.poll(10)) == [f"pull {n}" for n in range(10)]
        with clients.lite("share-1", "LiteShared", group="liteShared") as second:
            eventually(
                lambda: (first.queues(), second.queues()) == (["broker-a:0"], ["broker-a:1"]),
                "two lite consumers to share two queues",
            )
        eventually(lambda: len(first.queues()) == 2, "the queue that the other left")
    with clients.lite("liteTags", "LiteShared", tags="T0") as tagged:
        assert sorted(one.body for one in tagged.poll(5)) == [f"pull {n}" for n in (0, 2, 4, 6, 8)]
    with clients.lite("liteSql", "LiteShared", sql="number BETWEEN 7 AND 9") as chosen:
        assert sorted(one.body for one in chosen.poll(3)) == ["pull 7", "pull 8", "pull 9"]
