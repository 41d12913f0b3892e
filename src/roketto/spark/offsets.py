"""Offsets of streams and of options as JSON: canonical, sorted, by topic, broker and queue; pure.

A stream's offset, as checkpoints keep it::

    {"init": {...}, "q": {"Orders": {"broker-a": {"0": 17, "1": 4}}}, "v": 1}

``q`` has for each queue the offset of the next message, which is not read yet. ``init`` says where
queues begin that the offset before this one does not know: all of them in the first offset, those
that were added since in later ones. So what a batch reads follows from what the checkpoint has,
also when the first batch is replayed and Spark asks for a new beginning. Spark compares offsets as
texts: keys are always in the same order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from roketto.protocol.bodies.route import MessageQueue

__all__ = ["OffsetError", "QueueOffsets", "StreamOffset", "flatten", "nest"]

QueueOffsets = Mapping[MessageQueue, int]
"""An offset for each queue."""

VERSION: Final = 1
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class OffsetError(ValueError):
    """A JSON that has no offsets in it; the text says what is wrong where."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream is.

    offset = StreamOffset.parse(start)
    StreamOffset({queue: 5}).to_json()
    """

    positions: QueueOffsets
    starts: QueueOffsets = field(default_factory=dict)

    @classmethod
    def beginning(cls, positions: QueueOffsets) -> "StreamOffset":
        """Where a new stream begins: nothing is read, and every queue is new."""
        return cls(positions, positions)

    @property
    def is_beginning(self) -> bool:
        """Whether nothing has been read yet."""
        return self.starts == self.positions

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it; the same offset always gives the same text."""
        found: dict[str, Any] = {"q": nest(self.positions), "v": VERSION}
        if self.starts or self.is_beginning:
            found = {"init": nest(self.starts), **found}
        return found

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> "StreamOffset":
        """What ``to_json`` has made; OffsetError for anything else."""
        version = value.get("v")
        if version != VERSION or "q" not in value:
            raise OffsetError(
                f"offset {str(value)[:200]} is not of format {VERSION} of the rocketmq source; a"
                " checkpoint belongs to the query that has made it: use another location"
            )
        return cls(flatten(value["q"]), flatten(value.get("init", {})))

    def starts_of(self, end: "StreamOffset") -> dict[MessageQueue, int]:
        """Where each queue of ``end`` begins, if this is the offset before it.

        What ``end`` says itself counts: this may be a beginning that was looked up anew for a
        replay of the first batch. Between an offset and itself there is nothing: another source of
        the same query has a batch then.
        """
        if self == end:
            return dict(end.positions)
        return {
            queue: end.starts.get(queue, self.positions.get(queue, position))
            for queue, position in end.positions.items()
        }

    def followed_by(self, positions: QueueOffsets, new: QueueOffsets) -> "StreamOffset":
        """The offset after this one; ``new`` says where queues begin that this has not."""
        starts = {**self.positions, **new} if self.is_beginning else dict(new)
        return StreamOffset(positions, starts)


def nest(offsets: QueueOffsets) -> dict[str, dict[str, dict[str, int]]]:
    """Offsets by topic, broker and queue, in order."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets, key=_order):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return found


def _order(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def flatten(value: Any, low: int = 0) -> dict[MessageQueue, int]:
    """The offsets in ``{topic: {broker: {queue: offset}}}``, none below ``low``."""
    found: dict[MessageQueue, int] = {}
    for topic, brokers in _items(value, "topics"):
        for broker_name, queues in _items(brokers, f"brokers of {topic}"):
            for text, offset in _items(queues, f"queues of {topic} on {broker_name}"):
                where = f"queue {text} of {topic} on {broker_name}"
                is_number = isinstance(offset, int) and not isinstance(offset, bool)
                if not is_number or not low <= offset <= _LONG_MAX:
                    raise OffsetError(
                        f"{where} has {offset!r}, which is no whole number from {low} on"
                    )
                found[MessageQueue(broker_name, _queue_id(text, where), topic)] = offset
    return found


def _items(value: Any, what: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise OffsetError(
            f'{what} are {str(value)[:100]!r}; write {{"topic": {{"broker": {{"0": 23}}}}}}'
        )
    return list(value.items())


def _queue_id(text: str, where: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) <= _INT_MAX:
        return int(text)
    raise OffsetError(f"{where}: {text!r} is no number of a queue")
