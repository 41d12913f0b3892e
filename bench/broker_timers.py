"""Messages with a time of their own against Java's broker: sends, memory, how late they come."""

import statistics
import time
from functools import partial
from typing import Final

from broker_frames import pull, send_frames
from broker_load import Figures, Load, send_all
from broker_requests import ASYNC, SMALL
from broker_rig import QUEUES, TOPIC, Rig
from broker_servers import JAVA, ROKETTO, Server, start_broker
from broker_versus import add_versus, begin_table, take_turns
from report import Report
from roketto.protocol.names import TIMER_TOPIC
from roketto.protocol.property_names import TIMER_DELIVER_MS
from roketto.protocol.record import decode_records

TIMERS: Final = {**ASYNC, "timerWheelEnable": "true"}
DUE_TOPIC: Final = "BenchDue"

_FAR: Final = "TIMER_DELAY_SEC\x013600\x02"
_AHEAD_MS: Final = 10_000
"""When those are due whose lateness is measured: long enough to send them all."""
_SETTLE_S: Final = 3.0


def measure_timers(report: Report, rig: Rig) -> None:
    """Sends of messages that are not due while this runs."""
    pair = rig.pair(TIMERS)
    begin_table(report, "timers", f"send of {SMALL} B that is due in an hour, {QUEUES} queues")
    frames = send_frames([TOPIC], QUEUES, SMALL, _FAR)

    def measure(load: Load, server: Server) -> Figures:
        before = sum(server.queue_ends(TIMER_TOPIC, 1))
        outcome = rig.put_load(server, frames, load)
        server.await_messages(TIMER_TOPIC, 1, before + outcome.answered_in_all)
        return outcome.figures

    for load in rig.sizes.timer_loads:
        found = take_turns(pair, rig.sizes.rounds, partial(measure, load))
        add_versus(report, f"timer send, {load}", found)


def measure_pending(report: Report, rig: Rig) -> None:
    """Both alone on the machine, one after the other, each with an empty store."""
    rig.stop_pair()
    pending = rig.sizes.timers_pending
    report.begin("pending", f"{pending:,} messages that wait for their time")
    for name, kind in ((JAVA, JAVA), (ROKETTO, rig.ours)):
        with start_broker(kind, rig.java, TIMERS) as server:
            for topic in (TOPIC, DUE_TOPIC):
                server.create_topic(topic, QUEUES)
            before = server.memory()
            send_all(server, send_frames([TOPIC], QUEUES, SMALL, _FAR), Load(16, 16), pending)
            time.sleep(_SETTLE_S)
            after = server.memory()
            report.add(f"{name}: resident with them, its own", after.own_mb, "MB")
            report.add(f"{name}: more than without them", after.own_mb - before.own_mb, "MB")
            late_ms = _late_ms(server, rig.sizes.timers_due)
            report.add(f"{name}: late, median", statistics.median(late_ms), "ms")
            report.add(f"{name}: late, p99", late_ms[len(late_ms) * 99 // 100], "ms")


def _late_ms(server: Server, count: int) -> list[int]:
    """How late messages are stored in their queues, in order; Java's clock ticks in seconds."""
    due_ms = time.time_ns() // 1_000_000 + _AHEAD_MS
    frames = [
        frame
        for number in range(10)  # at times that fall into all parts of a second
        for frame in send_frames(
            [DUE_TOPIC], QUEUES, SMALL, f"{TIMER_DELIVER_MS}\x01{due_ms + number * 307}\x02"
        )
    ]
    sent = send_all(server, frames, Load(16, 4), count)
    server.await_messages(DUE_TOPIC, QUEUES, sent)
    server.subscribe([DUE_TOPIC])
    late_ms = []
    for queue, end in enumerate(server.queue_ends(DUE_TOPIC, QUEUES)):
        offset = 0
        while offset < end:
            answer = server.ask(pull(DUE_TOPIC, queue, offset))
            records = decode_records(bytes(answer.body))
            assert records, f"nothing at {offset} of queue {queue}: {answer.remark}"
            for record in records:
                asked_ms = int(record.get_property(TIMER_DELIVER_MS) or 0)
                late_ms.append(record.store_time_ms - asked_ms)
            offset += len(records)
    return sorted(late_ms)
