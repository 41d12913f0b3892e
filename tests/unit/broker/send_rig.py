"""A broker's writing side without sockets: a real store and real tables, clocks set by hand."""

import inspect
import shutil
from collections.abc import Callable
from datetime import UTC
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

from roketto.broker.clients import Clients
from roketto.broker.config import BrokerConfig
from roketto.broker.context import Context, Handler
from roketto.broker.delay_levels import DelayLevels
from roketto.broker.delays import Delays
from roketto.broker.durability import Durability
from roketto.broker.filters import Filters
from roketto.broker.groups import Groups
from roketto.broker.handlers.send import ROUTES
from roketto.broker.locks import QueueLocks
from roketto.broker.longpoll import LongPolls
from roketto.broker.lookup import Lookups
from roketto.broker.offsets import Offsets
from roketto.broker.publications import Publications
from roketto.broker.put import put_as_is
from roketto.broker.relays import Relays
from roketto.broker.sending import Sending
from roketto.broker.sinks import Sinks
from roketto.broker.stats import Statistics
from roketto.broker.timers import Timers
from roketto.broker.topics import Topics
from roketto.broker.transactions import Transactions
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import ONE_WAY_FLAG, Command
from roketto.protocol.hosts import encode_host
from roketto.protocol.names import TRANSACTION_GIVEN_UP_TOPIC
from roketto.protocol.properties import encode_properties
from roketto.protocol.property_names import CRC32
from roketto.protocol.record import Record, decode_records
from roketto.remoting.connection import Reply
from roketto.store.delay_table import DelayOffsetTable
from roketto.store.files import Files
from roketto.store.filter_table import FilterTable
from roketto.store.flush import FlushSettings
from roketto.store.group_table import GroupTable
from roketto.store.mode_table import ModeTable
from roketto.store.offset_table import ConsumeOffsetTable
from roketto.store.sink_table import SinkTable
from roketto.store.store import Store, StoreSettings
from roketto.store.timer_metrics import TimerMetricsTable
from roketto.store.timer_store import TimerStore
from roketto.store.topic_table import TopicTable
from roketto.store.transaction_metrics import TransactionMetricsTable
from unit.broker.fake_connection import FakeConnection

_numbers = count(1)

HOST = encode_host("10.0.0.1", 10911)
START_MS = 1_700_000_000_000
UNIQUE = "7F00000100000000000000000000000A"
PLAIN = {"UNIQ_KEY": UNIQUE, "WAIT": "true", "TAGS": "TagA"}


class HoldingConnection(FakeConnection):
    """One whose requests may be held until their messages are on the disk."""

    def __init__(self, peer: str = "10.0.0.9:50000") -> None:
        super().__init__(peer)
        self.held = 0

    def hold(self) -> None:
        self.held += 1

    def release(self, request: Command, answer: Command) -> None:
        self.held -= 1
        self.reply(request, answer)


class SendRig:
    """Topic T with four queues, and whoever sends to it."""

    def __init__(
        self,
        root: Path,
        *,
        is_sync: bool = False,
        has_index: bool = False,
        levels: str = "1s 5s 10s 1h",
        make_files: Callable[[], Files] = Files,
    ) -> None:
        self.root = root
        self._make_files = make_files
        self.has_index = has_index
        self.asked: list[Record] = []
        """Half messages that a producer was asked about."""
        self.is_sync = is_sync
        self.saves = 0
        self.levels = DelayLevels(levels)
        self.now_ms = START_MS
        self.now_s = 100.0
        self.config = BrokerConfig(store_path_root_dir=root, broker_ip1="10.0.0.1")
        self.connection = HoldingConnection()
        self.changes: list[TopicConfig | None] = []
        self.open()
        self.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        self.context.topics.create_system_topics()
        self.context.topics.on_change = self.changes.append

    def open(self) -> None:
        """Start, also again after ``kill`` or ``close``; tables are loaded as they were saved."""
        files, tables = self._make_files(), self.root / "config"
        self.delay_table = DelayOffsetTable(files, tables, clock_ms=self.clock_ms)
        self.delay_table.load()
        self.store = Store(
            self.root,
            StoreSettings(
                segment_bytes=262_144, queue_file_bytes=200_000, index_enable=self.has_index,
                index_slots=1_000, index_entries=4_000,
                is_flush_sync=self.is_sync, flush=FlushSettings(interval_ms=3_600_000),
            ),
            files=files, clock_ms=self.clock_ms, zone=UTC, delay_of_level=self.levels.delay_ms,
        )  # fmt: skip
        stats = Statistics(now_s=self.clock_s, clock_ms=self.clock_ms, is_sync=self.is_sync)
        put = partial(put_as_is, self.store, stats)
        self.timer_store = TimerStore(
            self._make_files(), self.root, precision_ms=self.config.timer_precision_ms,
            log_file_bytes=5_200, slots=4_096, clock_ms=self.clock_ms,
        )  # fmt: skip
        metrics = TimerMetricsTable(files, tables, clock_ms=self.clock_ms)
        metrics.load()
        self.timers = Timers(
            self.timer_store, metrics, self.config, self.store, put, clock_ms=self.clock_ms
        )
        self.delays = Delays(
            self.delay_table, self.levels, self.store, put, self.timers.gate.transform,
            note_delivered=stats.note_delivered, clock_ms=self.clock_ms, now_s=self.clock_s,
        )  # fmt: skip
        sending = Sending(self.config, HOST, self.clock_ms, UTC)
        topics = Topics(TopicTable(files, tables), self.config, self.clock_ms)
        self.offset_table = ConsumeOffsetTable(files, tables)
        self.offset_table.load()
        offsets = Offsets(self.offset_table)
        self.transaction_metrics = TransactionMetricsTable(files, tables, clock_ms=self.clock_ms)
        self.transactions = Transactions(
            self.store, offsets, self.config, sending, put, self.transaction_metrics,
            delay=self.delays.transform, ask=self.ask, clock_ms=self.clock_ms,
            give_up=partial(topics.create_for_group, TRANSACTION_GIVEN_UP_TOPIC, 1),
        )  # fmt: skip
        self.sink_table = SinkTable(files, tables, clock_ms=self.clock_ms)
        self.sink_table.load()
        self.sinks = Sinks(
            self.store, topics, self.sink_table, sending, put,
            broker_name=self.config.broker_name, clock_ms=self.clock_ms,
        )  # fmt: skip
        self.context = Context(
            config=self.config,
            config_file=cast("Any", None),
            clock_ms=self.clock_ms,
            address="10.0.0.1:10911",
            store_host=HOST,
            store=self.store,
            sending=sending,
            topics=topics,
            groups=Groups(GroupTable(files, tables), self.config),
            modes=ModeTable(files, tables),
            offsets=offsets,
            clients=Clients(self.config, self.clock_s),
            locks=QueueLocks(self.clock_s),
            filters=Filters(FilterTable(files, tables), self.config, self.clock_ms),
            polls=LongPolls(now_s=self.clock_s),
            lookups=Lookups(self.clock_s),
            relays=Relays(),
            priorities=cast("Any", None),
            durability=Durability(
                self.store.advance, is_sync=self.is_sync, timeout_s=5.0, now_s=self.clock_s
            ),
            delays=self.delays,
            timers=self.timers,
            transactions=self.transactions,
            sinks=self.sinks,
            publications=Publications(
                self.store, topics, self.sinks, stats, self.config, HOST, now_s=self.clock_s
            ),
            stats=stats,
            registration=cast("Any", None),
            saved=self.save,
        )
        self.store.open(1)

    def ask(self, half: Record) -> bool:
        self.asked.append(half)
        return True

    async def save(self) -> None:
        """Nothing is saved here; how often that was asked for is known."""
        self.saves += 1

    def close(self) -> None:
        self.store.close()

    def kill(self) -> None:
        """Go on with what is in the files at this moment, as after a kill -9."""
        left, self.root = self.root, self.root.with_name(f"{self.root.name}-{next(_numbers)}")
        shutil.copytree(left, self.root)
        self.store.close()
        self.open()

    def clock_ms(self) -> int:
        return self.now_ms

    def clock_s(self) -> float:
        return self.now_s

    def pass_ms(self, milliseconds: int) -> None:
        """Let both clocks go on."""
        self.now_ms += milliseconds
        self.now_s += milliseconds / 1000

    # --- requests ---------------------------------------------------------------------------------

    def request(
        self,
        topic: str = "T",
        body: bytes = b"hello",
        properties: dict[str, str] | None = None,
        *,
        code: RequestCode = RequestCode.SEND_MESSAGE_V2,
        flag: int = 0,
        **fields: str,
    ) -> Command:
        """A send as a Java client writes it; ``fields`` replace those of its header."""
        raw = encode_properties(PLAIN if properties is None else properties).decode()
        ext = {
            "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1234567",
            "h": "7", "i": raw, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return Command(code, ext | fields, memoryview(body), opaque=5, flag=flag)

    def send(self, *args: Any, **more: Any) -> Command:
        """The answer to a request that is answered at once."""
        answer = self.handle(self.request(*args, **more))
        assert isinstance(answer, Command)
        return answer

    def send_one_way(self, *args: Any, **more: Any) -> Reply:
        return self.handle(self.request(*args, flag=ONE_WAY_FLAG, **more))

    def handle(self, request: Command, handler: Handler | None = None) -> Reply:
        handle = handler or ROUTES[RequestCode(request.code)]
        reply = handle(self.context, self.connection.as_connection, request)
        assert not inspect.iscoroutine(reply)
        return reply

    # --- what is stored ---------------------------------------------------------------------------

    def records(self, topic: str = "T", queue_id: int = 1) -> list[Record]:
        """The messages of a queue, without the checksums that the store adds."""
        found: list[Record] = []
        while True:
            result = self.store.get(topic, queue_id, len(found), 32)
            if not result.count:
                return found
            for record in decode_records(b"".join(result.views), strict=True):
                record.remove_property(CRC32)
                found.append(record)

    def record(self, topic: str = "T", queue_id: int = 1) -> Record:
        """The only message of a queue."""
        (found,) = self.records(topic, queue_id)
        return found
