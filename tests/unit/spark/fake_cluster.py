"""A cluster in memory for what drivers ask: queues with two ends, groups, brokers that are away."""

from collections.abc import Iterable, Mapping

import pytest

from roketto.client.errors import ClientError, TopicNotFoundError, UnreachableError
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster
from roketto.spark.options import ConnectionOptions

T0, T1 = MessageQueue("b", 0, "T"), MessageQueue("b", 1, "T")


class FakeCluster:
    """What Cluster has, as far as it concerns drivers."""

    def __init__(self) -> None:
        self.ends: dict[MessageQueue, tuple[int, int]] = {}
        self.times_ms: dict[MessageQueue, list[int]] = {}
        """When messages were stored, of queues that begin at 0."""
        self.groups: dict[str, dict[MessageQueue, int]] = {}
        self.away: set[MessageQueue] = set()
        self.looks = 0

    @classmethod
    def put_in_place(cls, monkeypatch: pytest.MonkeyPatch) -> "FakeCluster":
        """Let everybody who asks for the shared cluster get this one."""
        fake = cls()

        def of(options: ConnectionOptions) -> FakeCluster:
            return fake

        monkeypatch.setattr(Cluster, "of", of)
        return fake

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.ends} | {"%RETRY%g", "rmq_sys_x", "b"})

    def server_names(self) -> set[str]:
        return {"b", "DefaultCluster"}

    def queues(self, topic: str) -> list[MessageQueue]:
        found = sorted(queue for queue in self.ends if queue.topic == topic)
        if not found:
            raise TopicNotFoundError(topic, "nobody knows it")
        return found

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.ends[queue][0] for queue in queues}

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        found, failed = self.try_max_offsets(queues)
        for error in failed.values():
            raise error
        return found

    def try_max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, ClientError]]:
        self.looks += 1
        asked = list(queues)
        gone = UnreachableError("h:1", "h:1 does not answer", is_sent=True)
        failed: dict[MessageQueue, ClientError] = dict.fromkeys(
            [queue for queue in asked if queue in self.away], gone
        )
        return {queue: self.ends[queue][1] for queue in asked if queue not in failed}, failed

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {
            queue: sum(stored < time_ms for stored in self.times_ms.get(queue, []))
            for queue, time_ms in times_ms.items()
        }

    def group_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        return {queue: self.groups.get(group, {}).get(queue) for queue in queues}

    def commit_group_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.groups.setdefault(group, {}).update(offsets)
