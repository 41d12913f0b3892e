"""What is kept of staged batches: pieces and the steps of sinks as records, without a store.

A *piece* is one record of rmq_sys_staged: its body is a batch of messages for one queue, which its
properties name. Publishing it is to store these messages where they belong; each of them then has,
as ``prepared_log_offset``, where the piece ends in the log. So after a kill the queue itself tells
how many of a piece are there::

    rmq_sys_staged   P1       P2
    rmq_sys_sinks                 decided  begun                          published
    T, queue 0                                    p1a p1b p1c  p2a
    T, queue 1

A *step* of a sink is one record of rmq_sys_sinks.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from roketto.protocol import property_names as names
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.names import SINKS_TOPIC, STAGED_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record

__all__ = [
    "BEGUN", "DECIDED", "PUBLISHED", "QUEUE_ID", "Piece", "Step", "check_batch_id", "check_id",
    "check_pieces", "digest_of", "make_piece", "make_step", "read_piece", "read_step",
]  # fmt: skip

QUEUE_ID: Final = 0
"""Both topics have this queue only."""

DECIDED: Final = "decided"
BEGUN: Final = "begun"
PUBLISHED: Final = "published"
_STEPS: Final = frozenset({DECIDED, BEGUN, PUBLISHED})

_SINK: Final = "SINK_ID"
_BATCH: Final = "SINK_BATCH"
_QUERY: Final = "SINK_QUERY"
_COUNT: Final = "SINK_COUNT"

_ID: Final = re.compile(r"[!-~]{1,255}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_SHOWN_CHARS: Final = 64


class Piece(NamedTuple):
    """Messages that wait for what their sink decides."""

    log_offset: int
    size: int
    sink_id: str
    batch_id: int
    topic: str
    queue_id: int
    messages: int
    """How many it has."""
    record: Record
    """The record itself; its body may have been left out."""

    @property
    def end(self) -> int:
        """Where it ends in the log, by which its messages name it once they are published."""
        return self.log_offset + self.size


class Step(NamedTuple):
    """What a sink has done with a batch: DECIDED, BEGUN or PUBLISHED."""

    kind: str
    sink_id: str
    batch_id: int
    query_id: str
    body: bytes


# --- what peers say -------------------------------------------------------------------------------


def check_id(name: str, text: str) -> None:
    """RequestError unless a text may be the id of a sink or a query; ``name`` is its field."""
    if not _ID.fullmatch(text):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"{name} is {text[:_SHOWN_CHARS]!a} of {len(text)} characters; write 1 to 255 visible"
            " ASCII characters without blanks",
        )


def check_batch_id(batch_id: int) -> None:
    """RequestError unless a batch may have this number."""
    if batch_id < 0:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, f"batchId is {batch_id}; batches count from 0 on"
        )


def check_pieces(pieces: list[list[int]]) -> None:
    """RequestError unless each is a place in a log and a size, and none of them is there twice."""
    seen: set[int] = set()
    for piece in pieces:
        if len(piece) != 2 or piece[0] < 0 or piece[1] <= 0:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"{piece[:4]} is no piece; write [logOffset, size] as STAGE_BATCH has told them",
            )
        if piece[0] in seen:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"the piece at {piece[0]} is there twice; name each of them once",
            )
        seen.add(piece[0])


def digest_of(pieces: Iterable[list[int]]) -> str:
    """What tells a list of pieces from others."""
    text = "".join(f"{log_offset}:{size}," for log_offset, size in pieces)
    return hashlib.sha256(text.encode()).hexdigest()


# --- pieces ---------------------------------------------------------------------------------------


def make_piece(
    sink_id: str, batch_id: int, topic: str, queue_id: int, body: bytes | memoryview, count: int
) -> Record:
    """The record of a piece, but for its hosts and times."""
    properties = {
        names.REAL_TOPIC: topic,
        names.REAL_QUEUE_ID: str(queue_id),
        _SINK: sink_id,
        _BATCH: str(batch_id),
        _COUNT: str(count),
    }
    return Record(STAGED_TOPIC, body, encode_properties(properties), QUEUE_ID)


def read_piece(record: Record) -> Piece | None:
    """The piece that a record is, None if it is another one."""
    if record.topic != STAGED_TOPIC:
        return None
    sink_id = record.get_property(_SINK)
    topic = record.get_property(names.REAL_TOPIC)
    batch_id = _number(record, _BATCH)
    queue_id = _number(record, names.REAL_QUEUE_ID)
    count = _number(record, _COUNT)
    if not sink_id or not topic or min(batch_id, queue_id, count) < 0:
        return None
    return Piece(record.log_offset, record.size, sink_id, batch_id, topic, queue_id, count, record)


# --- steps ----------------------------------------------------------------------------------------


def make_step(step: Step) -> Record:
    """The record of a step, but for its hosts and times; operators find it by the sink's id."""
    properties = {
        names.KEYS: step.sink_id,
        names.TAGS: step.kind,
        _SINK: step.sink_id,
        _BATCH: str(step.batch_id),
        _QUERY: step.query_id,
    }
    return Record(SINKS_TOPIC, step.body, encode_properties(properties), QUEUE_ID)


def read_step(record: Record) -> Step | None:
    """The step that a record is, None if it is another one."""
    kind = record.get_property(names.TAGS) or ""
    sink_id = record.get_property(_SINK)
    query_id = record.get_property(_QUERY)
    batch_id = _number(record, _BATCH)
    if record.topic != SINKS_TOPIC or kind not in _STEPS or not sink_id or not query_id:
        return None
    return Step(kind, sink_id, batch_id, query_id, bytes(record.body)) if batch_id >= 0 else None


def _number(record: Record, name: str) -> int:
    """A number that the broker has written; -1 without one."""
    text = record.get_property(name) or ""
    return int(text) if _NUMBER.fullmatch(text) else -1
