"""Messages that Java consumers fail: they come again, later, and in the end they are put aside."""

import time
from itertools import pairwise

from interop.broker.clients import Clients, Message, eventually, is_unknown_topic
from interop.broker.cluster import DELAY_LEVELS_S
from interop.peer import ClientError


def retry_delays_ms(received: list[Message]) -> list[int]:
    """Between one try and the next."""
    return [later.at_ms - one.at_ms for one, later in pairwise(received)]


def test_failed_message_comes_again_until_it_succeeds(clients: Clients) -> None:
    """Real topic, own properties and first id each time; only the count of tries grows."""
    asked = {"body": "fail thrice", "tags": "Tag", "keys": "k", "properties": {"城市": "北京"}}
    sent = clients.send("Retried", [asked, "pass"])
    with clients.push("retried", "Retried", fails=3) as consumer:
        consumer.received(5)
        received = [one for one in consumer.stop() if one.body == "fail thrice"]
    assert [one.times for one in received] == [0, 1, 2, 3]
    assert {one.topic for one in received} == {"Retried"}
    assert {one.id for one in received} == {sent[0].id}
    for one in received:
        assert one.properties["TAGS"] == "Tag"
        assert one.properties["KEYS"] == "k"
        assert one.properties["城市"] == "北京"
    for one in received[1:]:
        assert one.properties["RETRY_TOPIC"] == "Retried"
        assert one.properties["ORIGIN_MESSAGE_ID"] == sent[0].offset_id
        assert one.properties["REAL_TOPIC"] == "%RETRY%retried"
    assert [one.properties.get("DELAY") for one in received] == [None, "3", "4", "5"]
    expected_ms = [DELAY_LEVELS_S[level - 1] * 1000 for level in (3, 4, 5)]
    for delay_ms, least_ms in zip(retry_delays_ms(received), expected_ms, strict=True):
        assert delay_ms >= least_ms


def test_consumer_may_choose_the_delay_of_the_next_try(clients: Clients) -> None:
    """delayLevelWhenNextConsume 2 is two seconds, every time."""
    clients.send("Chosen2s", ["fail twice"])
    with clients.push("chosen2s", "Chosen2s", fails=2, delayLevel=2) as consumer:
        received = consumer.received(3)
    assert [one.times for one in received] == [0, 1, 2]
    assert all(delay_ms >= 2000 for delay_ms in retry_delays_ms(received))
    assert [one.properties.get("DELAY") for one in received] == [None, "2", "2"]


def test_message_that_never_succeeds_is_put_aside(clients: Clients) -> None:
    """After maxReconsumeTimes it is in the dead letter topic, with all that tells where it was."""
    sent = clients.send("Dead", [{"body": "fail always", "keys": "k", "properties": {"own": "1"}}])
    with clients.push("dead", "Dead", fails=99, maxReconsumeTimes=2) as consumer:
        assert [one.times for one in consumer.received(3)] == [0, 1, 2]
        eventually(lambda: count_of(clients, "%DLQ%dead") == 1, "the dead letter")
        assert len(consumer.stop()) == 3
    dead = clients.drain("%DLQ%dead", 1)[0]
    assert (dead.body, dead.topic, dead.id) == ("fail always", "%DLQ%dead", sent[0].id)
    assert dead.times == 3
    assert dead.properties["RETRY_TOPIC"] == "Dead"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent[0].offset_id
    assert dead.properties["KEYS"] == "k"
    assert dead.properties["own"] == "1"


def test_consumer_may_put_a_message_aside_at_once(clients: Clients) -> None:
    """delayLevelWhenNextConsume -1 asks for the dead letter topic instead of another try."""
    clients.send("DeadAtOnce", ["fail"])
    with clients.push("deadAtOnce", "DeadAtOnce", fails=99, delayLevel=-1) as consumer:
        eventually(lambda: count_of(clients, "%DLQ%deadAtOnce") == 1, "the dead letter")
        assert [one.times for one in consumer.stop()] == [0]
    assert [one.body for one in clients.drain("%DLQ%deadAtOnce", 1)] == ["fail"]


def test_orderly_message_that_never_succeeds_is_put_aside(clients: Clients) -> None:
    """It is tried in its place so often, then put aside, and its queue goes on."""
    asked = [{"body": body, "hash": "one"} for body in ("pass 0", "fail 1", "pass 2")]
    clients.send("DeadOrderly", asked, "selector")
    options = {"orderly": True, "fails": 99, "maxReconsumeTimes": 2}
    with clients.push("deadOrderly", "DeadOrderly", **options) as consumer:
        received = consumer.received(5)
        eventually(lambda: count_of(clients, "%DLQ%deadOrderly") == 1, "the dead letter")
    assert [(one.body, one.times) for one in received] == [
        ("pass 0", 0), ("fail 1", 0), ("fail 1", 1), ("fail 1", 2), ("pass 2", 0),
    ]  # fmt: skip
    dead = clients.drain("%DLQ%deadOrderly", 1)[0]
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == ("fail 1", "DeadOrderly")


def count_of(clients: Clients, topic: str) -> int:
    """How many messages a topic holds; none while it is not there."""
    try:
        return sum(largest for _, largest, _ in clients.bounds(topic).values())
    except ClientError as missing:
        if not is_unknown_topic(missing):
            raise
        return 0


def test_delayed_messages_come_when_their_time_has_come(clients: Clients) -> None:
    """Never early; those of a shorter delay first, those of one delay in their order."""
    levels = [2, 6, 1, 2, 1, 0, 6, 1]
    asked = [
        {"body": f"{level} {n}", "delayLevel": level, "hash": "one"}
        for n, level in enumerate(levels)
    ]
    started_ms = int(time.time() * 1000)
    sent = clients.send("Delayed", asked, "selector")
    assert [one.status for one in sent] == ["SEND_OK"] * 8
    with clients.push("delayed", "Delayed") as consumer:
        received = sorted(consumer.received(8), key=lambda one: one.offset)
    assert [one.body for one in received] == sorted(
        (str(one["body"]) for one in asked), key=lambda body: int(body.split()[0])
    )
    for one in received:
        level, number = map(int, one.body.split())
        delay_ms = DELAY_LEVELS_S[level - 1] * 1000 if level else 0
        assert started_ms <= one.born_ms
        assert one.born_ms + delay_ms <= one.stored_ms <= one.at_ms, one
        assert one.topic == "Delayed"
        assert one.id == sent[number].id
        if level:
            assert one.properties["DELAY"] == str(level)
            assert one.properties["REAL_TOPIC"] == "Delayed"
            assert one.properties["REAL_QID"] == str(one.queue)
