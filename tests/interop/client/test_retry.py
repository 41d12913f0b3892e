"""What our consumer fails comes again, later; in the end it is a dead letter that Java reads."""

from itertools import pairwise
from typing import Any

from interop.broker.clients import eventually, is_unknown_topic
from interop.broker.cluster import DELAY_LEVELS_S
from interop.client.members import Listener, consumer
from interop.client.sites import Site, aside
from interop.peer import ClientError
from roketto.client.push_tuning import PushTuning


async def dead_letters(site: Site, group: str, count: int) -> dict[str, Any]:
    """By body, when there are so many."""
    topic = f"%DLQ%{group}"

    def are_there() -> bool:
        try:
            bounds = site.java.bounds(topic)
        except ClientError as missing:
            if not is_unknown_topic(missing):
                raise
            return False
        return sum(largest for _, largest, _ in bounds.values()) == count

    await aside(eventually, are_there, f"{count} dead letters")
    return {one.body: one for one in await aside(site.java.drain, topic, count)}


async def test_failed_messages_come_again_until_they_succeed_or_are_dead(site: Site) -> None:
    """Real topic, own properties and first id each time; only the count of tries grows."""
    topic = await site.topic("PyRetried")
    asked = {"tags": "Tag", "keys": "k", "properties": {"城市": "北京"}}
    sent = await aside(
        site.java.send, topic, [{"body": "fail", **asked}, {"body": "failing", **asked}, "pass"]
    )

    class Failing(Listener):
        def fails(self, body: bytes, times: int) -> bool:
            return body == b"failing" or (body == b"fail" and times < 2)

    listener = Failing("ours")
    tuning = PushTuning(reconsume_max=2)
    async with consumer(site, "pyRetried", listener, [topic], tuning=tuning):
        await listener.received(7)
        dead = await dead_letters(site, "pyRetried", 1)
    assert sorted((one.body, one.times) for one in listener.got) == [
        *(("fail", n) for n in range(3)), *(("failing", n) for n in range(3)), ("pass", 0),
    ]  # fmt: skip
    tries = [one for one in listener.messages if one.body == b"fail"]
    assert {(one.topic, one.message_id, one.tags) for one in tries} == {(topic, sent[0].id, "Tag")}
    for one in tries:
        assert (one.keys, one.properties["城市"]) == (["k"], "北京")
    for one in tries[1:]:
        assert one.properties["RETRY_TOPIC"] == topic
        assert one.properties["ORIGIN_MESSAGE_ID"] == sent[0].offset_id
        assert one.queue.topic == "%RETRY%pyRetried"
    assert [one.properties.get("DELAY") for one in tries] == [None, "3", "4"]
    at_ms = [one.at_ms for one in listener.got if one.body == "fail"]
    for (before_ms, after_ms), level in zip(pairwise(at_ms), (3, 4), strict=True):
        assert after_ms - before_ms >= DELAY_LEVELS_S[level - 1] * 1000
    letter = dead["failing"]
    assert (letter.id, letter.times) == (sent[1].id, 3)
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"] == sent[1].offset_id
    assert (letter.properties["KEYS"], letter.properties["城市"]) == ("k", "北京")


async def test_a_listener_chooses_the_delay_or_the_dead_letters(site: Site) -> None:
    """delay_level 2 is two seconds, and -1 is never again."""
    topic, other = await site.topic("PyChosenLevel"), await site.topic("PyDeadAtOnce")
    await aside(site.java.send, topic, ["fail"])
    await aside(site.java.send, other, ["fail"])
    late, dead = Listener("late", fails=1, delay_level=2), Listener("dead", 9, delay_level=-1)
    async with (
        consumer(site, "pyChosenLevel", late, [topic]),
        consumer(site, "pyDeadAtOnce", dead, [other]),
    ):
        assert list(await dead_letters(site, "pyDeadAtOnce", 1)) == ["fail"]
        first, second = await late.received(2)
    assert [one.times for one in dead.got] == [0]
    assert late.got[1].at_ms - late.got[0].at_ms >= 2_000
    assert [first.properties.get("DELAY"), second.properties["DELAY"]] == [None, "2"]


async def test_what_never_succeeds_in_order_is_put_aside(site: Site) -> None:
    """It is tried in its place so often, then put aside, and its queue goes on."""
    topic = await site.topic("PyDeadOrderly")
    await aside(site.java.send, topic, ["pass 0", {"body": "fail 1", "keys": "k"}, "pass 2"])
    listener = Listener("ours", fails=99)
    tuning = PushTuning(suspend_ms=50, reconsume_max=2)
    async with consumer(site, "pyDeadOrderly", listener, [topic], in_order=True, tuning=tuning):
        await listener.received(5)
        dead = await dead_letters(site, "pyDeadOrderly", 1)
    assert [(one.body, one.times) for one in listener.got] == [
        ("pass 0", 0), ("fail 1", 0), ("fail 1", 1), ("fail 1", 2), ("pass 2", 0),
    ]  # fmt: skip
    properties = dead["fail 1"].properties
    assert (properties["RETRY_TOPIC"], properties["KEYS"]) == (topic, "k")
