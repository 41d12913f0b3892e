"""The commit of a transaction whose half message is a plain one, as nearly all are.

What its producer says of it is compared with what the broker remembers, and only the message is
read from the log, to be stored where it belongs. All else is left to ``handlers.transactions``.
"""

from typing import Final

from librt.strings import read_i32_be

from roketto.broker.context import Context
from roketto.broker.dedup import note_committed
from roketto.broker.half_messages import as_committed_plain
from roketto.broker.put import put_as_is

__all__ = ["NOT_PLAIN_END", "commit_plain"]

NOT_PLAIN_END: Final = -1
_SIZE_BYTES: Final = 4


def commit_plain(context: Context, offset: int, log_offset: int, group: str) -> int:
    """Commit the open transaction of the half message at these places; where its message ends.

    NOT_PLAIN_END, and nothing done, if there is no plain one of this group. PutRefusedError if the
    store does not take the message: the transaction is open then.
    """
    transactions = context.transactions
    found = transactions.find_plain(offset, log_offset, group)
    if found is None:
        return NOT_PLAIN_END
    counted, queue_id = found.counted, found.queue_id
    log = context.store.log
    size = read_i32_be(bytes(log.read(log_offset, _SIZE_BYTES)), 0)
    half = bytes(log.read(log_offset, size))
    committed = as_committed_plain(half, counted.topic, queue_id, counted.real_queue_end(queue_id))
    if committed is None:
        return NOT_PLAIN_END
    where = put_as_is(context.store, context.stats, committed)
    if context.topics.windows.get(counted.topic) is not None:
        note_committed(context, counted.topic, committed.properties_raw, where.log_offset)
    end = where.log_offset + where.size
    transactions.commit(found.first, found.offset, end)
    return end
