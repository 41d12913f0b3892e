"""Figures: offsets and rates of topics and groups, entries of a consume queue, time spans."""

from msgspec import field

from roketto.protocol.bodies.base import Body, Int, Long
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.bodies.topics import DataVersion

__all__ = [
    "BrokerStatsData",
    "BrokerStatsItem",
    "ConsumeByWho",
    "ConsumeQueueData",
    "ConsumeStats",
    "ConsumeStatsList",
    "OffsetWrapper",
    "QueryConsumeQueueResponseBody",
    "QueryConsumeTimeSpanBody",
    "QueueTimeSpan",
    "TimerMetric",
    "TimerMetricsSerializeWrapper",
    "TopicOffset",
    "TopicStatsTable",
]


class TopicOffset(Body):
    """The ends of one queue and when it last grew."""

    last_update_timestamp: Long = 0
    max_offset: Long = 0
    min_offset: Long = 0


class TopicStatsTable(Body):
    """The queues of one topic on one broker."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0


class OffsetWrapper(Body):
    """How far a group has come in one queue; ``pullOffset`` is unknown to 4.x."""

    broker_offset: Long = 0
    consumer_offset: Long = 0
    last_timestamp: Long = 0
    pull_offset: Long = 0


class ConsumeStats(Body):
    """How far a group has come."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)


class ConsumeStatsList(Body):
    """How far all groups of one broker have come: a list of group -> one entry per topic."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: Long = 0
    total_inflight_diff: Long = 0


class BrokerStatsItem(Body):
    """Sum, rate and average of one period."""

    avgpt: float = 0.0
    sum: Long = 0
    tps: float = 0.0


class BrokerStatsData(Body):
    """One statistic of a broker over three periods."""

    stats_day: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_minute: BrokerStatsItem | None = None


class QueueTimeSpan(Body):
    """When the messages of a queue were stored; the texts repeat the stamps for people to read."""

    consume_time_stamp: Long = 0
    consume_time_stamp_str: str | None = None
    delay_time: Long = 0
    max_time_stamp: Long = 0
    max_time_stamp_str: str | None = None
    message_queue: MessageQueue | None = None
    min_time_stamp: Long = 0
    min_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body):
    """The time spans of all queues of a topic."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class ConsumeQueueData(Body):
    """One entry of a consume queue and what a filter makes of it."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Long = 0
    physic_size: Int = 0
    tags_code: Long = 0


class QueryConsumeQueueResponseBody(Body):
    """A stretch of a consume queue, seen through the filter of a group."""

    filter_data: str | None = None
    max_queue_index: Long = 0
    min_queue_index: Long = 0
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    subscription_data: SubscriptionData | None = None


class ConsumeByWho(Body):
    """Which groups have consumed one message."""

    consumed_group: list[str] = field(default_factory=list)
    not_consumed_group: list[str] = field(default_factory=list)
    offset: Long = 0
    queue_id: Int = 0
    topic: str | None = None


class TimerMetric(Body):
    """Timer messages that wait for one topic."""

    count: Long = 0
    time_stamp: Long = 0


class TimerMetricsSerializeWrapper(Body):
    """Timer messages that wait, by topic; slaves copy it."""

    data_version: DataVersion | None = None
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)
