"""How a broker is doing, as mqadmin clusterList and dashboards show it."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.filter_work import WAITING_MAX
from roketto.broker.latency import RANGE_NAMES
from roketto.broker.stats import RECENT_S, Statistics
from roketto.clock import monotonic_s
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RecordError
from roketto.protocol.versions import CURRENT_VERSION, version_name
from roketto.remoting.connection import Connection
from roketto.remoting.settings import ServerSettings
from roketto.store.commitlog import CommitLog
from roketto.store.errors import StoreError

_WITHOUT_POOLS: Final = {
    f"{pool}ThreadPoolQueue{figure}": "0"
    for pool in ("litePull", "query", "ack")
    for figure in ("Size", "Capacity", "HeadWaitTimeMills")
} | {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
"""Java's requests wait in queues before threads; here they are served as they are read."""

_NEVER_FILLED: Final = {
    "pageCacheLockTimeMills": "0",
    "dispatchMaxBuffer": "0",
    "remainTransientStoreBufferNumbs": str((1 << 31) - 1),
}
"""What Java says while nobody holds its lock, and without buffers of its own before the log."""

_IN_FLIGHT_MAX: Final = ServerSettings().requests_in_flight_max
_UNITS: Final = "KMGTPE"


def runtime_info(context: Context, connection: Connection, request: Command) -> Command:
    """The figures of this broker under the names that Java gives them."""
    stats = context.stats
    table = {
        "bootTimestamp": str(stats.started_ms),
        "runtime": _describe_duration(max(0, int(monotonic_s() - stats.started_s))),
        "brokerActive": "true",
        "brokerVersionDesc": version_name(CURRENT_VERSION),
        "startAcceptSendRequestTimeStamp": str(context.config.start_accept_send_request_time_stamp),
        **_NEVER_FILLED,
        **_rates(stats),
        **_totals(stats),
        **_latencies(stats),
        **_store_figures(context),
        **_delay_figures(context),
        **context.timers.figures(),
        **_queue_figures(context),
        **context.topics.windows.figures(),
        **context.transactions.figures(),
    }
    return request.answer(body=encode_body(KVTable(table)))


def _rates(stats: Statistics) -> dict[str, str]:
    """Over 10, 60 and 600 seconds, with blanks between; nothing stands for a span not full yet."""
    rates = stats.recent_tps()
    found, missed = rates["get_found"], rates["get_missed"]
    total = [f + m for f, m in zip(found, missed, strict=True)]
    return {
        "putTps": _join(rates["put"], ""),
        "getFoundTps": _join(found, ""),
        "getMissTps": _join(missed, ""),
        "getTotalTps": _join(total, "0.0"),
        "getTransferredTps": _join(rates["got"], ""),
        "getTransferedTps": _join(rates["got"], ""),  # as 4.9 spells it, and its tools expect it
    }


def _join(rates: Sequence[float], missing: str) -> str:
    return " ".join([*map(str, rates), *[missing] * (len(RECENT_S) - len(rates))])


def _totals(stats: Statistics) -> dict[str, str]:
    """Since the start: of everything that was stored, and of the messages of users by day."""
    put, mornings = stats.put, stats.mornings
    return {
        "putMessageTimesTotal": str(put.count),
        "putMessageSizeTotal": str(put.size),
        "putMessageAverageSize": str(put.size / put.count if put.count else 0.0),
        "putMessageFailedTimes": str(stats.put_failed),
        "msgPutTotalYesterdayMorning": str(mornings.put_yesterday),
        "msgPutTotalTodayMorning": str(mornings.put_today),
        "msgPutTotalTodayNow": str(stats.user_put_count),
        "msgGetTotalYesterdayMorning": str(mornings.get_yesterday),
        "msgGetTotalTodayMorning": str(mornings.get_today),
        "msgGetTotalTodayNow": str(stats.user_get_count),
    }


def _latencies(stats: Statistics) -> dict[str, str]:
    """How long puts took in the last whole minute, and the longest put and get of all."""
    latency = stats.latency
    counted = zip(RANGE_NAMES, latency.ranges_before, strict=True)
    return {
        "putMessageEntireTimeMax": str(latency.max_ms),
        "getMessageEntireTimeMax": str(stats.get_max_ms),
        "putMessageDistributeTime": "".join(f"{name}:{count} " for name, count in counted),
        "putLatency99": f"{latency.percentile_ms(0.99):.2f}",
        "putLatency999": f"{latency.percentile_ms(0.999):.2f}",
    }


def _store_figures(context: Context) -> dict[str, str]:
    store, log = context.store, context.store.log
    used = str(store.retention.measure() / 100)
    disk = os.statvfs(store.root)
    total, free = disk.f_blocks * disk.f_frsize, disk.f_bfree * disk.f_frsize
    waiting_from = store.appender.waiting.log_offset()
    behind = 0 if waiting_from is None else log.max_offset - waiting_from
    return {
        "commitLogDiskRatio": used,
        f"commitLogDiskRatio_{store.root / 'commitlog'}": used,
        "consumeQueueDiskRatio": used,
        "commitLogDirCapacity": (
            f"Total : {describe_bytes(total)}, Free : {describe_bytes(free)}."
        ),
        "commitLogMinOffset": str(log.min_offset),
        "commitLogMaxOffset": str(log.max_offset),
        "earliestMessageTimeStamp": str(_earliest_ms(log)),
        "dispatchBehindBytes": str(behind),
        "remainHowManyDataToFlush": describe_bytes(log.max_offset - store.flushed),
    }


def _delay_figures(context: Context) -> dict[str, str]:
    """Of each delay level that was ever used: the next message to deliver, and the last."""
    return {
        f"scheduleMessageOffset_{level}": f"{offset},{end}"
        for level, (offset, end) in context.delays.progress().items()
    }


def _queue_figures(context: Context) -> dict[str, str]:
    """What waits here: sends for the disk, and pulls for a turn of their filters."""
    durability = context.durability
    return {
        "sendThreadPoolQueueSize": str(len(durability)),
        "sendThreadPoolQueueCapacity": str(_IN_FLIGHT_MAX),
        "sendThreadPoolQueueHeadWaitTimeMills": str(durability.waited_ms),
        "pullThreadPoolQueueSize": str(len(context.filters.work)),
        "pullThreadPoolQueueCapacity": str(WAITING_MAX),
        "pullThreadPoolQueueHeadWaitTimeMills": "0",
        **_WITHOUT_POOLS,
    }


def _earliest_ms(log: CommitLog) -> int:
    """When the first message of the log was stored; -1 if there is none."""
    try:
        return log.record_at(log.min_offset).store_time_ms
    except (StoreError, RecordError):
        return -1


def describe_bytes(count: int) -> str:
    """A number of bytes as mqadmin prints it.

    >>> describe_bytes(1023), describe_bytes(1536), describe_bytes(5 << 30)
    ('1023 B', '1.5 KiB', '5.0 GiB')
    """
    if count < 1024:
        return f"{count} B"
    power = (count.bit_length() - 1) // 10
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}iB"


def _describe_duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime_info,
}
