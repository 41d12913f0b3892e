"""How often a message is tried again, and after which delay."""

import pytest

from roketto.broker.retry import (
    Retry,
    decide_send_back,
    group_of_retry_topic,
    is_dead_on_send,
    retries_max,
)
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.versions import V3_4_9


def test_sixteen_retries_with_growing_delays_then_a_dead_letter() -> None:
    """Levels 3 to 18 where the consumer leaves it to the broker, by Java's defaults."""
    decisions = [decide_send_back(times, 16, 0) for times in range(17)]
    assert decisions == [*(Retry(False, level) for level in range(3, 19)), Retry(True, 0)]


def test_a_consumer_may_choose_the_level_or_give_up() -> None:
    """Above zero: that level; below: dead at once."""
    assert decide_send_back(9, 16, 5) == Retry(False, 5)
    assert decide_send_back(0, 16, -1) == Retry(True, 0)
    assert decide_send_back(0, 0, 5) == Retry(True, 0)


def test_a_sent_retry_is_dead_one_later_than_one_given_back() -> None:
    """``>`` here and ``>=`` there: the sender has counted the try that is to come."""
    assert not is_dead_on_send(16, 16, is_orderly=False)
    assert is_dead_on_send(17, 16, is_orderly=False)
    assert is_dead_on_send(0, 16, is_orderly=True)


def test_clients_decide_how_often_from_3_4_9_on() -> None:
    """Before, and where they say nothing, the group's configuration counts."""
    group = SubscriptionGroupConfig(retry_max_times=3)
    assert retries_max(group, V3_4_9, 7) == 7
    assert retries_max(group, V3_4_9 - 1, 7) == 3
    assert retries_max(group, V3_4_9, None) == 3


@pytest.mark.parametrize(
    ("topic", "group"),
    [("%RETRY%G", "G"), ("%RETRY%G_T", "G_T"), ("%RETRY%G+T", "G"), ("%RETRY%G+T+U", "G+T+U")],
)
def test_a_retry_topic_names_its_group(topic: str, group: str) -> None:
    """Pop's second form has the topic behind a plus; its first cannot be told from a group."""
    assert group_of_retry_topic(topic) == group
