"""What brokers have counted is added up, and a topic without traffic has none."""

import pytest

from roketto.admin.clients import Clients
from roketto.admin.errors import PartlyFailedError
from roketto.admin.groups import Groups
from roketto.admin.kv import Kv
from roketto.admin.topics import Topics
from roketto.admin.traffic import Flow, Traffic, TrafficRow, add_up
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.route import MessageQueue, TopicList
from roketto.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    OffsetWrapper,
)
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from unit.admin.fake_servers import NAMES, A, FakeServers, refusal, success


def item(total: int, tps: float = 0.0) -> BrokerStatsItem:
    return BrokerStatsItem(sum=total, tps=tps)


def test_the_longest_time_that_was_counted_is_the_day() -> None:
    whole = BrokerStatsData(item(100), item(10), item(1, 0.5))
    young = BrokerStatsData(item(0), item(0), item(3, 2.0))
    assert add_up([whole, None, young, BrokerStatsData()]) == Flow(2.5, 103)


async def test_rows_tell_what_goes_in_and_out_and_what_waits() -> None:
    servers = FakeServers(T=[("a", A)], U=[("a", A)], _RETRY_g=[("a", A)])
    fleet = servers.fleet
    topics = Topics(fleet, Kv(fleet))
    traffic = Traffic(fleet, topics, Groups(fleet, topics, Clients(fleet)))

    def figures(request: Command) -> Command:
        key = (request.ext or {})["statsKey"]
        counts = {"T": 8, "T@g": 5}
        if key not in counts:
            return refusal(1, f"The stats <x> <{key}> not exist")
        return success(BrokerStatsData(item(counts[key]), item(0), item(0, 1.0)))

    def groups(request: Command) -> Command:
        return success(GroupList(["g"] if (request.ext or {})["topic"] == "T" else []))

    listed = TopicList(topic_list=["U", "T", "%RETRY%g", "%DLQ%g"])
    servers.on(NAMES, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, success(listed))
    servers.on(A, RequestCode.VIEW_BROKER_STATS_DATA, figures)
    servers.on(A, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, groups)
    progress = ConsumeStats(0.0, {MessageQueue("a", 0, "T"): OffsetWrapper(8, 5)})
    servers.on(A, RequestCode.GET_CONSUME_STATS, success(progress))
    row = TrafficRow("T", "g", 3, Flow(1.0, 8), Flow(1.0, 5))
    idle = TrafficRow("U", None, 0, Flow(), Flow())
    assert await traffic.rows() == [row, idle]
    assert await traffic.rows(only_active=True) == [row]
    with pytest.raises(PartlyFailedError, match="V: topic V") as e:
        await traffic.rows(["V", "U"])
    assert e.value.partial == [idle]
