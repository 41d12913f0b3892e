"""A message given back comes again as often as allowed, then it is a dead letter."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roketto.broker.handlers.send_back import ROUTES, send_back
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.record import Record
from roketto.protocol.versions import V3_4_9
from roketto.remoting.connection import Reply
from unit.broker.send_rig import PLAIN, SendRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path, levels="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    yield rig
    rig.close()


def stored(rig: SendRig, queue: str = "1") -> Record:
    rig.send(e=queue)
    return rig.records(queue_id=int(queue))[-1]


def back(rig: SendRig, record: Record, level: int = 0, **fields: str) -> Reply:
    ext = {"offset": str(record.log_offset), "group": "G", "delayLevel": str(level)} | fields
    return rig.handle(Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext), send_back)


def refusal(rig: SendRig, record: Record, **fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        back(rig, record, **fields)
    return caught.value


def test_a_message_given_back_waits_for_its_group(rig: SendRig) -> None:
    """With all that a consumer needs to see it as the one it knows."""
    original = stored(rig)
    answer = back(rig, original)
    assert isinstance(answer, Command)
    assert (answer.code, answer.ext, answer.remark) == (0, None, None)
    waiting = rig.record(SCHEDULE_TOPIC, 2)
    assert waiting.reconsume_times == 1
    assert waiting.properties == original.properties | {
        "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": original.offset_id, "WAIT": "false",
        "DELAY": "3", "REAL_TOPIC": "%RETRY%G", "REAL_QID": "0",
    }  # fmt: skip
    assert (waiting.body, waiting.flag, waiting.born_time_ms, waiting.born_host) == (
        original.body, original.flag, original.born_time_ms, original.born_host,
    )  # fmt: skip
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert (retry.write_queue_nums, retry.perm) == (1, 6)


def test_sixteen_retries_then_a_dead_letter(rig: SendRig) -> None:
    """The whole life of a message that nobody can consume, by Java's defaults."""
    rig.delays.start()
    record = stored(rig)
    first_id = record.offset_id
    for times in range(16):
        back(rig, record)
        assert not rig.records("%DLQ%G", 0)
        rig.pass_ms(rig.levels.delay_ms(3 + times))
        rig.delays.step()
        retries = rig.records("%RETRY%G", 0)
        assert len(retries) == times + 1
        record = retries[-1]
        assert record.reconsume_times == times + 1
    back(rig, record)
    dead = rig.record("%DLQ%G", 0)
    assert dead.reconsume_times == 17
    assert dead.properties["DELAY"] == "0"
    assert dead.properties["RETRY_TOPIC"] == "T"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == first_id
    assert rig.context.topics.get("%DLQ%G") is not None


def test_the_consumer_chooses_the_level_or_gives_up(rig: SendRig) -> None:
    """A level of its own, or dead at once."""
    record = stored(rig)
    back(rig, record, 7)
    assert len(rig.records(SCHEDULE_TOPIC, 6)) == 1
    back(rig, record, -1)
    assert len(rig.records("%DLQ%G", 0)) == 1


def test_clients_say_how_often_unless_they_are_old(rig: SendRig) -> None:
    """maxReconsumeTimes counts from 3.4.9 on."""
    record = stored(rig)
    back(rig, record, maxReconsumeTimes="0")
    assert len(rig.records("%DLQ%G", 0)) == 1
    ext = {"offset": str(record.log_offset), "group": "G", "delayLevel": "0"}
    request = Command(36, ext | {"maxReconsumeTimes": "0"}, version=V3_4_9 - 1)
    rig.handle(request, send_back)
    assert len(rig.records("%DLQ%G", 0)) == 1


def test_what_is_given_back_and_what_is_dead_is_counted(rig: SendRig) -> None:
    """For the topic that its consumer knows it from; neither is a send."""
    record = stored(rig)
    puts = rig.context.stats.user_put_count
    back(rig, record)
    back(rig, record, level=-1)
    back(rig, record, level=-1, originTopic="Known")
    topics = rig.context.stats.topics
    assert (topics["T"].groups["G"].send_back.count, topics["T"].groups["G"].dead.count) == (3, 1)
    assert topics["Known"].groups["G"].dead.count == 1
    assert rig.context.stats.user_put_count == puts
    assert topics[SCHEDULE_TOPIC].put.count == 1


def test_a_group_without_retry_queues_gets_nothing_back(rig: SendRig) -> None:
    """And is told that all is well, as in Java."""
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=0))
    answer = back(rig, stored(rig))
    assert isinstance(answer, Command)
    assert answer.code == 0
    assert rig.context.topics.get("%RETRY%G") is None


def test_retries_are_spread_over_the_queues_of_the_group(rig: SendRig) -> None:
    """As many as it is configured with."""
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=3))
    record = stored(rig)
    for _ in range(30):
        back(rig, record)
    queues = {found.properties["REAL_QID"] for found in rig.records(SCHEDULE_TOPIC, 2)}
    assert queues <= {"0", "1", "2"}
    assert len(queues) > 1


def test_refusals_have_codes_and_reasons(rig: SendRig) -> None:
    """26, 16 twice, and 1 where there is no such message."""
    record = stored(rig)
    rig.config.auto_create_subscription_group = False
    unknown = refusal(rig, record)
    assert unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "subscription group not exist, G" in unknown.reason
    rig.config.auto_create_subscription_group = True
    rig.config.broker_permission = 4
    assert refusal(rig, record).code == ResponseCode.NO_PERMISSION
    rig.config.broker_permission = 6
    for offset in (record.log_offset + 1, 1 << 40, -5):
        missing = refusal(rig, record, offset=str(offset))
        assert missing.code == ResponseCode.SYSTEM_ERROR
        assert f"look message by offset failed, {offset}" in missing.reason
    rig.context.topics.put(TopicConfig(topic_name="%RETRY%G", perm=4))
    assert refusal(rig, record).code == ResponseCode.NO_PERMISSION


def test_a_store_that_takes_nothing_says_which_way(rig: SendRig) -> None:
    """Code 1 and the name of the status, then the reason; the client sends the message itself."""
    record = stored(rig)
    rig.store.gate.hold("the disk is full")
    refused = refusal(rig, record)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.reason == "SERVICE_NOT_AVAILABLE: the disk is full"
    rig.store.gate.retry()


def test_unit_mode_marks_the_retry_topic(rig: SendRig) -> None:
    """As one that a unit subscribes to."""
    back(rig, stored(rig), unitMode="true")
    made = rig.context.topics.get("%RETRY%G")
    assert made is not None
    assert made.topic_sys_flag == 2


def test_sync_flush_holds_for_what_is_given_back(tmp_path: Path) -> None:
    """The consumer moves on when it has its answer; Java's broker does not wait here."""
    rig = SendRig(tmp_path, is_sync=True)
    answer = rig.send(properties=PLAIN | {"WAIT": "false"})
    assert answer.ext is not None
    record = rig.store.record_by_id(answer.ext["msgId"])
    assert back(rig, record) is None
    assert rig.connection.held == 1
    rig.close()


def test_giving_back_has_a_route() -> None:
    """One code."""
    assert set(ROUTES) == {36}


def test_a_busy_disk_refuses_messages_given_back(rig: SendRig) -> None:
    """Nothing is made for the group either; the consumer keeps the message for another try."""
    record = stored(rig)
    rig.context.durability.is_busy = True
    assert refusal(rig, record).code == ResponseCode.SYSTEM_BUSY
    assert rig.context.topics.get("%RETRY%G") is None
