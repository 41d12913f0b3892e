"""Topics in memory, for the tests of what announces them."""

from collections.abc import Callable

from roketto.protocol.bodies.topics import DataVersion, TopicConfig


class MemoryTopics:
    """A table with a version that goes up by one with each change."""

    def __init__(self, *names: str) -> None:
        self.topics = {name: TopicConfig(topic_name=name) for name in names}
        self.data_version = DataVersion(counter=1, timestamp=1_000)
        self.on_change: Callable[[TopicConfig | None], None] = lambda topic: None

    def put(self, topic: TopicConfig) -> None:
        self.topics[topic.topic_name] = topic
        self._note(topic)

    def remove(self, name: str) -> None:
        del self.topics[name]
        self._note(None)

    def _note(self, topic: TopicConfig | None) -> None:
        self.data_version.counter += 1
        self.on_change(topic)
