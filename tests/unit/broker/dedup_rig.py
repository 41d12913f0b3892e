"""A broker's writing side with a topic that takes each message once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roketto.broker.dedup import Rebuild
from roketto.broker.dedup_window import DedupWindow
from roketto.protocol.bodies.topics import TopicConfig
from unit.broker.send_rig import SendRig

WINDOW_S = 60


class DedupRig(SendRig):
    """Topic T takes each message once."""

    attributes: Mapping[str, str] = {"dedup.window.seconds": str(WINDOW_S)}

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.fill()  # the rig has made another T

    def open(self) -> None:
        super().open()
        self.transactions.start()
        self.fill()

    def fill(self) -> int:
        """Give T its window, and let it know what it has to; how many turns that took."""
        topics = self.context.topics
        topics.put(
            TopicConfig(
                topic_name="T",
                read_queue_nums=4,
                write_queue_nums=4,
                attributes=dict(self.attributes),
            )
        )
        topics.target("T", "TBW102", 4)
        rebuild = Rebuild(self.store, [self.window], self.now_ms, topics.windows.ids_max)
        turns = 1
        while not rebuild.step():
            turns += 1
        return turns

    @property
    def window(self) -> DedupWindow:
        return self.context.topics.windows.by_topic["T"]

    @property
    def duplicates(self) -> int:
        return self.context.topics.windows.room.duplicates

    def count(self) -> int:
        return sum(len(self.records(queue_id=number)) for number in range(4))
