"""What one task has written, as the driver is told.

Spark starts a process for each commit, which reads this before anything else: it needs nothing of
what tasks write with.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from roketto.spark.task_context import Identity

__all__ = ["DECIDED", "HALF", "SENT", "STAGED", "Half", "Piece", "Written"]

SENT: Final = "sent"
STAGED: Final = "staged"
HALF: Final = "half"
DECIDED: Final = "decided"
"""What a task has done with its rows; of a batch that was decided before, it has only read them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A staged batch: what a task has of it."""

    broker_name: str
    log_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Half:
    """A half message: what a task has of it."""

    broker_name: str
    topic: str
    queue_id: int
    half_queue_offset: int
    log_offset: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has written."""

    kind: str
    row_count: int
    identity: Identity | None = None
    pieces: tuple[Piece, ...] = ()
    halves: tuple[Half, ...] = ()
