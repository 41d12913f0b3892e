"""Proves that pulls find what they want, are refused and parked as Java's broker does it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from roketto.broker.handlers.pull import ROUTES
from roketto.broker.longpoll import PASSED_BY_MAX, LongPolls
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import HeaderFieldError, RequestError
from roketto.store.errors import StoreError
from roketto.store.reading import TransferLimits
from roketto.store.store import Store
from unit.broker.fake_connection import FakeConnection
from unit.broker.pull_rig import PullRig, body_of, offsets_of

COMMIT, SUSPEND, SUBSCRIPTION, LITE = 1, 2, 4, 16


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path)
    yield rig
    rig.close()


def request(
    offset: int = 0, flag: int = SUBSCRIPTION, code: int = RequestCode.PULL_MESSAGE, **more: str
) -> Command:
    ext = {
        "consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": str(flag), "commitOffset": "0",
        "suspendTimeoutMillis": "15000", "subVersion": "0",
    }  # fmt: skip
    return Command(code, {**ext, **more}, opaque=7)


def pull(rig: PullRig, asked: Command, connection: FakeConnection | None = None) -> Command:
    """The answer that comes at once."""
    sender = (connection or rig.connection).as_connection
    answer = ROUTES[RequestCode(asked.code)](rig.context, sender, asked)
    assert isinstance(answer, Command)
    return answer


def park(rig: PullRig, asked: Command, connection: FakeConnection | None = None) -> None:
    sender = (connection or rig.connection).as_connection
    assert ROUTES[RequestCode(asked.code)](rig.context, sender, asked) is None


def refused(rig: PullRig, asked: Command) -> RequestError:
    with pytest.raises(RequestError) as error:
        pull(rig, asked)
    return error.value


def next_offset(answer: Command) -> int:
    assert answer.ext is not None
    return int(answer.ext["nextBeginOffset"])


# --- what is found --------------------------------------------------------------------------------


def test_messages_come_as_they_lie_in_the_log(rig: PullRig) -> None:
    rig.send(5)
    answer = pull(rig, request(1))
    assert (answer.code, answer.remark, answer.opaque) == (0, "FOUND", 7)
    assert offsets_of(answer) == [1, 2, 3, 4]
    assert isinstance(answer.body, memoryview)
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5",
        "topicSysFlag": "0", "groupSysFlag": "0",
    }  # fmt: skip


@pytest.mark.parametrize(("filler_bytes", "views"), [(4, 0), (3_000, 3)])
def test_messages_that_lie_apart_are_joined_if_they_are_small(
    rig: PullRig, filler_bytes: int, views: int
) -> None:
    """One piece is sent for less than many; large ones are not copied for that."""
    for _ in range(3):
        rig.send(1, filler="f" * filler_bytes)
        rig.send(1, queue_id=1)
    answer = pull(rig, request())
    assert len(answer.views) == views
    assert offsets_of(answer) == [0, 1, 2]


def test_lite_pulls_are_the_same_unless_they_are_switched_off(rig: PullRig) -> None:
    rig.send(1)
    lite = request(code=RequestCode.LITE_PULL_MESSAGE, flag=SUBSCRIPTION | LITE)
    assert offsets_of(pull(rig, lite)) == [0]
    rig.config.lite_pull_message_enable = False
    answer = pull(rig, lite)
    assert (answer.code, answer.ext) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "1"})
    assert offsets_of(pull(rig, request())) == [0]


@pytest.mark.parametrize(("asked", "given"), [("3", 3), ("0", 1), ("-5", 1), ("2147483647", 256)])
def test_as_many_come_as_are_asked_for_and_allowed(rig: PullRig, asked: str, given: int) -> None:
    rig.send(300)
    answer = pull(rig, request(maxMsgNums=asked))
    assert offsets_of(answer) == list(range(given))
    assert next_offset(answer) == given


def test_what_is_sent_is_counted(rig: PullRig) -> None:
    rig.send(3)
    answer = pull(rig, request())
    meter = rig.context.stats.topics["T"].groups["G"].get
    assert (meter.count, meter.size) == (3, len(body_of(answer)))
    assert rig.context.offsets.pulled("T", "G", 0) == 3


def test_pulls_that_find_nothing_are_counted(rig: PullRig) -> None:
    """As often as somebody looked, also before a request is parked."""
    pull(rig, request())
    park(rig, request(flag=SUBSCRIPTION | SUSPEND))
    assert (rig.context.stats.get_missed, rig.context.stats.get.times) == (2, 0)


def test_a_reader_far_behind_is_sent_to_the_slave_of_its_group(rig: PullRig) -> None:
    rig.send(1)
    rig.config.slave_read_enable = True
    rig.context.groups.put(
        SubscriptionGroupConfig(group_name="G", broker_id=3, which_broker_when_consume_slowly=2)
    )
    near = pull(rig, request()).ext
    rig.store._log._memory_bytes = 0
    far = pull(rig, request()).ext
    assert near is not None
    assert far is not None
    assert (near["suggestWhichBrokerId"], far["suggestWhichBrokerId"]) == ("3", "2")
    rig.config.slave_read_enable = False
    again = pull(rig, request()).ext
    assert again is not None
    assert again["suggestWhichBrokerId"] == "0"


# --- filters --------------------------------------------------------------------------------------


def test_tags_of_the_request_choose(rig: PullRig) -> None:
    for tag in "abcab":
        rig.send(1, tag)
    answer = pull(rig, request(subscription="a || c"))
    assert offsets_of(answer) == [0, 2, 3]
    assert next_offset(answer) == 5


def test_nothing_that_matches_moves_the_reader_on(rig: PullRig) -> None:
    rig.send(5, "a")
    answer = pull(rig, request(2, SUBSCRIPTION | SUSPEND, subscription="b"))
    assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
    assert next_offset(answer) == 5


def test_sql_of_the_request_chooses_by_properties(rig: PullRig) -> None:
    for age in range(6):
        rig.send(1, age=str(age))
    answer = pull(rig, request(subscription="age BETWEEN 2 AND 3", expressionType="SQL92"))
    assert offsets_of(answer) == [2, 3]


def test_an_expression_that_is_none_is_refused(rig: PullRig) -> None:
    failed = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert refused(rig, request(subscription="||")).code == failed
    assert refused(rig, request(subscription="a >", expressionType="SQL92")).code == failed


def test_tags_of_the_heartbeat_choose_when_the_request_has_none(rig: PullRig) -> None:
    for tag in "abab":
        rig.send(1, tag)
    rig.join(SubscriptionData(topic="T", sub_string="b", sub_version=5))
    assert offsets_of(pull(rig, request(flag=0, subVersion="5"))) == [1, 3]
    assert offsets_of(pull(rig, request(flag=0, subscription=""))) == [1, 3]


def test_sql_of_the_heartbeat_chooses_when_the_request_has_none(rig: PullRig) -> None:
    for age in range(6):
        rig.send(1, age=str(age))
    rig.join(SubscriptionData(topic="T", sub_string="age > 3", expression_type="SQL92"))
    assert offsets_of(pull(rig, request(flag=0))) == [4, 5]


def test_a_group_without_heartbeat_or_subscription_is_told_so(rig: PullRig) -> None:
    assert refused(rig, request(flag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    rig.join(SubscriptionData(topic="Other", sub_string="*"))
    error = refused(rig, request(flag=0))
    assert error.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert "group G does not subscribe to T" in error.reason


def test_a_subscription_older_than_the_pull_is_refused(rig: PullRig) -> None:
    rig.join(SubscriptionData(topic="T", sub_string="*", sub_version=5))
    error = refused(rig, request(flag=0, subVersion="6"))
    assert error.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert error.reason == "the consumer's subscription not latest"


def test_sql_without_its_filter_is_refused_with_codes_of_its_own(rig: PullRig) -> None:
    rig.join(SubscriptionData(topic="T", sub_string="a >", expression_type="SQL92", sub_version=1))
    assert refused(rig, request(flag=0)).code == ResponseCode.FILTER_DATA_NOT_EXIST
    said = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92", sub_version=2)
    rig.join(said)
    said.sub_version = 3
    asked = request(flag=0, subVersion="3")
    assert refused(rig, asked).code == ResponseCode.FILTER_DATA_NOT_LATEST


def test_sql_is_refused_while_it_is_switched_off(rig: PullRig) -> None:
    rig.config.enable_property_filter = False
    error = refused(rig, request(subscription="a > 1", expressionType="SQL92"))
    assert error.code == ResponseCode.SYSTEM_ERROR


# --- refusals -------------------------------------------------------------------------------------


def forbidden(rig: PullRig, flag: int = SUBSCRIPTION) -> str:
    """The type with which a pull is forbidden."""
    answer = pull(rig, request(flag=flag))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark
    assert answer.ext is not None
    return answer.ext["forbiddenType"]


def test_each_refusal_of_permission_has_its_type(rig: PullRig) -> None:
    rig.config.broker_permission = 2
    assert forbidden(rig) == "1"
    rig.config.broker_permission = 4
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))
    assert forbidden(rig) == "2"
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_broadcast_enable=False))
    rig.context.topics.put(TopicConfig(topic_name="T", perm=2))
    assert forbidden(rig) == "3"
    rig.context.topics.put(TopicConfig(topic_name="T", perm=4))
    rig.join(model=MessageModel.BROADCASTING)
    assert forbidden(rig, flag=0) == "4"
    rig.join(model=MessageModel.CLUSTERING)
    rig.context.groups.forbid("G", "T", 4)
    assert forbidden(rig, flag=0) == "5"
    rig.context.groups.forbid("G", "T", 3)
    assert pull(rig, request(flag=0)).code == ResponseCode.PULL_NOT_FOUND


def test_unknown_groups_topics_and_queues_are_refused_with_their_codes(rig: PullRig) -> None:
    assert refused(rig, request(topic="Nope")).code == ResponseCode.TOPIC_NOT_EXIST
    for queue_id in ("-1", "4"):
        error = refused(rig, request(queueId=queue_id))
        assert error.code == ResponseCode.INVALID_PARAMETER
        assert f"queueId[{queue_id}] is illegal, topic:[T]" in error.reason
    rig.config.auto_create_subscription_group = False
    error = refused(rig, request(consumerGroup="New"))
    assert error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_header_that_lacks_a_field_is_refused_by_its_name(rig: PullRig) -> None:
    asked = request()
    assert asked.ext is not None
    del asked.ext["sysFlag"]
    with pytest.raises(HeaderFieldError, match="lacks sysFlag"):
        pull(rig, asked)


def test_pull_consumers_without_heartbeat_can_be_rejected(rig: PullRig) -> None:
    rig.send(1)
    rig.config.reject_pull_consumer_enable = True
    assert refused(rig, request()).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert pull(rig, request(consumerGroup="CID_RMQ_SYS_X")).code == 0
    other = FakeConnection()
    rig.join(how=ConsumeType.CONSUME_ACTIVELY, connection=other)
    assert refused(rig, request()).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert pull(rig, request(), other).code == 0
    rig.join(how=ConsumeType.CONSUME_PASSIVELY, connection=other)
    assert pull(rig, request()).code == 0


# --- offsets outside ------------------------------------------------------------------------------


def test_offsets_outside_the_queue_are_answered_with_where_to_go_on(rig: PullRig) -> None:
    rig.send(5)
    queue = rig.store.queue("T", 0)
    assert queue is not None
    queue.queue_offset_min = 2
    told = [
        (answer.code, answer.remark, next_offset(answer))
        for answer in (pull(rig, request(offset)) for offset in (1, 5, 9, -1))
    ]
    assert told == [
        (21, "OFFSET_TOO_SMALL", 2),
        (19, "OFFSET_OVERFLOW_ONE", 5),
        (21, "OFFSET_OVERFLOW_BADLY", 5),
        (21, "OFFSET_TOO_SMALL", 2),
    ]
    ends = pull(rig, request(9)).ext
    assert ends is not None
    assert (ends["minOffset"], ends["maxOffset"]) == ("2", "5")


def test_a_queue_that_was_never_written_to_is_an_empty_one(rig: PullRig) -> None:
    at_start, beyond = pull(rig, request(0)), pull(rig, request(3))
    assert (at_start.code, at_start.remark) == (19, "NO_MESSAGE_IN_QUEUE")
    assert (beyond.code, beyond.remark) == (21, "NO_MESSAGE_IN_QUEUE")
    assert (next_offset(at_start), next_offset(beyond)) == (0, 0)


def test_messages_that_are_being_removed_are_passed_over(tmp_path: Path) -> None:
    rig = PullRig(tmp_path / "small", segment_bytes=4_096)
    rig.send(100)
    segments = rig.store._segments
    segments.mark_flushed(segments.written)
    segments.remove_first(2)
    kept = offsets_of(pull(rig, request(0)))[0]
    assert kept > 0, "what is still there is found"
    queue = rig.store.queue("T", 0)
    assert queue is not None
    first_kept = queue.unit(kept)
    assert first_kept is not None
    queue.truncate(first_kept.log_offset)
    assert queue.queue_offset_max == kept
    answer = pull(rig, request(0))
    rig.close()
    assert (answer.code, answer.remark) == (20, "MESSAGE_WAS_REMOVING")
    assert next_offset(answer) == kept


# --- commits --------------------------------------------------------------------------------------


def test_the_offset_of_the_request_is_committed_only_if_it_counts(rig: PullRig) -> None:
    rig.send(1)
    pull(rig, request(flag=SUBSCRIPTION, commitOffset="3"))
    assert rig.context.offsets.get("T", "G", 0) is None
    pull(rig, request(flag=SUBSCRIPTION | COMMIT, commitOffset="4"))
    assert rig.context.offsets.get("T", "G", 0) == 4


def test_a_parked_pull_commits_at_once_and_not_again(rig: PullRig) -> None:
    park(rig, request(flag=SUBSCRIPTION | SUSPEND | COMMIT, commitOffset="4"))
    assert rig.context.offsets.get("T", "G", 0) == 4
    rig.context.offsets.commit("T", "G", 0, 9)
    rig.send(1)
    rig.turn()
    assert len(rig.connection.replies) == 1
    assert rig.context.offsets.get("T", "G", 0) == 9


# --- waiting --------------------------------------------------------------------------------------

WAIT = SUBSCRIPTION | SUSPEND


def replies(rig: PullRig) -> list[Command]:
    return [answer for _, answer in rig.connection.replies]


def test_a_pull_waits_for_the_message_and_has_it_in_the_turn_it_comes(rig: PullRig) -> None:
    asked = request(flag=WAIT)
    park(rig, asked)
    rig.send(2)
    assert replies(rig) == []
    rig.turn()
    [(answered, answer)] = rig.connection.replies
    assert answered is asked
    assert (answer.code, answer.opaque) == (0, 7)
    assert offsets_of(answer) == [0, 1], "one answer has all messages of one turn"
    assert len(rig.polls) == 0


def test_all_groups_that_wait_get_the_message(rig: PullRig) -> None:
    for number in range(3):
        park(rig, request(flag=WAIT, consumerGroup=f"G{number}"))
    rig.send(1)
    rig.turn()
    assert [offsets_of(answer) for answer in replies(rig)] == [[0], [0], [0]]


def test_a_pull_that_may_not_wait_is_answered_at_once(rig: PullRig) -> None:
    assert pull(rig, request()).code == ResponseCode.PULL_NOT_FOUND
    assert len(rig.polls) == 0


def test_an_offset_that_is_no_good_does_not_wait(rig: PullRig) -> None:
    rig.send(1)
    assert pull(rig, request(5, WAIT)).code == ResponseCode.PULL_OFFSET_MOVED


def test_messages_with_other_tags_wake_nobody(rig: PullRig) -> None:
    park(rig, request(flag=WAIT, subscription="a"))
    rig.send(3, "b")
    assert rig.soon == []
    rig.send(1, "a")
    rig.turn()
    assert [offsets_of(answer) for answer in replies(rig)] == [[3]]


def test_messages_with_other_properties_wake_nobody(rig: PullRig) -> None:
    park(rig, request(flag=WAIT, subscription="age > 5", expressionType="SQL92"))
    rig.send(3, age="1")
    assert rig.soon == []
    rig.send(1, age="7")
    rig.turn()
    assert [offsets_of(answer) for answer in replies(rig)] == [[3]]


def test_a_pull_whose_time_is_up_is_told_that_there_is_nothing(rig: PullRig) -> None:
    rig.send(2)
    park(rig, request(2, WAIT, suspendTimeoutMillis="15000"))
    rig.polls.expire(rig.now_s + 14.9)
    assert replies(rig) == []
    rig.polls.expire(rig.now_s + 15.2)
    [answer] = replies(rig)
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
    assert next_offset(answer) == 2
    assert rig.context.stats.refusals[RequestCode.PULL_MESSAGE, 19] == 1


def test_a_pull_whose_time_is_up_moves_on_behind_what_it_did_not_want(rig: PullRig) -> None:
    park(rig, request(flag=WAIT, subscription="a"))
    rig.send(3, "b")
    rig.polls.expire(rig.now_s + 16)
    [answer] = replies(rig)
    assert (answer.code, next_offset(answer)) == (20, 3)


def test_a_pull_moves_on_behind_many_messages_it_did_not_want(rig: PullRig) -> None:
    park(rig, request(flag=WAIT, subscription="a"))
    rig.send(PASSED_BY_MAX + 1, "b")
    rig.turn()
    [answer] = replies(rig)
    assert (answer.code, next_offset(answer)) == (20, PASSED_BY_MAX + 1)


def test_a_woken_pull_that_finds_nothing_waits_for_the_rest_of_its_time(rig: PullRig) -> None:
    rig.join(SubscriptionData(topic="T", sub_string="a", sub_version=1))
    park(rig, request(flag=SUSPEND))
    rig.send(1, "a")
    rig.join(SubscriptionData(topic="T", sub_string="b", sub_version=2))
    rig.turn()
    assert replies(rig) == []
    assert len(rig.polls) == 1
    rig.send(1, "b")
    rig.turn()
    assert [offsets_of(answer) for answer in replies(rig)] == [[1]]


def test_a_pull_that_cannot_wait_again_is_answered(rig: PullRig) -> None:
    park(rig, request(flag=WAIT))
    rig.polls.wake_all()
    rig.polls._polls_max = 0
    rig.turn()
    assert [answer.code for answer in replies(rig)] == [19]


def test_a_full_table_is_answered_at_once(rig: PullRig) -> None:
    rig.context.polls = LongPolls(polls_max=1, call_soon=rig.soon.append)
    park(rig, request(flag=WAIT))
    assert pull(rig, request(flag=WAIT)).code == ResponseCode.PULL_NOT_FOUND


def test_a_client_that_has_gone_is_forgotten(rig: PullRig) -> None:
    park(rig, request(flag=WAIT))
    rig.connection.end()
    assert len(rig.polls) == 0
    rig.send(1)
    assert rig.soon == []


def test_short_polling_looks_again_after_its_time_and_not_before(rig: PullRig) -> None:
    rig.config.long_polling_enable = False
    park(rig, request(flag=WAIT))
    rig.send(1)
    assert rig.soon == []
    rig.polls.expire(rig.now_s + 1.2)
    assert [offsets_of(answer) for answer in replies(rig)] == [[0]]


def test_nobody_waits_for_longer_than_some_minutes(rig: PullRig) -> None:
    park(rig, request(flag=WAIT, suspendTimeoutMillis=str(2**62)))
    rig.polls.expire(rig.now_s + 301)
    assert [answer.code for answer in replies(rig)] == [19]


def test_a_client_that_does_not_read_is_sent_no_messages(rig: PullRig) -> None:
    rig.send(2)
    park(rig, request(2, WAIT))
    rig.connection.is_write_stalled = True
    rig.send(1)
    rig.turn()
    [answer] = replies(rig)
    assert (answer.code, next_offset(answer), body_of(answer)) == (19, 2, b"")
    assert answer.ext is not None
    assert answer.ext["maxOffset"] == "3"


def test_what_is_forbidden_meanwhile_is_refused_when_the_pull_wakes(rig: PullRig) -> None:
    park(rig, request(flag=WAIT))
    park(rig, request(flag=WAIT, consumerGroup="H"))
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False))
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4))
    rig.send(1)
    rig.turn()
    first, second = replies(rig)
    assert (first.code, first.ext) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "2"})
    assert second.code == 0
    assert rig.context.stats.refusals[RequestCode.PULL_MESSAGE, 16] == 1


def test_a_failure_of_the_store_is_answered_when_the_pull_wakes(
    rig: PullRig, caplog: pytest.LogCaptureFixture
) -> None:
    class FailingStore:
        limits = TransferLimits()

        def get(self, *_: object, **__: object) -> None:
            raise StoreError("the disk is gone")

    park(rig, request(flag=WAIT))
    rig.send(1)
    rig.context.store = cast("Store", FailingStore())
    with caplog.at_level(logging.CRITICAL):
        rig.turn()
    [answer] = replies(rig)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "the disk is gone" in answer.remark


# --- resets ---------------------------------------------------------------------------------------


def test_a_reset_is_the_answer_to_the_next_pull_of_its_queue(rig: PullRig) -> None:
    """Once, and what the pull commits is of before it."""
    rig.send(5)
    rig.context.offsets.reset("T", "G", 0, 2)
    asked = request(4, SUBSCRIPTION | COMMIT, commitOffset="4")
    answer = pull(rig, asked)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert answer.ext == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "2", "minOffset": "0", "maxOffset": "5",
        "topicSysFlag": "0", "groupSysFlag": "0",
    }  # fmt: skip
    assert body_of(answer) == b""
    assert rig.context.offsets.get("T", "G", 0) == 2
    assert offsets_of(pull(rig, request(2))) == [2, 3, 4]


def test_a_reset_takes_no_time_in_the_statistics(rig: PullRig) -> None:
    """It reads nothing: it must not be taken for a read that began with the machine."""
    rig.context.offsets.reset("T", "G", 0, 0)
    assert pull(rig, request(0)).code == ResponseCode.PULL_OFFSET_MOVED
    assert rig.context.stats.get_max_ms < 60_000


def test_a_reset_is_told_in_a_queue_that_nobody_has_written_to(rig: PullRig) -> None:
    """And in no other; whoever pulls for another group is not moved."""
    rig.context.offsets.reset("T", "G", 3, 0)
    assert pull(rig, request(0)).code == ResponseCode.PULL_NOT_FOUND
    assert pull(rig, request(0, queueId="3", consumerGroup="H")).code == ResponseCode.PULL_NOT_FOUND
    answer = pull(rig, request(7, queueId="3"))
    assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_OFFSET_MOVED, 0)


def test_a_pull_that_waits_hears_of_a_reset_when_it_is_woken(rig: PullRig) -> None:
    """Others of the queue go on waiting."""
    rig.send(5)
    other = FakeConnection("10.0.0.8:1")
    park(rig, request(5, SUBSCRIPTION | SUSPEND))
    park(rig, request(5, SUBSCRIPTION | SUSPEND, consumerGroup="H"), other)
    rig.context.offsets.reset("T", "G", 0, 2)
    rig.polls.wake_queue("T", 0)
    rig.turn()
    ((_, answer),) = rig.connection.replies
    assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_OFFSET_MOVED, 2)
    assert (other.replies, len(rig.polls)) == ([], 1)
