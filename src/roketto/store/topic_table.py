"""The topics of a broker: ``config/topics.json``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from roketto.clock import wall_ms
from roketto.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from roketto.store.entry_table import EntryTable
from roketto.store.files import Files

__all__ = ["TOPICS_FILE", "TopicTable"]

TOPICS_FILE: Final = "topics.json"

TOPICS_MAX: Final = 200_000
"""Ten times what large brokers have; some 70 MB of JSON."""

_MEMBER: Final = "topicConfigTable"


class TopicTable(EntryTable[TopicConfigSerializeWrapper]):
    """Topic -> its configuration on this broker. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(
            files, config / TOPICS_FILE, TopicConfigSerializeWrapper, _MEMBER, clock_ms=clock_ms
        )

    @property
    def topics(self) -> Mapping[str, TopicConfig]:
        """All topics by name."""
        return self._body.topic_config_table

    def get(self, topic: str) -> TopicConfig | None:
        return self._body.topic_config_table.get(topic)

    def put(self, topic: TopicConfig) -> None:
        """Add or replace a topic; TableFullError if there are too many, or if it is too large."""
        table = self._body.topic_config_table
        self._put(table, topic.topic_name, topic, TOPICS_MAX, _MEMBER)

    def remove(self, topic: str) -> TopicConfig | None:
        """Take a topic out; what it was, None if it was not there."""
        removed = self._body.topic_config_table.pop(topic, None)
        if removed is not None:
            self._mark(topic)
            self._change()
        return removed

    def renew(self) -> None:
        """Give the table a new version though nothing in it has changed."""
        self._change()
