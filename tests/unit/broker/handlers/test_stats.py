"""A statistic is answered by its name as Java answers it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.dispatch import ROUTES as ALL_ROUTES
from roketto.broker.handlers.stats import ROUTES
from roketto.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    TopicStatsTable,
)
from unit.broker.clients_rig import ClientsRig, route

VIEW = route(ROUTES, 315)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def test_it_is_served() -> None:
    assert ALL_ROUTES[315] is VIEW


def test_three_windows_are_answered(rig: ClientsRig) -> None:
    """With what tools need; those that are not full are there as well."""
    for _ in range(4):
        rig.context.stats.note_put("T", 0, 5, 100)
    rig.context.stats.tick(rig.now_s + 10)
    data = rig.read(BrokerStatsData, VIEW, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
    assert data.stats_minute == BrokerStatsItem(avgpt=5.0, sum=20, tps=2.0)
    assert data.stats_hour == data.stats_day == BrokerStatsItem()


def test_what_was_not_counted_is_refused_in_java_s_words(rig: ClientsRig) -> None:
    """And no longer than a name can be."""
    refused = rig.refuse(VIEW, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
    assert refused == (1, "The stats <TOPIC_PUT_NUMS> <T> not exist")
    code, reason = rig.refuse(VIEW, {"statsName": "x" * 9_999, "statsKey": "y" * 9_999})
    assert (code, len(reason) < 600) == (1, True)


def test_the_totals_have_the_name_of_the_cluster(rig: ClientsRig) -> None:
    rig.context.stats.note_put("T", 0, 5, 100)
    cluster = rig.config.broker_cluster_name
    rig.read(BrokerStatsData, VIEW, {"statsName": "BROKER_PUT_NUMS", "statsKey": cluster})


def test_rates_of_topics_and_groups_are_told_elsewhere_too(rig: ClientsRig) -> None:
    """By topicStatus and consumerProgress, from the same minute."""
    rig.context.stats.note_put("T", 0, 30, 100)
    rig.context.stats.note_get("T", "G", 0, 20, 100)
    rig.context.stats.tick(rig.now_s + 10)
    topic = rig.read(TopicStatsTable, ALL_ROUTES[202], {"topic": "T"})
    assert topic.topic_put_tps == 3.0
    group = rig.read(ConsumeStats, ALL_ROUTES[208], {"consumerGroup": "G", "topic": "T"})
    assert group.consume_tps == 2.0


@pytest.mark.parametrize("missing", ["statsName", "statsKey"])
def test_name_and_key_are_needed(rig: ClientsRig, missing: str) -> None:
    ext = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
    del ext[missing]
    _, reason = rig.refuse(VIEW, ext)
    assert missing in reason
