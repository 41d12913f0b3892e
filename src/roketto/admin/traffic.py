"""How busy topics and groups are: what goes in and out of them, and what waits."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from roketto.admin.errors import NoProgressError
from roketto.admin.fleet import Broker, Fleet, ask_all, brokers_of
from roketto.admin.groups import Groups
from roketto.admin.topics import Topics
from roketto.client.errors import RefusedError
from roketto.protocol.bodies.stats import BrokerStatsData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.stats import ViewBrokerStatsDataRequest
from roketto.protocol.names import is_dlq_topic, is_retry_topic

__all__ = ["Flow", "Traffic", "TrafficRow", "add_up"]

_PUT: Final = "TOPIC_PUT_NUMS"
_GET: Final = "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages per second in the last minute, and messages in the last day."""

    tps: float = 0.0
    day: int = 0


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """A topic and one group that consumes it; without a group if nobody does."""

    topic: str
    group: str | None
    lag: int
    put: Flow
    """Of the topic, the same in all its rows."""
    got: Flow


def add_up(tables: Iterable[BrokerStatsData | None]) -> Flow:
    """What several brokers have counted. A broker that runs for less than a day, or an hour, has
    no sum of it yet: then the sum of the shorter time counts.
    """
    tps, day = 0.0, 0
    for table in tables:
        if table is not None:
            tps += table.stats_minute.tps if table.stats_minute else 0.0
            sums = (table.stats_day, table.stats_hour, table.stats_minute)
            day += next((item.sum for item in sums if item is not None and item.sum), 0)
    return Flow(tps, day)


class Traffic:
    """Made by ``Admin``, as ``admin.traffic``; mqadmin calls it statsAll.

    for row in await admin.traffic.rows(only_active=True):
        print(row.topic, row.group, row.lag, row.put.tps)
    """

    def __init__(self, fleet: Fleet, topics: Topics, groups: Groups) -> None:
        self._fleet = fleet
        self._topics = topics
        self._groups = groups

    async def rows(
        self, topics: Collection[str] | None = None, *, only_active: bool = False
    ) -> list[TrafficRow]:
        """The rows of some topics, or of all but those of retries and dead letters."""
        if topics is None:
            topics = [
                topic
                for topic in await self._topics.names()
                if not is_retry_topic(topic) and not is_dlq_topic(topic)
            ]
        answers = await ask_all("look at the traffic", sorted(topics), self._rows_of)
        rows = [row for found in answers.results.values() for row in found]
        if only_active:
            rows = [row for row in rows if row.put.day or row.got.day]
        return answers.checked(rows)

    async def _rows_of(self, topic: str) -> list[TrafficRow]:
        route = await self._fleet.route(topic)
        masters = [brokers_of(data)[0] for data in route.broker_datas]
        put = await self._flow(masters, _PUT, topic)
        groups = await self._topics.groups(topic)
        if not groups:
            return [TrafficRow(topic, None, 0, put, Flow())]
        return [
            TrafficRow(
                topic,
                group,
                await self._lag(group, topic),
                put,
                await self._flow(masters, _GET, f"{topic}@{group}"),
            )
            for group in groups
        ]

    async def _lag(self, group: str, topic: str) -> int:
        try:
            progress = await self._groups.progress(group, topic)
        except NoProgressError:
            return 0
        return max(0, progress.lag)

    async def _flow(self, masters: list[Broker], name: str, key: str) -> Flow:
        request = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)

        async def ask(broker: Broker) -> BrokerStatsData | None:
            code = RequestCode.VIEW_BROKER_STATS_DATA
            try:
                return await self._fleet.ask_body(BrokerStatsData, broker.address, code, request)
            except RefusedError as error:
                # Nothing was counted there. There is no code for it, in Java neither.
                if error.code == ResponseCode.SYSTEM_ERROR and "not exist" in error.remark:
                    return None
                raise

        answers = await self._fleet.ask_each(f"read {name} of {key}", masters, ask)
        return answers.checked(add_up(answers.results.values()))
