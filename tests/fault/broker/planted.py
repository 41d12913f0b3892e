"""Our broker with a bug in it, so that a fault test can be seen to fail.

    python -m fault.broker.planted BUG broker -c broker.conf

Whatever follows the name of the bug is what ``roketto`` takes.
"""

import asyncio
import errno
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from roketto.__main__ import main
from roketto.broker import publications, timer_gate
from roketto.broker import transactions as app_transactions
from roketto.broker.app import Broker
from roketto.broker.context import Context
from roketto.broker.dedup import Rebuild
from roketto.broker.delay_levels import Wait
from roketto.broker.delays import Delays
from roketto.broker.durability import Durability
from roketto.broker.half_messages import as_committed
from roketto.broker.handlers import send_back
from roketto.broker.handlers import transactions as end_handlers
from roketto.broker.locks import QueueLocks
from roketto.broker.offsets import Offsets
from roketto.broker.registrar import Registrar, Standing
from roketto.broker.registrar_agenda import Work
from roketto.broker.retry import Retry, decide_send_back
from roketto.broker.send_lane import SendLane
from roketto.broker.timer_flush import TimerFlush
from roketto.broker.timer_rules import slot_of
from roketto.broker.timers import Timers
from roketto.broker.transactions import Transactions
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.command import Command
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_TYPE
from roketto.remoting.connection import Connection, Reply
from roketto.store.appender import Appender
from roketto.store.checkpoint import IndexMark
from roketto.store.disk import Disk, Usage
from roketto.store.diskgate import DiskGate
from roketto.store.index import Index
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.put_result import BatchResult, PutResult
from roketto.store.timer_log import TimerUnit
from roketto.store.unit import Unit

BUFFERED_MAX: Final = 64
SKIPPED_BY: Final = 37
"""Messages at multiples of it in the log are skipped: one in so many, whatever their size."""
FULL: Final = "full"
"""The file that makes a disk full for a broker with limit_the_disk."""
LANES: Final = "lanes"
QUICK: Final = b"q"
HELD: Final = b"h"


def put(owner: object, name: str, bug: object) -> None:
    setattr(owner, name, bug)


def acknowledge_early() -> None:
    """Plain messages are acknowledged while they are in our memory, and stored a little later."""
    append, append_batch = Appender.append, Appender.append_batch
    append_fields = Appender.append_fields
    buffered: deque[tuple[Any, ...]] = deque()

    def append_later(appender: Appender, *fields: Any) -> tuple[int, int, int]:
        topic, _, queue_id = fields[:3]
        before = sum((other[0], other[2]) == (topic, queue_id) for other in buffered)
        queue = appender._queues.get(topic, queue_id)
        buffered.append(fields)
        offset = before + appender._next_offset(queue, topic, queue_id)
        if len(buffered) > BUFFERED_MAX:
            append_fields(appender, *buffered.popleft())
        return offset, 0, 0

    def append_all(appender: Appender) -> None:
        while buffered:
            append_fields(appender, *buffered.popleft())

    def append_one(appender: Appender, record: Record) -> PutResult:
        append_all(appender)
        return append(appender, record)

    def append_many(appender: Appender, batch: Record) -> BatchResult:
        append_all(appender)
        return append_batch(appender, batch)

    def answer_now(
        durability: Durability, connection: Connection, request: Command, answer: Command, end: int
    ) -> Reply:
        return answer

    def write_now(durability: Durability, connection: Connection, answer: bytes, end: int) -> None:
        connection.put(answer)

    put(Appender, "append_fields", append_later)
    put(Appender, "append", append_one)
    put(Appender, "append_batch", append_many)
    put(Durability, "answer_when_safe", answer_now)
    put(Durability, "write_when_safe", write_now)


def note_lanes() -> None:
    """No bug: a letter is written to the file LANES, beside the configuration, for each answer.

    QUICK stands for one of the send lane, HELD for one of these that waits for the disk.
    """
    notes = os.open(Path(sys.argv[-1]).with_name(LANES), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    answer_quickly, write_when_safe = SendLane.answer, Durability.write_when_safe

    def answer(lane: SendLane, connection: Connection, data: bytes, at: int, end: int) -> bool:
        is_answered = answer_quickly(lane, connection, data, at, end)
        if is_answered:
            os.write(notes, QUICK)
        return is_answered

    def write(durability: Durability, connection: Connection, answer: bytes, end: int) -> None:
        os.write(notes, HELD)
        write_when_safe(durability, connection, answer, end)

    put(SendLane, "answer", answer)
    put(Durability, "write_when_safe", write)


def deliver_again() -> None:
    """Delays know only what a table says that is never saved."""
    put(Delays, "_is_delivered", lambda *args: False)
    put(Delays, "settle", lambda delays: None)


def deliver_early() -> None:
    """No message waits."""
    put(Wait, "remaining_s", lambda *args: 0.0)


def deliver_some() -> None:
    """Some delayed messages are taken for delivered, by every process the same."""
    deliver_one = Delays._deliver_one

    def deliver(delays: Delays, level: Any, unit: Unit) -> bool:
        return unit.log_offset % SKIPPED_BY == 0 or deliver_one(delays, level, unit)

    put(Delays, "_deliver_one", deliver)


def timers_again() -> None:
    """Timers know only what a checkpoint says that is never saved."""
    put(Timers, "_is_old", lambda *args: False)
    put(TimerFlush, "_take", lambda *args: False)
    put(TimerFlush, "close", lambda *args: None)


def timers_early() -> None:
    """Slots begin before the messages in them are due."""
    put(timer_gate, "slot_of", lambda deliver, precision: slot_of(deliver, precision) - 500)


def timers_lost() -> None:
    """Some timer messages are taken for delivered, by every process the same."""
    deliver = Timers._deliver

    def deliver_some(timers: Timers, due: Any, unit: TimerUnit) -> bool:
        return unit.log_offset % SKIPPED_BY == 0 or deliver(timers, due, unit)

    put(Timers, "_deliver", deliver_some)


def share_the_store() -> None:
    """The lock of a store keeps nobody out."""

    def open_only(disk: Disk, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    put(Disk, "lock", open_only)


def stop_abruptly() -> None:
    """Whoever is asked to stop just ends."""

    async def end(broker: Broker) -> None:
        os._exit(0)

    put(Broker, "stop", end)


def limit_the_disk() -> None:
    """No bug: there is no room while a file of the name FULL stands beside the store."""
    reserve, usage = Disk.reserve, Disk.usage
    flags: set[Path] = set()

    def measure(disk: Disk, path: Path) -> Usage:
        root = next(it for it in (path, *path.parents) if it.name == "store")
        flags.add(root.parent / FULL)
        found = usage(disk, path)
        return Usage(found.total, 0) if any(flag.exists() for flag in flags) else found

    def reserve_unless_full(disk: Disk, descriptor: int, size: int) -> None:
        if any(flag.exists() for flag in flags):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(disk, descriptor, size)

    put(Disk, "usage", measure)
    put(Disk, "reserve", reserve_unless_full)


def stay_full() -> None:
    """A disk that was full once is taken for full."""
    limit_the_disk()
    measure = DiskGate.measure

    def only_close(gate: DiskGate, path: Path, percent: int, **bounds: int) -> None:
        if percent > bounds["warning_percent"]:
            measure(gate, path, percent, **bounds)

    put(DiskGate, "retry", lambda gate: None)
    put(DiskGate, "measure", only_close)


def forget_commits() -> None:
    """What groups commit is not kept."""
    put(Offsets, "commit", lambda *args: None)


def skip_one() -> None:
    """Groups go on behind the message that they should begin with."""
    get = Offsets.get

    def get_too_far(offsets: Offsets, topic: str, group: str, queue_id: int) -> int | None:
        offset = get(offsets, topic, group, queue_id)
        return None if offset is None else offset + 1

    put(Offsets, "get", get_too_far)


def forget_places() -> None:
    """Groups go on far behind their place, and so with the next new message, after a start."""
    load = ConsumeOffsetTable.load

    def load_wrong(table: ConsumeOffsetTable) -> str | None:
        problem = load(table)
        for topic, group in list(table.pairs()):
            for queue_id, offset in dict(table.offsets(topic, group)).items():
                table.put(topic, group, queue_id, offset + 1_000_000)
        return problem

    put(ConsumeOffsetTable, "load", load_wrong)


def lock_for_all() -> None:
    """Everybody gets every lock."""

    def lock(
        locks: QueueLocks, group: str, client_id: str, queues: list[MessageQueue]
    ) -> set[MessageQueue]:
        return set(queues)

    put(QueueLocks, "lock", lock)


def forget_ends() -> None:
    """What was decided is forgotten with the process."""

    def write_nothing(transactions: Transactions) -> None:
        transactions._decided.clear()

    put(Transactions, "write_decided", write_nothing)
    put(app_transactions, "find_committed", lambda *args: [])


def show_rolled_back() -> None:
    """What is rolled back is stored where it belongs, as if it had never been in a transaction."""
    roll_back = Transactions.roll_back

    def store(transactions: Transactions, first: int, offset: int) -> int:
        half = transactions._store.record_at(transactions._open[first].log_offset)
        committed = as_committed(half)
        assert committed is not None
        committed.sys_flag &= ~TRANSACTION_TYPE
        transactions._put(committed)
        return roll_back(transactions, first, offset)

    put(Transactions, "roll_back", store)


def lose_commits() -> None:
    """Every fifth commit stores nothing."""
    count = 0
    commit = end_handlers._commit

    def lose(context: Context, half: Record) -> int:
        nonlocal count
        count += 1
        return 0 if count % 5 == 0 else commit(context, half)

    put(end_handlers, "_commit", lose)


def retry_once_more() -> None:
    """Messages are tried once more than was configured."""

    def decide_late(reconsume_times: int, times_max: int, delay_level: int) -> Retry:
        return decide_send_back(reconsume_times, times_max + 1, delay_level)

    put(send_back, "decide_send_back", decide_late)


def register_once() -> None:
    """A name server that knew the broker is told no more."""
    do = Registrar._do

    async def do_once(registrar: Registrar, work: Work) -> None:
        if registrar.standing == Standing.LOST:
            await asyncio.Event().wait()
        await do(registrar, work)

    put(Registrar, "_do", do_once)


def lose_index() -> None:
    """After a kill the index is begun anew, as Java's is: only what is read again is in it."""
    load_marked = Index.load_marked

    def load_nothing(index: Index, mark: IndexMark, *, is_exact: bool) -> bool:
        load_marked(index, mark, is_exact=is_exact)
        index.clear()
        return True

    put(Index, "load_marked", load_nothing)


def forget_ids() -> None:
    """Dedup windows begin with nothing, whatever is in the queues."""

    def look_at_nothing(rebuild: Rebuild) -> bool:
        for window in rebuild._windows.values():
            window.set_ready()
        return True

    put(Rebuild, "step", look_at_nothing)


def publish_again() -> None:
    """What was published before a start is not looked for."""

    def count_nothing(*args: object) -> Iterator[None]:
        yield
        return Counter()  # type: ignore[return-value]  # what a generator returns

    put(publications, "count_published", count_nothing)


def publish_some() -> None:
    """What was begun before a start is taken for published."""
    put(publications, "progress_of", lambda pieces, *args: (len(pieces), 0))


BUGS: Final[dict[str, Callable[[], None]]] = {
    bug.__name__: bug
    for bug in (
        acknowledge_early, note_lanes, deliver_again, deliver_early, deliver_some, share_the_store,
        stop_abruptly, limit_the_disk, stay_full, forget_commits, skip_one, forget_places,
        lock_for_all, retry_once_more, register_once, forget_ends, lose_commits, lose_index,
        forget_ids, timers_again, timers_early, timers_lost, publish_again, publish_some,
        show_rolled_back,
    )
}  # fmt: skip


def planted(bug: Callable[[], None]) -> tuple[str, str]:
    """What Site takes as ``program``."""
    assert BUGS[bug.__name__] is bug
    return __name__, bug.__name__


if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    del sys.argv[1]
    sys.exit(main())
