"""The messages of a batch for a topic that takes each message once.

Each of them counts by itself: those that came before are left out and answered with their places,
the others are stored side by side as a batch. Messages of one batch are not compared with each
other.
"""

from dataclasses import dataclass
from itertools import accumulate

from roketto.broker.context import Context
from roketto.broker.dedup import find_first, queue_of
from roketto.broker.dedup_window import DedupWindow
from roketto.broker.put import put_batch
from roketto.protocol.batch import BatchItem, decode_batch, encode_batch
from roketto.protocol.errors import RecordError
from roketto.protocol.ids import encode_offset_id
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import UNIQ_KEY
from roketto.protocol.record import Record

__all__ = ["Told", "put_batch_once"]


@dataclass(frozen=True, slots=True)
class Told:
    """What the producer of a batch is told; the messages are safe at ``end`` of the log."""

    message_ids: list[str]
    queue_id: str
    queue_offset: int
    end: int

    def ext(self, raw: bytes) -> dict[str, str]:
        """The fields of the answer to a batch with these properties."""
        ext = {
            "msgId": ",".join(self.message_ids),
            "queueId": self.queue_id,
            "queueOffset": str(self.queue_offset),
        }
        unique_key = get_property(raw, UNIQ_KEY)
        return ext if unique_key is None else ext | {"transactionId": unique_key}


def put_batch_once(context: Context, window: DedupWindow, batch: Record) -> Told:
    """Store what is new of a batch; PutRefusedError, as from ``put_batch``, if that cannot be."""
    try:
        items = decode_batch(batch.body)
    except RecordError:
        items = []
    firsts = [_first(context, window, item) for item in items]
    fresh = [item for item, first in zip(items, firsts, strict=True) if first is None]
    places: list[int] = []
    queue_offset = end = 0
    if fresh or not items:
        if len(fresh) < len(items):
            batch.body = encode_batch(fresh)
        where = put_batch(context, batch)  # which refuses what is no batch
        places = list(accumulate(where.sizes[:-1], initial=where.log_offset))
        queue_offset, end = where.queue_offset, where.end
    for item, place in zip(fresh, places, strict=True):
        identity = window.identity(item.properties_raw)
        if identity is not None:
            window.remember(identity, place)
    context.topics.windows.room.duplicates += len(items) - len(fresh)
    return _told(batch, window, firsts, places, queue_offset, end)


def _first(context: Context, window: DedupWindow, item: BatchItem) -> Record | None:
    identity = window.identity(item.properties_raw)
    return None if identity is None else find_first(context, window, identity, is_half=False)


def _told(
    batch: Record,
    window: DedupWindow,
    firsts: list[Record | None],
    places: list[int],
    queue_offset: int,
    end: int,
) -> Told:
    """The ids of all messages in their order, and the place of the first of them."""
    fresh = iter(places)
    ids = [
        first.offset_id if first is not None else encode_offset_id(batch.store_host, next(fresh))
        for first in firsts
    ]
    known = [first for first in firsts if first is not None]
    end = max([end, *(first.log_offset + first.size for first in known)])
    head = firsts[0]
    if head is None:
        return Told(ids, str(batch.queue_id), queue_offset, end)
    return Told(ids, queue_of(head, window), head.queue_offset, end)
