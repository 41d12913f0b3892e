"""Bodies of staged batches: the pieces of decisions and publications, and the table of sinks."""

from typing import Final

from msgspec import field

from roketto.protocol.bodies.base import Body, Long

__all__ = ["NEVER", "SinkEntry", "SinkTableBody", "StagedDecision", "StagedPieces"]

NEVER: Final = -1
"""Stands for the number of a batch, or the place of a record, that there is none of."""


class StagedDecision(Body):
    """The body of DECIDE_STAGED: by the name of each broker its pieces, in their order.

    A piece is where it lies in the log and its size, as the answer to STAGE_BATCH has told them.
    """

    pieces: dict[str, list[list[Long]]] = field(default_factory=dict)


class StagedPieces(Body):
    """The body of PUBLISH_STAGED: the pieces of one broker."""

    pieces: list[list[Long]] = field(default_factory=list)


class SinkEntry(Body):
    """How far one sink is: of batches their numbers, of records where they lie in the log."""

    begun_at: Long = NEVER
    """The record by which its last publication began."""
    begun_batch_id: Long = NEVER
    decided_at: Long = NEVER
    """The record of its last decision."""
    decided_batch_id: Long = NEVER
    digest: str = ""
    """Of the pieces of the batch that was begun."""
    has_pieces_here: bool = False
    """Whether the last decision names pieces of this broker."""
    published_batch_id: Long = NEVER
    query_id: str = ""
    used_ms: Long = 0


class SinkTableBody(Body):
    """``config/sinks.json``; ``next_offset`` is that of the first step that may not be in it."""

    next_offset: Long = 0
    sink_table: dict[str, SinkEntry] = field(default_factory=dict)
