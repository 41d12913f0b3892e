"""A broker's reading side without sockets: a real store and real tables, a clock set by hand."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from roketto.broker.clients import Clients
from roketto.broker.config import BrokerConfig
from roketto.broker.context import Context
from roketto.broker.filters import Filters
from roketto.broker.groups import Groups
from roketto.broker.longpoll import LongPolls
from roketto.broker.lookup import Lookups
from roketto.broker.offsets import Offsets
from roketto.broker.relays import Relays
from roketto.broker.stats import Statistics
from roketto.broker.timers import Timers
from roketto.broker.topics import Topics
from roketto.protocol.bodies.heartbeat import (
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.store.files import Files
from roketto.store.filter_table import FilterTable
from roketto.store.flush import FlushSettings
from roketto.store.group_table import GroupTable
from roketto.store.mode_table import ModeTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.store import Store, StoreSettings
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.timer_store import TimerStore
from roketto.store.topic_table import TopicTable
from unit.broker.fake_connection import FakeConnection

HOST = encode_host("10.0.0.1", 10911)
START_MS = 1_700_000_000_000


class PullRig:
    """Topic T with four queues, and whoever reads it."""

    def __init__(
        self, root: Path, *, segment_bytes: int = 65_536, index_enable: bool = False
    ) -> None:
        self.now_ms = START_MS
        self.now_s = 100.0
        self.soon: list[Callable[[], None]] = []
        self.config = BrokerConfig(
            store_path_root_dir=root, broker_ip1="10.0.0.1", enable_property_filter=True
        )
        files, tables = Files(), root / "config"
        self.polls = LongPolls(call_soon=self._call_soon, now_s=lambda: self.now_s)
        settings = StoreSettings(
            segment_bytes=segment_bytes, queue_file_bytes=20_000, index_enable=index_enable,
            index_slots=16, index_entries=4_096, flush=FlushSettings(interval_ms=3_600_000),
        )  # fmt: skip
        self.store = Store(
            root, settings, files=files, clock_ms=self.clock_ms, on_arrival=self.polls.arrived
        )
        used: dict[str, Any] = {
            "config": self.config,
            "clock_ms": self.clock_ms,
            "address": "10.0.0.1:10911",
            "store_host": HOST,
            "store": self.store,
            "topics": Topics(TopicTable(files, tables), self.config, self.clock_ms),
            "groups": Groups(GroupTable(files, tables), self.config),
            "modes": ModeTable(files, tables),
            "offsets": Offsets(ConsumeOffsetTable(files, tables)),
            "clients": Clients(self.config, lambda: self.now_s),
            "filters": Filters(FilterTable(files, tables), self.config, self.clock_ms),
            "polls": self.polls,
            "lookups": Lookups(lambda: self.now_s),
            "relays": Relays(),
            "stats": Statistics(now_s=lambda: self.now_s, clock_ms=self.clock_ms),
            "timers": self._make_timers(files, root),
        }
        # Readers see nothing of the rest.
        self.context = Context(**{field.name: None for field in fields(Context)} | used)
        self.connection = FakeConnection()
        self.store.open(1)
        self.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))

    def _make_timers(self, files: Files, root: Path) -> Timers:
        timers = TimerStore(files, root, precision_ms=1000, log_file_bytes=5_200)
        metrics = TimerMetricsTable(files, root / "config")
        return Timers(
            timers, metrics, self.config, self.store, self.store.append, clock_ms=self.clock_ms
        )

    def close(self) -> None:
        self.store.close()

    def clock_ms(self) -> int:
        return self.now_ms

    def _call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        """Let the loop do what waits."""
        soon, self.soon = self.soon, []
        for call in soon:
            call()

    def send(
        self, count: int = 1, tag: str = "t", topic: str = "T", queue_id: int = 0, **more: str
    ) -> None:
        """Store messages as a producer's would be."""
        for _ in range(count):
            properties = encode_properties({"TAGS": tag, **more})
            record = Record(topic, b"body", properties, queue_id, store_host=HOST, born_host=HOST)
            self.store.append(record)

    def join(
        self,
        subscription: SubscriptionData | None = None,
        group: str = "G",
        model: MessageModel = MessageModel.CLUSTERING,
        how: ConsumeType = ConsumeType.CONSUME_PASSIVELY,
        connection: FakeConnection | None = None,
    ) -> None:
        """Send a heartbeat: the group subscribes to one topic."""
        wanted = subscription or SubscriptionData(topic="T", sub_string="*", sub_version=1)
        data = ConsumerData(
            consume_type=how,
            group_name=group,
            message_model=model,
            subscription_data_set=[wanted],
        )
        clients = self.context.clients
        sender = (connection or self.connection).as_connection
        member = clients.member(sender, "client", Command(RequestCode.HEART_BEAT))
        clients.register_consumer(data, member, without_sub=False, should_notify=False)
        self.context.filters.register(group, [wanted])


def body_of(answer: Command) -> bytes:
    """The body of an answer, in one piece or in many."""
    return b"".join((answer.body, *answer.views))


def offsets_of(answer: Command) -> list[int]:
    """The queue offsets of the messages in an answer."""
    return [record.queue_offset for record in decode_records(body_of(answer), strict=True)]
