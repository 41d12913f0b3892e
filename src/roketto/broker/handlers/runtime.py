"""How a broker is doing, as mqadmin clusterList and dashboards show it."""

from collections.abc import Mapping, Sequence
from typing import Final

from roketto.broker.context import Context, Handler
from roketto.broker.latency import RANGE_NAMES, Latency
from roketto.broker.stats import Statistics
from roketto.clock import monotonic_s
from roketto.protocol.bodies.base import encode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RecordError
from roketto.protocol.versions import CURRENT_VERSION, version_name
from roketto.remoting.connection import Connection
from roketto.store.commitlog import CommitLog
from roketto.store.errors import StoreError

_WINDOWS: Final = 3
"""Rates are told over 10, 60 and 600 seconds."""

_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_WITHOUT_POOLS: Final = {
    f"{pool}ThreadPoolQueue{figure}": "0"
    for pool in _POOLS
    for figure in ("Size", "Capacity", "HeadWaitTimeMills")
}
"""Java's requests wait in queues before threads; here they are served as they are read."""

_WITHOUT_TIMER: Final = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
"""What Java says while its timer wheel is off."""


def runtime_info(context: Context, connection: Connection, request: Command) -> Command:
    """The figures of this broker under the names that Java gives them."""
    up_s = max(0, int(monotonic_s() - context.stats.started_s))
    table = {
        "bootTimestamp": str(context.clock_ms() - up_s * 1000),
        "runtime": _describe_duration(up_s),
        "brokerActive": "true",
        "brokerVersionDesc": version_name(CURRENT_VERSION),
        "pageCacheLockTimeMills": "0",
        "startAcceptSendRequestTimeStamp": "0",
        **_rates(context.stats),
        **_totals(context.stats),
        **_latencies(context.stats.latency),
        **_store_figures(context),
        **_WITHOUT_POOLS,
        **_WITHOUT_TIMER,
    }
    return request.answer(body=encode_body(KVTable(table)))


def _rates(stats: Statistics) -> dict[str, str]:
    rates = stats.recent_tps()
    found, missed = rates["get_found"], rates["get_missed"]
    return {
        "putTps": _join(rates["put"]),
        "getFoundTps": _join(found),
        "getMissTps": _join(missed),
        "getTotalTps": _join([f + m for f, m in zip(found, missed, strict=True)]),
        "getTransferredTps": _join(rates["got"]),
    }


def _join(rates: Sequence[float]) -> str:
    padded = [*rates, *[0.0] * (_WINDOWS - len(rates))]
    return " ".join(map(str, padded))


def _totals(stats: Statistics) -> dict[str, str]:
    """Messages of users. All of them count as today's: what was before the start is not known."""
    return {
        "putMessageTimesTotal": str(stats.put.count),
        "putMessageSizeTotal": str(stats.put.size),
        "msgPutTotalYesterdayMorning": "0",
        "msgPutTotalTodayMorning": "0",
        "msgPutTotalTodayNow": str(stats.put.count - stats.system_put_count),
        "msgGetTotalYesterdayMorning": "0",
        "msgGetTotalTodayMorning": "0",
        "msgGetTotalTodayNow": str(stats.get.count - stats.system_get_count),
    }


def _latencies(latency: Latency) -> dict[str, str]:
    """How long puts waited for the disk in the last minute; nothing under ASYNC_FLUSH."""
    counted = zip(RANGE_NAMES, latency.ranges_before, strict=True)
    return {
        "putMessageEntireTimeMax": str(latency.max_ms),
        "putMessageDistributeTime": "".join(f"{name}:{count} " for name, count in counted),
        "putLatency99": f"{latency.percentile_ms(0.99):.2f}",
        "putLatency999": f"{latency.percentile_ms(0.999):.2f}",
    }


def _store_figures(context: Context) -> dict[str, str]:
    store, log = context.store, context.store.log
    used = str(store.retention.measure() / 100)
    return {
        "commitLogDiskRatio": used,
        "consumeQueueDiskRatio": used,
        "commitLogMinOffset": str(log.min_offset),
        "commitLogMaxOffset": str(log.max_offset),
        "earliestMessageTimeStamp": str(_earliest_ms(log)),
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{log.max_offset - store.flushed} B",
    }


def _earliest_ms(log: CommitLog) -> int:
    """When the first message of the log was stored; -1 if there is none."""
    try:
        return log.record_at(log.min_offset).store_time_ms
    except (StoreError, RecordError):
        return -1


def _describe_duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


ROUTES: Final[Mapping[RequestCode, Handler]] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: runtime_info,
}
