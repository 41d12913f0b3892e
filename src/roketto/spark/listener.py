"""A listener that tells brokers how far a query is, also after its last batch.

The source itself commits the offsets of its group when the next batch begins (``commitOffsets``).
A query that ends with its batch, as with ``trigger(once=True)``, never begins another one; and some
want groups to be kept by whoever watches queries, not by the source.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from roketto.client.errors import ClientError
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.cluster import Cluster
from roketto.spark.offsets import OffsetError, StreamOffset
from roketto.spark.options import OptionError
from roketto.spark.source_options import SourceOptions

__all__ = ["GroupOffsetListener"]

log = logging.getLogger(__name__)


class GroupOffsetListener(StreamingQueryListener):
    """Commits the end of every batch for a group, from the driver.

    options = {"nameServer": "10.0.0.5:9876", "topic": "Orders", "group": "orders-report"}
    spark.streams.addListener(GroupOffsetListener(options))

    It takes the options of the source, and looks at the topics that these choose, in all queries of
    the session or in the one whose name or id is given. What cannot be committed is logged.
    """

    def __init__(self, options: Mapping[str, str], query: str | None = None) -> None:
        self._options = SourceOptions.of(
            {name: value for name, value in options.items() if name.lower() != "commitoffsets"},
            is_stream=True,
        )
        if not self._options.group:
            raise OptionError("a listener commits the offsets of a group: name it, as option group")
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing: there is no batch yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing: the last batch was told of."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing: the last batch was told of."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done, and in the checkpoint."""
        progress = event.progress
        if self._query is not None and self._query not in (progress.name, str(progress.id)):
            return
        offsets: dict[MessageQueue, int] = {}
        for source in progress.sources:
            offsets |= self._offsets(source.endOffset)
        if not offsets:
            return
        try:
            cluster = Cluster.of(self._options.connection)
            cluster.commit_group_offsets(self._options.group, offsets)
        except ClientError as error:
            log.warning("offsets of batch %s are not committed: %s", progress.batchId, error)

    def _offsets(self, text: Any) -> dict[MessageQueue, int]:
        """The offsets of a source, none of one that is not ours."""
        try:
            value = json.loads(text) if isinstance(text, str) else text
            offset = StreamOffset.parse(value)
        except (ValueError, TypeError, AttributeError, OffsetError):
            return {}
        return {
            queue: position
            for queue, position in offset.positions.items()
            if self._options.chooses(queue)
        }
