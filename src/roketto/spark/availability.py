"""What queues have for a stream: found anew from time to time, with brokers that may be away.

A queue whose broker does not answer, or that has left the route, stays where it is while others go
on. That is logged; after ``pullTimeoutMs`` it ends the query, unless ``failOnDataLoss`` is false.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from roketto.client.errors import ClientError
from roketto.clock import monotonic_s
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster
from roketto.spark.loss import report_loss
from roketto.spark.places import chosen_queues, shown
from roketto.spark.source_options import SourceOptions

__all__ = ["Availability", "OutageError"]

log = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 10.0


class OutageError(Exception):
    """Brokers have not answered for longer than the source may wait."""


class Availability:
    """The ends of all queues that a stream reads, as far as brokers tell them.

    availability = Availability(options)
    ends, starts = availability.look(positions)     # starts: of queues that positions have not
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._queues: list[MessageQueue] = []
        self._found_s: float | None = None
        self._starts: dict[MessageQueue, int] = {}
        """Where queues begin that are new, and have had no message to read yet."""
        self._away_since_s: dict[MessageQueue, float] = {}
        self._logged_s: float | None = None
        self._frozen: dict[MessageQueue, int] | None = None
        self.latest: dict[MessageQueue, int] = {}
        """What the last look has found."""

    @property
    def is_frozen(self) -> bool:
        """Whether messages that come now are left to another run."""
        return self._frozen is not None

    def freeze(self) -> None:
        """Take what there is now as all there will be; ClientError if that cannot be told."""
        cluster = self._cluster
        self._queues = chosen_queues(cluster, self._options)
        self._frozen = cluster.max_offsets(self._queues)

    @property
    def _cluster(self) -> Cluster:
        return Cluster.of(self._options.connection)

    def look(
        self, positions: Mapping[MessageQueue, int]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
        """The ends of queues, and where those begin that ``positions`` do not have.

        No end is before its position: a queue that has lost messages ends where it does now, with
        ``failOnDataLoss`` false, and the query ends otherwise.
        """
        self._discover()
        ends, failed = self._ask(positions)
        gone = [queue for queue in positions if queue not in ends and queue not in failed]
        self._note_away([*failed, *gone], failed)
        starts = self._starts_of([queue for queue in ends if queue not in positions])
        self.latest = dict(ends)
        ends = {queue: end for queue, end in ends.items() if queue in positions or queue in starts}
        for queue, position in positions.items():
            end = ends.setdefault(queue, position)
            if end < position:
                report_loss(
                    self._options.fails_on_data_loss,
                    f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} was read up to"
                    f" {position}, and ends at {end}",
                )
        return ends, starts

    def _ask(
        self, positions: Mapping[MessageQueue, int]
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, ClientError]]:
        if self._frozen is None:
            return self._cluster.try_max_offsets(self._queues)
        # A stream may begin behind what was there when it was frozen; that is no loss.
        behind = [queue for queue, end in self._frozen.items() if positions.get(queue, 0) > end]
        if not behind:
            return self._frozen, {}
        now, failed = self._cluster.try_max_offsets(behind)
        ends = {**self._frozen, **{queue: min(end, positions[queue]) for queue, end in now.items()}}
        return {queue: end for queue, end in ends.items() if queue not in failed}, failed

    def _discover(self) -> None:
        """Look for queues and topics that have come; what cannot be told now stays as it was."""
        now_s = monotonic_s()
        interval_s = self._options.discovery_interval_ms / 1000
        if self.is_frozen or (self._found_s is not None and now_s - self._found_s < interval_s):
            return
        try:
            self._queues = chosen_queues(self._cluster, self._options)
        except ClientError as error:
            self._log(f"its queues stay as they were: {error}")
        self._found_s = now_s

    def _starts_of(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """New queues are read from their beginning; one that cannot be asked for it waits."""
        wanted = list(queues)
        unknown = [queue for queue in wanted if queue not in self._starts]
        if unknown:
            try:
                self._starts |= self._cluster.min_offsets(unknown)
            except ClientError as error:
                self._log(f"new queues are left for later: {error}")
        self._starts = {queue: self._starts[queue] for queue in wanted if queue in self._starts}
        return dict(self._starts)

    def _note_away(
        self, queues: Collection[MessageQueue], failed: Mapping[MessageQueue, ClientError]
    ) -> None:
        now_s = monotonic_s()
        self._away_since_s = {queue: self._away_since_s.get(queue, now_s) for queue in queues}
        if not queues:
            return
        reason = next((str(error) for error in failed.values()), "no route has them")
        text = f"{shown(queues)}: {reason}"
        longest_s = now_s - min(self._away_since_s.values())
        timeout_ms = self._options.pull_timeout_ms
        if longest_s > timeout_ms / 1000 and self._options.fails_on_data_loss:
            raise OutageError(
                f"given up after {timeout_ms} ms (pullTimeoutMs), with failOnDataLoss: {text}"
            )
        self._log(f"it waits for {text}")

    def _log(self, text: str) -> None:
        now_s = monotonic_s()
        if self._logged_s is None or now_s - self._logged_s > _LOG_EVERY_S:
            self._logged_s = now_s
            log.warning("rocketmq stream: %s", text)
