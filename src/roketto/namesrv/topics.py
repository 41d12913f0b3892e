"""Which broker holds which topic, and the encoded route answers that this decides.

A route answer is kept from the first request for it until something that it shows changes. Every
change of a topic goes through this class, so nothing else has to remember to drop its answer.
"""

from collections.abc import Iterable

from roketto.namesrv.answers import RouteAnswers
from roketto.protocol.bodies.route import QueueData
from roketto.protocol.bodies.topics import TopicQueueMappingInfo

PERM_WRITE = 2
PERM_READ_WRITE = 6


class TopicTable:
    """Topics and their brokers; no IO."""

    __slots__ = ("_mappings", "_queues", "_topics_of", "answers", "entry_count")

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}
        # The same pairs by broker, in order: when many brokers are lost at once, each must cost
        # no more than its own topics.
        self._topics_of: dict[str, dict[str, None]] = {}
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self.answers = RouteAnswers()
        self.entry_count = 0
        """How many pairs of topic and broker there are, for queues and for mappings."""

    def names(self) -> list[str]:
        return list(self._queues)

    def names_of(self, brokers: Iterable[str]) -> list[str]:
        topics = (topic for broker in brokers for topic in self._topics_of.get(broker, ()))
        return list(dict.fromkeys(topics))

    def names_with_flags(self, mask: int, value: int) -> list[str]:
        """Topics whose system flag has ``value`` under ``mask``; one broker speaks for all."""
        return [
            topic
            for topic, queues in self._queues.items()
            if next(iter(queues.values())).topic_sys_flag & mask == value
        ]

    def queues(self, topic: str) -> dict[str, QueueData]:
        """What each broker offers of a topic; not for changing."""
        return self._queues.get(topic, {})

    def mappings(self, topic: str) -> dict[str, TopicQueueMappingInfo] | None:
        return self._mappings.get(topic)

    def holds(self, topic: str, broker: str) -> bool:
        return topic in self._topics_of.get(broker, ())

    def put(self, topic: str, queue: QueueData) -> None:
        queues = self._queues.setdefault(topic, {})
        before = queues.get(queue.broker_name)
        if before != queue:
            queues[queue.broker_name] = queue
            self._topics_of.setdefault(queue.broker_name, {})[topic] = None
            self.entry_count += before is None
            self.answers.forget(topic)

    def put_mapping(self, topic: str, broker: str, mapping: TopicQueueMappingInfo) -> None:
        mappings = self._mappings.setdefault(topic, {})
        self.entry_count += broker not in mappings
        mappings[broker] = mapping
        self.answers.forget(topic)

    def count_new(self, broker: str, topics: Iterable[str], mapped: Iterable[str]) -> int:
        """How many entries these topics and mappings of a broker would add."""
        new_mappings = sum(broker not in self._mappings.get(topic, ()) for topic in mapped)
        return sum(not self.holds(topic, broker) for topic in topics) + new_mappings

    def delete(self, topic: str, brokers: Iterable[str] | None = None) -> None:
        """Take a topic from some brokers, or from all of them."""
        queues = self._queues.get(topic)
        if queues is None:
            return
        for broker in list(queues) if brokers is None else brokers:
            if queues.pop(broker, None) is not None:
                del self._topics_of[broker][topic]
                self.entry_count -= 1
                self.answers.forget(topic)
        if not queues:
            del self._queues[topic]

    def drop_broker(self, broker: str) -> None:
        """A broker is gone with all its members.

        The mappings of a static topic outlive the broker while another one holds the topic, as in
        Java: clients need the whole picture. They go with the topic's last broker.
        """
        for topic in self.names_of((broker,)):
            self.delete(topic, (broker,))
        self._topics_of.pop(broker, None)
        for topic in [topic for topic in self._mappings if topic not in self._queues]:
            self.entry_count -= len(self._mappings.pop(topic))

    def clear_write(self, broker: str) -> int:
        """Take the write permission from all topics of a broker; return how many it holds."""
        return self._set_perms(broker, keep=~PERM_WRITE)

    def allow_write(self, broker: str) -> int:
        """Make all topics of a broker readable and writable, as Java does: whatever they were."""
        return self._set_perms(broker, keep=0, add=PERM_READ_WRITE)

    def _set_perms(self, broker: str, *, keep: int, add: int = 0) -> int:
        topics = self.names_of((broker,))
        for topic in topics:
            queue = self._queues[topic][broker]
            perm = queue.perm & keep | add
            if perm != queue.perm:
                queue.perm = perm
                self.answers.forget(topic)
        return len(topics)
