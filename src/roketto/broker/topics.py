"""The topics of a broker: made at start, on first use and by operators, kept in a table."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from roketto.broker.config import BrokerConfig
from roketto.broker.dedup_window import DedupWindow, Windows
from roketto.broker.expiry import ttl_ms_of
from roketto.broker.half_messages import real_queue_end
from roketto.broker.priority import is_prioritized
from roketto.protocol.bodies.topics import DataVersion, TopicConfig, TopicFilterType
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.limits import TOPIC_BYTES_MAX
from roketto.protocol.names import (
    BENCHMARK_TOPIC,
    DEFAULT_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    NOT_SENDABLE_TOPICS,
    OFFSET_MOVED_TOPIC,
    OWN_TOPICS,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TIMER_TOPIC,
    check_topic,
    is_retry_topic,
    reply_topic,
)
from roketto.protocol.record import encode_topic
from roketto.protocol.sysflags import TOPIC_UNIT, TOPIC_UNIT_SUBSCRIPTION
from roketto.store.topic_table import TopicTable

__all__ = ["PERM_INHERIT", "PERM_READ", "PERM_WRITE", "SCHEDULE_QUEUES", "SendTarget", "Topics"]

log = logging.getLogger(__name__)

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
"""New topics may be made after this one."""

SCHEDULE_QUEUES: Final = 18
"""Queues of SCHEDULE_TOPIC_XXXX as topics.json has them, whatever the number of delay levels."""
_BENCHMARK_QUEUES: Final = 1_024
_CLUSTER_QUEUES: Final = 16
_REVIVE_QUEUES: Final = 8
"""Java's reviveQueueNum: what pop notes for redelivery is spread over these."""

_REVIVE_PREFIX: Final = SYSTEM_TOPIC_PREFIX + "REVIVE_LOG_"
_MEMBERS_PREFIX: Final = SYSTEM_TOPIC_PREFIX + "SYNC_BROKER_MEMBER_"

_CLEANUP_POLICY: Final = "cleanup.policy"
_COMPACTION: Final = "COMPACTION"


class SendTarget:
    """A topic that may be sent to, with what every send to it asks."""

    __slots__ = (
        "_ends", "config", "field", "is_compacted", "is_plain", "is_plain_once", "name",
        "queue_count", "window", "write_queue_count",
    )  # fmt: skip

    def __init__(self, config: TopicConfig, window: DedupWindow | None = None) -> None:
        self.config: TopicConfig = config
        self.name: str = config.topic_name
        self.field: bytes = encode_topic(config.topic_name)
        """Its name as records have it."""
        self.queue_count: int = max(config.write_queue_nums, config.read_queue_nums)
        """Queue ids are below this; one that is only read from takes messages, too, as in Java."""
        self.write_queue_count: int = config.write_queue_nums
        """The broker chooses among these."""
        self.is_compacted: bool = config.attributes.get(_CLEANUP_POLICY) == _COMPACTION
        self.window: DedupWindow | None = window
        """The ids that it has seen, if it takes each message once."""
        is_plain = not (
            self.is_compacted
            or config.order
            or is_retry_topic(config.topic_name)
            or config.topic_filter_type is TopicFilterType.MULTI_TAG
            or len(self.field) > 1 + TOPIC_BYTES_MAX
        )
        self.is_plain: bool = is_plain and window is None
        """Whether nothing but the queue id is to be looked at."""
        self.is_plain_once: bool = is_plain and window is not None
        """The same, but for the id of the message."""
        self._ends: dict[int, bytes] = {}

    def real_queue_end(self, queue_id: int) -> bytes:
        """What the properties of messages for a queue of the topic end with while they wait."""
        end = self._ends.get(queue_id)
        if end is None:
            end = self._ends[queue_id] = real_queue_end(self.name, queue_id)
        return end


class Topics:
    """Topic -> its configuration on this broker.

    ``on_change`` is called with every topic that was made or changed, and with None after one was
    removed; whoever runs the broker lets it be saved and announced.
    """

    def __init__(
        self, table: TopicTable, config: BrokerConfig, clock_ms: Callable[[], int]
    ) -> None:
        self._table = table
        self._config = config
        self._clock_ms = clock_ms
        self.targets: dict[str, SendTarget] = {}
        """What was sent to since it last changed; as many as there are topics at most."""
        self.windows: Windows = Windows(config.dedup_ids_max)
        """What was sent of late to topics that take each message once."""
        self.expiring: dict[str, int] = {}
        """Topics whose messages end, and after how many milliseconds if they do not say it."""
        self.prioritized: set[str] = set()
        """Topics in which higher queues come first."""
        for topic in table.topics.values():
            self._note_attributes(topic)
        self.on_change: Callable[[TopicConfig | None], None] = _ignore

    @property
    def topics(self) -> Mapping[str, TopicConfig]:
        """All topics by name."""
        return self._table.topics

    @property
    def data_version(self) -> DataVersion:
        """The version of the whole table."""
        return self._table.body.data_version

    def get(self, topic: str) -> TopicConfig | None:
        """The topic as it is configured, None if there is none."""
        return self._table.get(topic)

    def put(self, topic: TopicConfig) -> None:
        """Add or replace a topic; TableFullError if there are too many."""
        self._table.put(topic)
        self.targets.pop(topic.topic_name, None)
        self._note_attributes(topic)
        self.on_change(topic)

    def _note_attributes(self, topic: TopicConfig) -> None:
        """Keep what pulls ask where they can ask it cheaply."""
        if is_prioritized(topic):
            self.prioritized.add(topic.topic_name)
        else:
            self.prioritized.discard(topic.topic_name)
        ttl_ms = ttl_ms_of(topic)
        if ttl_ms is None:
            self.expiring.pop(topic.topic_name, None)
        else:
            self.expiring[topic.topic_name] = ttl_ms

    def remove(self, topic: str) -> TopicConfig | None:
        """Take a topic out; what it was, None if it was not there."""
        removed = self._table.remove(topic)
        self.targets.pop(topic, None)
        self.windows.drop(topic)
        self.expiring.pop(topic, None)
        self.prioritized.discard(topic)
        if removed is not None:
            self.on_change(None)
        return removed

    def renew(self) -> None:
        """Announce all topics once more, as new: what is said of them elsewhere has changed."""
        self._table.renew()
        self.on_change(None)

    def save(self) -> bool:
        """Bring changes to the disk; whether there were any."""
        return self._table.save_if_changed()

    # --- made by the broker -----------------------------------------------------------------------

    def create_system_topics(self) -> None:
        """Make what every broker has, where the table lacks it: an operator's version stays."""
        for topic in self._system_topics():
            if self._table.get(topic.topic_name) is None:
                self._table.put(topic)

    def own_names(self) -> set[str]:
        """What the topics are called that a broker of this configuration makes for itself."""
        return {topic.topic_name for topic in self._system_topics()}

    def _system_topics(self) -> list[TopicConfig]:
        config = self._config
        cluster, broker = config.broker_cluster_name, config.broker_name
        both = PERM_READ | PERM_WRITE
        found = [
            _topic(SELF_TEST_TOPIC, 1),
            _topic(BENCHMARK_TOPIC, _BENCHMARK_QUEUES),
            _topic(
                cluster,
                _CLUSTER_QUEUES,
                PERM_INHERIT | (both if config.cluster_topic_enable else 0),
            ),
            _topic(broker, 1, PERM_INHERIT | (both if config.broker_topic_enable else 0)),
            _topic(OFFSET_MOVED_TOPIC, 1),
            _topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
            _topic(reply_topic(cluster), 1),
            _topic(_REVIVE_PREFIX + cluster, _REVIVE_QUEUES),
            _topic(_MEMBERS_PREFIX + broker, 1, PERM_INHERIT),
            _topic(HALF_TOPIC, 1),
            _topic(HALF_OP_TOPIC, 1),
        ]
        if config.auto_create_topic_enable:
            found.append(
                _topic(DEFAULT_TOPIC, config.default_topic_queue_nums, both | PERM_INHERIT)
            )
        if config.trace_topic_enable:
            found.append(_topic(config.msg_trace_topic_name, 1))
        if config.timer_wheel_enable:
            found.append(_topic(TIMER_TOPIC, 1))
        return found

    def create_own(self, topic: str) -> None:
        """Make a topic of the broker's own that it has from its first use on, with one queue."""
        if self._table.get(topic) is None:
            log.info("topic %s was made on first use", topic)
            self.put(_topic(topic, 1))

    def create_for_group(
        self, topic: str, queues: int, perm: int = PERM_READ | PERM_WRITE, *, is_unit: bool = False
    ) -> TopicConfig:
        """The retry or dead letter topic of a group, made now if there is none."""
        found = self._table.get(topic)
        if found is None:
            found = _topic(topic, queues, perm)
            if is_unit:
                found.topic_sys_flag = TOPIC_UNIT_SUBSCRIPTION
            log.info("topic %s was made with %d queues for its group", topic, queues)
            self.put(found)
        return found

    # --- sending ----------------------------------------------------------------------------------

    def for_sending(
        self, topic: str, default_topic: str, queue_nums: int, is_unit: bool = False
    ) -> TopicConfig:
        """The topic to send to, made now if it may be; RequestError says why it may not."""
        return self.target(topic, default_topic, queue_nums, is_unit).config

    def target(
        self, topic: str, default_topic: str, queue_nums: int, is_unit: bool = False
    ) -> SendTarget:
        """The same with what every send asks of it."""
        known = self.targets.get(topic)
        if known is not None:
            return known
        check_topic(topic)
        if topic in NOT_SENDABLE_TOPICS or topic in OWN_TOPICS:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{topic}] is forbidden. Only the broker writes to it:"
                " send to another topic",
            )
        config = self._table.get(topic)
        if config is None:
            config = self._create(topic, default_topic, queue_nums, is_unit)
        target = self.targets[topic] = SendTarget(config, self.windows.of(config))
        return target

    def _create(
        self, topic: str, default_topic: str, queue_nums: int, is_unit: bool
    ) -> TopicConfig:
        """Make a topic on first use after ``default_topic``; a retry topic needs no model."""
        model = self._table.get(default_topic)
        obstacle = self._obstacle(default_topic, model)
        if obstacle is None:
            assert model is not None
            queues = max(0, min(queue_nums, model.write_queue_nums))
            made = _topic(topic, queues, model.perm & ~PERM_INHERIT)
            made.topic_filter_type = model.topic_filter_type
        elif is_retry_topic(topic):
            made = _topic(topic, 1)
        else:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please! It was not made on first use:"
                f" {obstacle}; create it with mqadmin updateTopic",
            )
        if is_unit:
            is_retry = is_retry_topic(topic)
            made.topic_sys_flag = TOPIC_UNIT_SUBSCRIPTION if is_retry else TOPIC_UNIT
        log.info("topic %s was made on first use with %d queues", topic, made.write_queue_nums)
        self.put(made)
        return made

    def _obstacle(self, default_topic: str, model: TopicConfig | None) -> str | None:
        """Why no topic may be made after this one, None if it may."""
        if default_topic == DEFAULT_TOPIC and not self._config.auto_create_topic_enable:
            return "autoCreateTopicEnable is false"
        if model is None:
            return f"its model, topic {default_topic[:64]!a}, does not exist either"
        if not model.perm & PERM_INHERIT:
            return f"perm {model.perm} of its model, topic {default_topic}, lacks inherit (1)"
        return None


def _topic(name: str, queues: int, perm: int = PERM_READ | PERM_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def _ignore(_topic: TopicConfig | None) -> None:
    """What happens to changes until somebody listens."""
