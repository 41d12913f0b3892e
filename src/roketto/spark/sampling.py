"""How large messages are: a look at the next ones of each queue, for limits in bytes."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from roketto.client.errors import ClientError
from roketto.protocol.bodies.route import MessageQueue
from roketto.spark.answers import Answer, Asking, Outcome
from roketto.spark.cluster import Cluster
from roketto.spark.source_options import SourceOptions

__all__ = ["bytes_per_row"]

log = logging.getLogger(__name__)

_SAMPLE_BYTES: Final = 64 * 1024
_SAMPLE_ROWS: Final = 1_000
_QUEUES_MAX: Final = 32
"""Queues that are looked at; others have messages like these."""
_UNKNOWN_BYTES: Final = 1_024.0


def bytes_per_row(
    cluster: Cluster, options: SourceOptions, starts: Mapping[MessageQueue, int]
) -> float:
    """The mean size of a record, from the first ones behind ``starts``; at least 1.

    Offsets that a filter passes by count as rows without bytes.
    """
    client = cluster.client

    async def look(queue: MessageQueue, at: int) -> tuple[int, int]:
        asking = Asking(
            client, cluster.named(queue), options.pull_group, options.tag_expression, options.sql,
            None,
        )  # fmt: skip
        try:
            address, _ = await asking.address()
            is_ours = await cluster.knows_ranges(address)
            if is_ours and asking.takes_ranges and not asking.is_static:
                answer = await asking.read_range(at, at + _SAMPLE_ROWS, _SAMPLE_BYTES)
            else:
                answer = await asking.pull(at)
        except ClientError as error:
            log.debug("no sample of %s: %s", queue, error)
            return 0, 0
        return _size(answer, at)

    async def work() -> list[tuple[int, int]]:
        some = list(starts.items())[:_QUEUES_MAX]
        return list(await asyncio.gather(*(look(queue, at) for queue, at in some)))

    found = cluster.run(work())
    rows = sum(count for count, _ in found)
    return max(1.0, sum(size for _, size in found) / rows) if rows else _UNKNOWN_BYTES


def _size(answer: Answer, at: int) -> tuple[int, int]:
    """Rows and bytes of an answer."""
    if answer.outcome not in (Outcome.FOUND, Outcome.NONE_WANTED):
        return 0, 0
    return max(0, answer.next_offset - at), len(answer.data)
