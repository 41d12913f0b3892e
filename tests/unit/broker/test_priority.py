"""A priority is a queue, and of the queues of one client the higher ones are served first."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roketto.broker.handlers.pull import ROUTES as PULL_ROUTES
from roketto.broker.priority import BEGIN_S, HOLD_S, SILENT_S, Priorities, queue_end
from roketto.broker.pull_lane import PullLane
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.remoting.connection import Reply
from unit.broker.fake_connection import FakeConnection
from unit.broker.pull_rig import PullRig, offsets_of
from unit.broker.send_rig import PLAIN, SendRig

SUSPEND, SUBSCRIPTION = 2, 4
NAME = "_SYS_MSG_PRIORITY_"


# --- sending --------------------------------------------------------------------------------------


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[SendRig]:
    rig = SendRig(tmp_path)
    yield rig
    rig.close()


@pytest.mark.parametrize(
    ("priority", "queue"), [("0", 0), ("2", 2), ("3", 3), ("+3", 3), ("4", 3), ("2147483647", 3)]
)
def test_a_priority_chooses_the_queue(sender: SendRig, priority: str, queue: int) -> None:
    """Whichever the producer has chosen; what is higher than the highest goes there."""
    for _ in range(2):  # the first to a topic takes the long way
        answer = sender.send(properties=PLAIN | {NAME: priority}, e="1")
        assert answer.ext is not None
        assert answer.ext["queueId"] == str(queue)
    record = sender.records(queue_id=queue)[-1]
    assert record.get_property(NAME) == priority


@pytest.mark.parametrize("priority", ["-1", "high", "", "2147483648", "3.5", " 3"])
def test_what_is_no_priority_chooses_nothing(sender: SendRig, priority: str) -> None:
    """As with Java, it stays where it is."""
    for _ in range(2):
        sender.send(properties=PLAIN | {NAME: priority}, e="1")
    for record in sender.records(queue_id=1):
        assert (record.get_property(NAME) or "") == priority
    assert len(sender.records(queue_id=1)) == 2


@pytest.mark.parametrize(
    "more", [{"DELAY": "1"}, {"__SHARDINGKEY": "a"}, {"TRAN_MSG": "TRUE", "PGROUP": "PG"}]
)
def test_a_priority_of_a_message_of_another_kind_is_taken_away(
    sender: SendRig, more: dict[str, str]
) -> None:
    """Such a message goes where its producer has sent it."""
    answer = sender.send(properties=PLAIN | {NAME: "3"} | more, e="1")
    assert answer.ext is not None
    assert answer.ext["queueId"] == "1"
    (record,) = (
        sender.records()
        or sender.records("SCHEDULE_TOPIC_XXXX", 0)
        or sender.records("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    )
    assert record.get_property(NAME) is None


# --- pulling --------------------------------------------------------------------------------------


class PriorityRig(PullRig):
    """Topic T is one of priorities."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_ascending = True
        priorities = Priorities(
            self.polls, lambda topic, queue_id: queue_end(self.store, topic, queue_id),
            is_ascending=lambda: self.is_ascending, now_s=lambda: self.now_s,
        )  # fmt: skip
        self.context = replace(self.context, priorities=priorities)
        self.context.topics.put(
            TopicConfig(
                topic_name="T", read_queue_nums=4, write_queue_nums=4,
                attributes={"message.type": "PRIORITY"},
            )
        )  # fmt: skip

    def ask(
        self,
        queue_id: int,
        offset: int = 0,
        connection: FakeConnection | None = None,
        count: int = 32,
        flag: int = SUBSCRIPTION | SUSPEND,
    ) -> Reply:
        ext = {
            "consumerGroup": "G", "topic": "T", "queueId": str(queue_id),
            "queueOffset": str(offset), "maxMsgNums": str(count), "sysFlag": str(flag),
            "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "0",
        }  # fmt: skip
        request = Command(RequestCode.PULL_MESSAGE, ext, opaque=queue_id)
        sender = (connection or self.connection).as_connection
        return PULL_ROUTES[RequestCode.PULL_MESSAGE](self.context, sender, request)

    def got(self, reply: Reply) -> list[int]:
        """The offsets of the messages of an answer that comes at once."""
        assert isinstance(reply, Command)
        assert reply.code == 0
        return offsets_of(reply)

    def answered(self, connection: FakeConnection | None = None) -> list[int]:
        """The queues that were answered late, in that order."""
        replies = (connection or self.connection).replies
        queues = [answer.opaque for _, answer in replies]
        replies.clear()
        return queues

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.polls.expire(self.now_s)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PriorityRig]:
    rig = PriorityRig(tmp_path)
    yield rig
    rig.close()


def test_queues_of_a_backlog_are_served_from_the_highest_on(rig: PriorityRig) -> None:
    """A client that asks for all of them, the lowest first, gets them in the other order."""
    for queue_id in range(4):
        rig.send(2, queue_id=queue_id)
    for queue_id in range(3):
        assert rig.ask(queue_id) is None
    assert rig.got(rig.ask(3)) == [0, 1]
    rig.turn()
    assert rig.answered() == [2]
    rig.turn()
    assert rig.answered() == [1]
    rig.turn()
    assert rig.answered() == [0]
    assert len(rig.polls) == 0


def test_a_higher_queue_goes_on_before_the_others(rig: PriorityRig) -> None:
    """As long as it has messages that the client was not sent."""
    rig.send(3, queue_id=3)
    rig.send(1, queue_id=0)
    assert rig.got(rig.ask(3, count=1)) == [0]
    assert rig.ask(0) is None
    assert rig.got(rig.ask(3, 1, count=1)) == [1]
    rig.turn()
    assert rig.answered() == []
    assert rig.got(rig.ask(3, 2, count=1)) == [2]
    rig.turn()
    assert rig.answered() == [0]


def test_nobody_waits_for_long(rig: PriorityRig) -> None:
    """A tenth of a second or two, though the higher queue has more than anybody reads."""
    rig.send(100, queue_id=3)
    rig.send(64, queue_id=0)
    assert rig.got(rig.ask(3, count=1)) == [0]
    for offset in (0, 32):
        assert rig.ask(0, offset) is None
        rig.pass_s(HOLD_S + 0.1)
        assert rig.answered() == [0]
        assert rig.got(rig.ask(3, 1, count=1)) == [1]
    assert len(rig.polls) == 0


def test_what_another_client_reads_holds_nobody_back(rig: PriorityRig) -> None:
    """Who has only lower queues would wait for nothing."""
    other = FakeConnection("10.0.0.8:50000")
    for queue_id in (0, 3):
        rig.send(64, queue_id=queue_id)
    assert rig.got(rig.ask(3, connection=other, count=1)) == [0]
    assert rig.got(rig.ask(0)) == list(range(32))


def test_a_queue_that_nobody_reads_holds_back_at_the_beginning_only(rig: PriorityRig) -> None:
    """A client that begins will ask for it, perhaps; then it would have."""
    for queue_id in (0, 3):
        rig.send(64, queue_id=queue_id)
    assert rig.ask(0) is None
    rig.pass_s(HOLD_S + 0.1)
    assert rig.answered() == [0]
    rig.pass_s(BEGIN_S)
    assert rig.got(rig.ask(0)) == list(range(32))


def test_who_has_not_asked_for_long_is_not_waited_for(rig: PriorityRig) -> None:
    """It has enough for the moment, or was told to leave the queue alone."""
    for queue_id in (0, 3):
        rig.send(64, queue_id=queue_id)
    assert rig.got(rig.ask(3, count=1)) == [0]
    rig.pass_s(SILENT_S / 2)
    assert rig.ask(0) is None
    rig.pass_s(SILENT_S / 2 + 0.2)
    assert rig.answered() == [0]
    assert rig.got(rig.ask(0)) == list(range(32))


def test_a_group_that_comes_back_begins_again(rig: PriorityRig) -> None:
    """After a pause nobody knows who reads what."""
    rig.send(1, queue_id=0)
    assert rig.got(rig.ask(0)) == [0]
    rig.pass_s(SILENT_S + 1)
    rig.send(1, queue_id=3)
    assert rig.ask(0) is None
    assert rig.got(rig.ask(3)) == [0]
    rig.turn()
    assert rig.answered() == [0]


def test_a_pull_that_may_not_wait_is_answered(rig: PriorityRig) -> None:
    """It says so; Java's DefaultMQPullConsumer asks like this."""
    for queue_id in (0, 3):
        rig.send(2, queue_id=queue_id)
    assert rig.got(rig.ask(3, count=1)) == [0]
    assert rig.got(rig.ask(0, flag=SUBSCRIPTION)) == [0, 1]


def test_a_pull_that_finds_nothing_waits_as_everywhere(rig: PriorityRig) -> None:
    """And lets those go on that were held for it."""
    rig.send(1, queue_id=0)
    rig.send(1, queue_id=3)
    assert rig.got(rig.ask(3)) == [0]
    assert rig.ask(3, 1) is None
    assert rig.got(rig.ask(0)) == [0]
    rig.send(1, queue_id=3)
    rig.turn()
    assert rig.answered() == [3]


def test_a_filter_that_wants_nothing_of_a_queue_holds_nobody_back(rig: PriorityRig) -> None:
    """Messages are there, but not for this group."""
    rig.send(1, tag="a", queue_id=0)
    rig.send(1, tag="b", queue_id=3)
    ext = {"subscription": "a"}
    for queue_id in (3, 0):
        asked = Command(
            RequestCode.PULL_MESSAGE,
            {
                "consumerGroup": "G", "topic": "T", "queueId": str(queue_id), "queueOffset": "0",
                "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0",
                "suspendTimeoutMillis": "15000", "subVersion": "0", **ext,
            },
            opaque=queue_id,
        )  # fmt: skip
        route = PULL_ROUTES[RequestCode.PULL_MESSAGE]
        reply = route(rig.context, rig.connection.as_connection, asked)
    assert rig.got(reply) == [0]


def test_zero_may_be_the_highest(rig: PriorityRig) -> None:
    """priorityOrderAsc=false."""
    rig.is_ascending = False
    for queue_id in range(2):
        rig.send(2, queue_id=queue_id)
    assert rig.ask(1) is None
    assert rig.got(rig.ask(0)) == [0, 1]
    rig.turn()
    assert rig.answered() == [1]


@pytest.mark.parametrize(("factor", "held"), [("0", 0), ("30", 30), ("100", 100), ("x", 100)])
def test_a_group_says_how_many_pulls_go_by_priority(
    rig: PriorityRig, factor: str, held: int
) -> None:
    """Of a hundred, as in Java for pop."""
    group = SubscriptionGroupConfig(group_name="G", attributes={"priority.factor": factor})
    rig.context.groups.put(group)
    rig.send(2, queue_id=3)
    rig.send(1, queue_id=0)
    found = 0
    for _ in range(100):
        rig.ask(3, count=1, flag=SUBSCRIPTION)  # by priority, nobody is before it
        found += rig.ask(0) is None
        rig.pass_s(HOLD_S + 0.1)
    assert found == (held if held in (0, 100) else pytest.approx(held, abs=2))


def test_who_goes_is_forgotten(rig: PriorityRig) -> None:
    """With the pulls that were held for it."""
    rig.send(2, queue_id=3)
    rig.send(1, queue_id=0)
    rig.ask(3, count=1)
    assert rig.ask(0) is None
    rig.connection.end()
    other = FakeConnection("10.0.0.8:50000")
    assert rig.got(rig.ask(3, connection=other, count=1)) == [0]
    assert rig.ask(0, connection=other) is None
    assert rig.got(rig.ask(3, 1, connection=other)) == [1]
    rig.turn()
    assert rig.answered(other) == [0]
    assert len(rig.polls) == 0


def test_where_too_many_wait_nobody_is_held(rig: PriorityRig) -> None:
    """It is answered out of its turn, and not refused."""
    rig.send(2, queue_id=3)
    rig.send(1, queue_id=0)
    rig.ask(3, count=1)
    rig.polls._polls_max = 0
    assert rig.got(rig.ask(0)) == [0]


def test_the_number_of_readers_is_bounded(
    rig: PriorityRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is begun anew; nobody is refused for it."""
    monkeypatch.setattr("roketto.broker.priority.READERS_MAX", 2)
    priorities = rig.context.priorities
    topic = rig.context.topics.topics["T"]
    for number in range(5):
        sender = rig.connection.as_connection
        priorities.note_sent(topic, f"G{number}", 0, sender, 1)
    assert len(priorities._groups) <= 2


def test_topics_of_other_types_are_served_as_they_ask(rig: PriorityRig) -> None:
    """By the quick lane, too, which leaves those of priorities alone."""
    for queue_id in (0, 3):
        rig.send(2, queue_id=queue_id)
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G"))
    rig.join()
    header = (
        b'{"code":11,"extFields":{"queueId":"0","maxMsgNums":"32","sysFlag":"2",'
        b'"suspendTimeoutMillis":"15000","commitOffset":"0","topic":"T","queueOffset":"0",'
        b'"expressionType":"TAG","subVersion":"1","consumerGroup":"G"},"flag":0,"language":"JAVA",'
        b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":505}'
    )
    frame = len(header).to_bytes(4) + header
    lane = PullLane(rig.context)
    sender = rig.connection.as_connection
    assert not any(lane.answer(sender, frame, 0, len(frame)) for _ in range(3))
    rig.context.topics.put(TopicConfig(topic_name="T", read_queue_nums=4))
    assert rig.context.topics.prioritized == set()
    assert lane.answer(sender, frame, 0, len(frame))
    assert rig.got(rig.ask(0)) == [0, 1]
