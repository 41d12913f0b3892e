"""What consumer groups want to be sent: their SQL92 filters, compiled and kept across restarts.

A group tells its filters with its heartbeats. They outlive the group's consumers by a day
(filterDataCleanTimeSpan), because pulls need them before the next heartbeat comes.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from roketto.broker.bloom import BloomFilter
from roketto.broker.config import BrokerConfig
from roketto.broker.filter_work import WAITING_MAX, FilterWork
from roketto.broker.wanted import (
    Wanted,
    WantedAgain,
    WantedBySql,
    is_tag_type,
    wanted_by_heartbeat,
    wanted_tags,
)
from roketto.clock import wall_ms
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import FilterError, RequestError
from roketto.protocol.names import is_retry_topic
from roketto.protocol.sql import SqlFilter, compile_filter
from roketto.store.errors import TableFullError
from roketto.store.filter_table import ConsumerFilter, FilterTable

log = logging.getLogger(__name__)

SQL92: Final = "SQL92"

KEPT_MAX: Final = 10_000
"""Compiled filters, and parsed subscriptions, that are remembered; they are made again if more."""
KEPT_CHARS_MAX: Final = 1_048_576
"""Characters of their expressions, for each of both: what is made of one takes some 60 bytes."""
PARSING_UNITS: Final = 10_000
"""Work for each character of an expression that is compiled; see ``FilterWork``."""
_EXPIRE_EACH_MS: Final = 3_600_000
_GRACE_MS: Final = 30_000
"""A filter found at the start has been without consumers for about a heartbeat; as in Java."""


class _Kept:
    """A subscription that was looked at, and what it wants."""

    __slots__ = ("subscription", "version", "wanted")

    def __init__(self, subscription: SubscriptionData, wanted: Wanted) -> None:
        self.subscription: SubscriptionData = subscription
        self.version: int = subscription.sub_version
        self.wanted: Wanted = wanted


class Filters:
    """The SQL filters of all groups, and what every subscription wants.

    filters = Filters(table, config)              # after the table was loaded
    filters.register("G", subscriptions)          # with each heartbeat
    filters.wanted_by("G", "T", subscription, 0)  # with each pull
    filters.save()
    """

    def __init__(
        self,
        table: FilterTable,
        config: BrokerConfig,
        clock_ms: Callable[[], int] = wall_ms,
        *,
        kept_max: int = KEPT_MAX,
        kept_chars_max: int = KEPT_CHARS_MAX,
    ) -> None:
        self.work = FilterWork()
        """What looking at properties may cost in one turn of the loop."""
        self._table = table
        self._config = config
        self._clock_ms = clock_ms
        self._kept_max = kept_max
        self._kept_chars_max = kept_chars_max
        self._bloom = BloomFilter(
            config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
        )
        self._topics: dict[str, set[str]] = {}
        """Where each group has filters."""
        self._compiled: dict[str, SqlFilter] = {}
        self._compiled_chars = 0
        self._by_heartbeat: dict[tuple[str, str], _Kept] = {}
        self._by_text: dict[str, Wanted] = {}
        self._by_text_chars = 0
        self._expired_ms = clock_ms()
        self._adopt()

    # --- the table --------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Nobody uses what was loaded: it is dead until a heartbeat comes."""
        dead_ms = self._clock_ms() - _GRACE_MS
        for found in list(self._table):
            self._topics.setdefault(found.consumer_group, set()).add(found.topic)
            if found.dead_time == 0:
                found.dead_time = max(dead_ms, found.born_time)
                self._table.put(found)

    def expire(self) -> None:
        """Forget the filters that have been dead for long; now and then that is done unasked."""
        self._expired_ms = self._clock_ms()
        oldest_ms = self._expired_ms - self._config.filter_data_clean_time_span
        for found in list(self._table):
            if found.dead and found.dead_time <= oldest_ms:
                self._remove(found.topic, found.consumer_group)

    def save(self) -> bool:
        """Write the table if it has changed; whether it had."""
        self.expire()
        return self._table.save_if_changed()

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take over the filters of a group; those it has no longer are dead.

        A heartbeat may have thousands: whatever is too much for this turn has one of its own.
        """
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                if not self.work.is_used_up:
                    self._register(group, subscription)
                elif len(self.work) < WAITING_MAX:
                    self.work.wait(partial(self._register, group, subscription))
                else:
                    log.warning("too many filters wait: group %s has to tell again", group)
        for topic in self._topics.get(group, set()) - topics:
            self._bury(topic, group)

    def unregister(self, group: str) -> None:
        """The last consumer of a group has gone."""
        for topic in self._topics.get(group, ()):
            self._bury(topic, group)

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        topic, version = subscription.topic, subscription.sub_version
        expression, kind = subscription.sub_string or "", subscription.expression_type
        old = self._table.get(topic, group)
        if old is None:
            self._add(group, subscription)
        elif version < old.client_version:
            if (expression, kind) != (old.expression, old.expression_type):
                log.info(
                    "group %s has a filter on %s of version %d, which is older than %d: ignored",
                    group, topic, version, old.client_version,
                )  # fmt: skip
        elif version == old.client_version:
            if old.dead:
                self._revive(old, version)
        elif (expression, kind) != (old.expression, old.expression_type):
            self._add(group, subscription)
        else:
            self._revive(old, version)

    def _add(self, group: str, subscription: SubscriptionData) -> None:
        """Add or replace a filter; one that cannot be compiled leaves none, and pulls say so."""
        topic = subscription.topic
        if self._clock_ms() - self._expired_ms > _EXPIRE_EACH_MS:
            self.expire()
        try:
            self.compile(subscription.expression_type, subscription.sub_string)
            self._table.put(
                ConsumerFilter(
                    bloom_filter_data=self._bloom.of_group(topic, group),
                    born_time=self._clock_ms(),
                    client_version=subscription.sub_version,
                    consumer_group=group,
                    expression=subscription.sub_string,
                    expression_type=subscription.expression_type,
                    topic=topic,
                )
            )
        except (FilterError, TableFullError) as error:
            log.warning("group %s has no filter on %s: %s", group, topic, error)
            self._remove(topic, group)
        else:
            self._topics.setdefault(group, set()).add(topic)

    def _revive(self, found: ConsumerFilter, version: int) -> None:
        found.client_version = version
        if found.dead:
            found.dead_time = 0
        self._table.put(found)

    def _bury(self, topic: str, group: str) -> None:
        found = self._table.get(topic, group)
        if found is not None and not found.dead:
            found.dead_time = self._clock_ms()
            self._table.put(found)

    def _remove(self, topic: str, group: str) -> None:
        self._table.remove(topic, group)
        topics = self._topics.get(group)
        if topics is not None:
            topics.discard(topic)
            if not topics:
                del self._topics[group]

    # --- what is wanted ---------------------------------------------------------------------------

    def wanted_by(
        self, group: str, topic: str, subscription: SubscriptionData, version: int
    ) -> Wanted:
        """What a subscription of a heartbeat wants; ``version`` is the one that the pull knows."""
        key = (group, topic)
        kept = self._by_heartbeat.get(key)
        if (
            kept is not None
            and kept.subscription is subscription
            and kept.version == subscription.sub_version
        ):
            return kept.wanted
        if not is_tag_type(subscription.expression_type):
            # Not kept: the filter may change without the subscription.
            sql = self.find(topic, group, version)
            self._check_enabled(subscription.expression_type)
            return self._wanted_sql(topic, group, sql)
        wanted = wanted_by_heartbeat(subscription)
        if len(self._by_heartbeat) >= self._kept_max:
            self._by_heartbeat.clear()
        self._by_heartbeat[key] = _Kept(subscription, wanted)
        return wanted

    def wanted_in(
        self, group: str, topic: str, expression: str | None, expression_type: str | None
    ) -> Wanted:
        """What the expression of a request wants; FilterError if it is none."""
        if not is_tag_type(expression_type):
            sql = self.compile(expression_type, expression)
            self._check_enabled(expression_type)
            return self._wanted_sql(topic, group, sql)
        text = expression or ""
        wanted = self._by_text.get(text)
        if wanted is None:
            wanted = wanted_tags(text)
            if self._is_full(len(self._by_text), self._by_text_chars + len(text)):
                self._by_text.clear()
                self._by_text_chars = 0
            self._by_text[text] = wanted
            self._by_text_chars += len(text)
        return wanted

    def find(self, topic: str, group: str, version: int) -> SqlFilter:
        """The filter of a group on a topic; RequestError unless it is at least of this version."""
        found = self._table.get(topic, group)
        if found is None:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"group {group} has no filter on topic {topic} here: no heartbeat has told one, or"
                " its expression is wrong",
            )
        if found.client_version < version:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_LATEST,
                f"the filter of group {group} on topic {topic} is of version"
                f" {found.client_version}, older than {version}: wait for the next heartbeat",
            )
        return self.compile(found.expression_type, found.expression)

    def get(self, topic: str, group: str) -> SqlFilter | None:
        """The filter of a group on a topic; None if it has none there."""
        found = self._table.get(topic, group)
        if found is None:
            return None
        try:
            return self.compile(found.expression_type, found.expression)
        except FilterError:  # of a file that another broker has written
            return None

    def kept(self, topic: str, group: str) -> ConsumerFilter | None:
        """What is kept of the filter of a group, for operators; None without one."""
        return self._table.get(topic, group)

    def compile(self, expression_type: str | None, expression: str | None) -> SqlFilter:
        """The compiled form of an expression; FilterError says what is wrong with it."""
        if expression_type != SQL92:
            raise FilterError(
                f"expressions of type {expression_type} are unknown; use TAG or SQL92"
            )
        text = expression or ""
        compiled = self._compiled.get(text)
        if compiled is None:
            self.work.spend(len(text) * PARSING_UNITS)
            compiled = compile_filter(text)
            if self._is_full(len(self._compiled), self._compiled_chars + len(text)):
                self._compiled.clear()
                self._compiled_chars = 0
            self._compiled[text] = compiled
            self._compiled_chars += len(text)
        return compiled

    def _is_full(self, count: int, chars: int) -> bool:
        """Whether what is remembered has to be forgotten before one more comes."""
        return count >= self._kept_max or chars > self._kept_chars_max

    def check(self, expression_type: str | None, expression: str | None) -> None:
        """RequestError unless a consumer may subscribe like that (CHECK_CLIENT_CONFIG)."""
        if is_tag_type(expression_type):
            return
        self._check_enabled(expression_type)
        self.compile(expression_type, expression)

    def _check_enabled(self, expression_type: str | None) -> None:
        if not self._config.enable_property_filter:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type}: "
                "set enablePropertyFilter=true",
            )

    def _wanted_sql(self, topic: str, group: str, sql: SqlFilter) -> Wanted:
        if self._config.filter_support_retry and is_retry_topic(topic):
            return WantedAgain(partial(self._get_of, group))
        return WantedBySql(sql)

    def _get_of(self, group: str, topic: str) -> SqlFilter | None:
        return self.get(topic, group)
