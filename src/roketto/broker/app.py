"""The broker as a whole: open the store, serve, keep time, stop."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from roketto.broker.clients import Clients
from roketto.broker.config import BrokerConfig
from roketto.broker.context import Context
from roketto.broker.dedup import Dedup
from roketto.broker.delay_levels import DelayLevels
from roketto.broker.delays import Delays
from roketto.broker.dispatch import Dispatcher
from roketto.broker.durability import Durability
from roketto.broker.filters import Filters
from roketto.broker.groups import Groups
from roketto.broker.handlers.transactions import ask_producer
from roketto.broker.lanes import Lanes
from roketto.broker.locks import QueueLocks
from roketto.broker.longpoll import LongPolls
from roketto.broker.lookup import Lookups
from roketto.broker.minutes import Minutes
from roketto.broker.offsets import Offsets
from roketto.broker.priority import Priorities, queue_end
from roketto.broker.publications import Publications
from roketto.broker.put import put_as_is
from roketto.broker.recovery_progress import RecoveryProgress
from roketto.broker.registration import Registration
from roketto.broker.relays import Relays
from roketto.broker.sending import Sending
from roketto.broker.settings import busy_after_s, server_settings, store_settings
from roketto.broker.sinks import Sinks
from roketto.broker.stats import Statistics
from roketto.broker.tables import Tables
from roketto.broker.timers import Timers
from roketto.broker.topics import Topics
from roketto.broker.transactions import Transactions
from roketto.clock import monotonic_s, wall_ms
from roketto.config_file import ConfigFile
from roketto.options import ConfigError
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.hosts import encode_host
from roketto.protocol.names import (
    TRANSACTION_GIVEN_UP_TOPIC,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from roketto.protocol.record import Record
from roketto.remoting.connection import refuse_requests
from roketto.remoting.server import Server
from roketto.store.files import Files
from roketto.store.store import PutResult, Store
from roketto.store.timer_store import TimerStore

log = logging.getLogger(__name__)

_BEAT_S: Final = 1.0
_SHORT_BEAT_S: Final = 0.1
"""How often parked pulls and answers that wait for the disk are looked at for their deadlines."""
_VIP_DISTANCE: Final = 2
"""How far below the port of a broker its second one is."""
_BEATS_PER_SCAN: Final = 10
"""Clients that have gone silent are looked for every ten seconds, as Java does."""
_BEATS_PER_MINUTE: Final = 60


class Broker:
    """A running broker on one store directory.

    broker = Broker(BrokerConfig(listen_port=0, namesrv_addr="127.0.0.1:9876"))
    await broker.start()      # OSError: the port is taken; StoreError: the store cannot be opened
    broker.port
    await broker.stop()       # what is under way is answered, everything is on the disk
    """

    def __init__(self, config: BrokerConfig, *, clock_ms: Callable[[], int] = wall_ms) -> None:
        self._config = config
        self._clock_ms = clock_ms
        self._servers: list[Server] = []
        self._beats: list[asyncio.Task[None]] = []
        self._tables = Tables(Files(), config.store_path_root_dir)
        self._context: Context | None = None

    @property
    def port(self) -> int:
        """Where it listens, also when 0 was asked for."""
        return self._servers[0].port

    @property
    def context(self) -> Context:
        """What its handlers work with, once it was started."""
        assert self._context is not None, "the broker was not started"
        return self._context

    # --- starting ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the port, open the store, serve, and tell the name servers."""
        try:
            self._bind()
            context = self._context = self._make_context()
            self._open(context)
        except BaseException:
            await self._stop_servers()
            raise
        dedup = Dedup(context.store, context.topics, self._clock_ms)
        dedup.start()
        dispatcher, lanes = Dispatcher(context), Lanes(context)
        for server in self._servers:
            server.handler = dispatcher.handle
            server.lane = lanes
            await server.start()
        await context.registration.start()
        self._beats = [
            asyncio.create_task(work)
            for work in (
                self._keep_time(context),
                self._keep_deadlines(context),
                self._tables.keep_saved(self._config.flush_consumer_offset_interval / 1000),
                context.delays.run(),
                *context.timers.tasks(),
                context.transactions.run(),
                dedup.run(),
            )
        ]

    def _bind(self) -> None:
        """Take the port, and the one two below it, which old clients call the VIP channel."""
        settings = server_settings(self._config)
        server = Server(refuse_requests, settings)
        server.bind()
        self._servers.append(server)
        if settings.port <= _VIP_DISTANCE:
            return
        vip = Server(refuse_requests, replace(settings, port=settings.port - _VIP_DISTANCE))
        try:
            vip.bind()
        except OSError as error:
            log.warning(
                "clients before 4.5 use port %d too (the VIP channel), which cannot be had: %s",
                settings.port - _VIP_DISTANCE, error,
            )  # fmt: skip
        else:
            self._servers.append(vip)

    def _make_context(self) -> Context:
        config, tables = self._config, self._tables
        tables.load()
        levels = DelayLevels(config.message_delay_level)
        polls = LongPolls()
        store = Store(
            config.store_path_root_dir, store_settings(config),
            clock_ms=self._clock_ms, on_arrival=polls.arrived, delay_of_level=levels.delay_ms,
            on_flushed=self._note_flushed, on_failure=self._note_failure, waited=polls.queues,
            on_wanted=self._want_flush,
        )  # fmt: skip
        is_sync = config.flush_disk_type == "SYNC_FLUSH"
        stats = Statistics(
            clock_ms=self._clock_ms,
            enable_detail_stat=config.enable_detail_stat,
            is_sync=is_sync,
        )
        address = f"{config.broker_ip1}:{self.port}"
        store_host = encode_host(_numeric(config.broker_ip1), self.port)
        topics = Topics(tables.topics, config, self._clock_ms)
        sending = Sending(config, store_host, self._clock_ms)
        offsets = Offsets(tables.offsets)
        clients = Clients(config, monotonic_s)
        put = partial(put_as_is, store, stats)
        timers = self._make_timers(store, put)
        delays = Delays(
            tables.delays, levels, store, put, timers.gate.transform,
            note_delivered=stats.note_delivered,
        )  # fmt: skip
        transactions = Transactions(
            store, offsets, config, sending, put, tables.transaction_metrics,
            delay=delays.transform,
            give_up=partial(topics.create_for_group, TRANSACTION_GIVEN_UP_TOPIC, 1),
            ask=partial(ask_producer, clients, config.broker_name),
            clock_ms=self._clock_ms,
        )  # fmt: skip
        sinks = self._make_sinks(store, topics, sending, put)
        return Context(
            config=config,
            config_file=ConfigFile(config, lambda: config.broker_config_path, config.given),
            clock_ms=self._clock_ms,
            address=address,
            store_host=store_host,
            store=store,
            sending=sending,
            topics=topics,
            groups=Groups(tables.groups, config),
            modes=tables.modes,
            offsets=offsets,
            clients=clients,
            locks=QueueLocks(monotonic_s),
            filters=Filters(tables.filters, config, self._clock_ms),
            polls=polls,
            lookups=Lookups(),
            relays=Relays(),
            priorities=Priorities(
                polls, partial(queue_end, store), is_ascending=lambda: config.priority_order_asc
            ),
            durability=self._make_durability(store, stats, is_sync=is_sync),
            delays=delays,
            timers=timers,
            transactions=transactions,
            sinks=sinks,
            publications=Publications(store, topics, sinks, stats, config, store_host),
            stats=stats,
            saved=tables.saved,
            registration=Registration(config, topics, address),
        )

    def _make_durability(self, store: Store, stats: Statistics, *, is_sync: bool) -> Durability:
        config = self._config
        return Durability(
            store.advance,
            request_flush=store.request_flush,
            is_sync=is_sync,
            timeout_s=config.sync_flush_timeout / 1000,
            busy_after_s=busy_after_s(config),
            note_taken=stats.latency.note,
        )

    def _make_sinks(
        self, store: Store, topics: Topics, sending: Sending, put: Callable[[Record], PutResult]
    ) -> Sinks:
        return Sinks(
            store, topics, self._tables.sinks, sending, put,
            broker_name=self._config.broker_name, clock_ms=self._clock_ms,
        )  # fmt: skip

    def _make_timers(self, store: Store, put: Callable[[Record], PutResult]) -> Timers:
        config = self._config
        timer_store = TimerStore(
            Files(), config.store_path_root_dir, precision_ms=config.timer_precision_ms,
            log_file_bytes=config.mapped_file_size_timer_log, clock_ms=self._clock_ms,
        )  # fmt: skip
        metrics = self._tables.timer_metrics
        return Timers(timer_store, metrics, config, store, put, clock_ms=self._clock_ms)

    def _open(self, context: Context) -> None:
        """Open the store, and see to it that everything in it can be reached."""
        context.durability.attach(asyncio.get_running_loop())
        recovered = context.store.open(os.getpid(), RecoveryProgress(context.store.root))
        log.info("the store %s is open: %s", context.store.root, recovered)
        if recovered.cut_bytes:
            log.warning(
                "%d bytes behind offset %d of the log were no whole records and have been cut off",
                recovered.cut_bytes, recovered.end,
            )  # fmt: skip
        context.topics.create_system_topics()
        self._adopt_topics(context)
        context.groups.create_fixed_groups()
        context.timers.start()
        context.transactions.start()
        context.sinks.start()
        context.topics.on_change = self._note_topic
        context.groups.on_change = self._tables.save_soon
        context.clients.on_group_gone = context.filters.unregister
        self._tables.save_all()

    def _adopt_topics(self, context: Context) -> None:
        """Give topics back that have messages but are not in the table.

        A kill may come between the first message of a topic and the saving of the table; without
        its topic nobody could consume the message, which was acknowledged. It gets the queues of a
        topic that is made on first use: producers know of more than those that have messages.
        """
        least = context.config.default_topic_queue_nums
        for topic, queue_ids in context.store.topics():
            if context.topics.get(topic) is None and not is_system_topic(topic) and queue_ids:
                is_of_group = is_retry_topic(topic) or is_dlq_topic(topic)
                queues = max(queue_ids[-1] + 1, 1 if is_of_group else least)
                context.topics.put(
                    TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
                )
                log.warning(
                    "topic %s has messages and was not in the table: %d queues", topic, queues
                )

    # --- while it runs ----------------------------------------------------------------------------

    def _note_topic(self, topic: TopicConfig | None) -> None:
        self._tables.save_soon()
        self.context.registration.announce(topic)

    def _want_flush(self) -> None:
        if self._context is not None:
            self._context.durability.want_flush()

    def _note_flushed(self, offset: int) -> None:
        if self._context is not None:
            self._context.durability.note_flushed(offset)

    def _note_failure(self, error: OSError) -> None:
        log.critical("the store takes no more messages, a write to its disk has failed: %s", error)
        if self._context is not None:
            self._context.durability.note_failure(error)

    async def _keep_time(self, context: Context) -> None:
        """What is due every second, every ten, and every minute."""
        minutes = Minutes(context.stats)
        beat = 0
        while True:
            await asyncio.sleep(_BEAT_S)
            beat += 1
            has_more = True
            while has_more:
                has_more = context.store.tick()
                await asyncio.sleep(0)
            context.sinks.settle()
            context.stats.note_bytes(
                sum(server.load.bytes_in for server in self._servers),
                sum(server.load.bytes_out for server in self._servers),
            )
            now_s, has_more = monotonic_s(), True
            while has_more:
                has_more = context.stats.tick(now_s)
                await asyncio.sleep(0)
            if beat % _BEATS_PER_SCAN == 0:
                context.clients.expire()
                context.filters.expire()
            if beat % _BEATS_PER_MINUTE == 0:
                done = minutes.describe(_BEATS_PER_MINUTE)
                if done is not None:
                    log.info("%s", done)

    async def _keep_deadlines(self, context: Context) -> None:
        while True:
            await asyncio.sleep(_SHORT_BEAT_S)
            context.polls.expire(monotonic_s())
            context.durability.expire()

    # --- stopping ---------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Leave the name servers, answer what is under way, bring everything to the disk."""
        context = self.context
        await context.registration.stop()
        context.polls.close()
        await self._stop_servers()
        for beat in self._beats:
            beat.cancel()
        await asyncio.gather(*self._beats, return_exceptions=True)
        await context.publications.close()
        context.durability.detach()
        context.transactions.write_decided()
        context.store.close()
        context.delays.settle()
        context.timers.close()
        context.transactions.settle()
        context.transactions.note_counts()
        context.sinks.settle()
        self._tables.save_all()

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))


def _numeric(host: str) -> str:
    """The address of a host by its numbers; ConfigError if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"brokerIP1 is {host!r}; its address cannot be found: {error}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])
