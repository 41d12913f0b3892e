"""The commit of a transaction whose half message is a plain one, as nearly all are.

What its producer says of it is compared with what the broker remembers, and only the message is
read from the log, to be stored where it belongs. All else is left to ``handlers.transactions``.
"""

from typing import Final

from roketto.broker.context import Context
from roketto.broker.dedup import note_committed
from roketto.broker.half_messages import as_committed_plain
from roketto.store.put_status import PutRefusedError

__all__ = ["NOT_PLAIN_END", "commit_plain"]

NOT_PLAIN_END: Final = -1


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
    topic, log = counted.topic, context.store.log
    half = bytes(log.read(log_offset, found.size))
    committed = as_committed_plain(half, topic, queue_id, counted.real_queue_end(queue_id))
    if committed is None or not log.is_within_bounds(len(committed.body)):
        return NOT_PLAIN_END
    try:
        place = context.store.appender.append_fields(
            topic, counted.field, queue_id, committed.flag, committed.sys_flag,
            committed.born_time_ms, committed.born_host, committed.store_host, committed.body,
            committed.properties_raw, committed.reconsume_times, committed.prepared_log_offset,
        )  # fmt: skip
    except PutRefusedError:
        context.stats.put_failed += 1
        raise
    context.stats.note_put(topic, queue_id, 1, place[2], log.store_time_ms)
    if context.topics.windows.get(topic) is not None:
        note_committed(context, topic, committed.properties_raw, place[1])
    end = place[1] + place[2]
    transactions.commit(found.first, found.offset, end)
    return end
