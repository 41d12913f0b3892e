"""What Java's broker refuses ours refuses: the same code, and Java's words where it has some.

Raw frames of requests that Java's clients do not let out: others do. A broker that refuses one has
stored nothing, and its connection goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from interop.broker.cluster import BrokerAddress, Cluster, OurCluster
from interop.broker.second.refusals import (
    DEAF,
    DIRECTLY,
    ENTRIES,
    GROUP,
    LIVE_GROUP,
    MAX_OFFSET,
    OFF_GROUP,
    OTHER,
    PULL,
    QUERY_OFFSET,
    RUNNING,
    SEND,
    SEND_V2,
    STATUS,
    TIMES,
    TOPIC,
    UPDATE_OFFSET,
    VERSION,
    VIEW,
    Asked,
    batch,
    batch_item,
    by_key,
    offset,
    prepare,
    pull,
    reset,
    send,
    send_back,
    send_v2,
)
from interop.peer.remote import Remote

WAIT_S = 20.0
"""Java looks every five seconds at the pulls that wait."""

SYSTEM_ERROR = 1
NOT_SUPPORTED = 3
ILLEGAL = 13
FORBIDDEN = 16
NO_TOPIC = 17
NOT_FOUND = 19
MOVED = 21
NO_OFFSET = 22
UNREADABLE = 23
NO_SUBSCRIPTION = 24
NOT_LATEST = 25
NO_GROUP = 26
INVALID = 29

READ_RANGE = 20480

ITEM = batch_item(b"an item")
LONG = "t" * 128
UNKNOWN = "RefusedUnknown"

pytestmark = pytest.mark.parametrize(
    "peer",
    [pytest.param("5.5.0", marks=[pytest.mark.peer, pytest.mark.xdist_group("peer-5.5.0")])],
    indirect=True,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A request, the code of its answer, and how the remark begins at either broker.

    No words: Java tells of an exception there, and ours of what is wrong.
    """

    asked: Asked
    code: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A request that ours answers in another way on purpose, and why."""

    asked: Asked
    java: int
    ours: int
    why: str


SENDS = {
    "no topic": Case(send(topic=None), SYSTEM_ERROR),
    "empty topic": Case(send(topic=""), INVALID, "the specified topic is blank"),
    "blank topic": Case(send(topic=" "), INVALID, "the specified topic is blank"),
    "blank in a topic": Case(send(topic="no good"), INVALID),
    "Chinese topic": Case(send(topic="主题"), INVALID),
    "long topic": Case(send(topic=LONG), INVALID),
    "long retry topic": Case(send(topic=f"%RETRY%{LONG}{LONG}"), INVALID),
    "unknown topic": Case(
        send(topic=UNKNOWN), NO_TOPIC, f"topic[{UNKNOWN}] not exist, apply first please!"
    ),
    "longest topic, unknown": Case(send(topic=LONG[1:]), NO_TOPIC, "topic[ttt"),
    "unknown topic after an unknown": Case(
        send(topic=UNKNOWN, defaultTopic="NoModel"), NO_TOPIC, f"topic[{UNKNOWN}] not exist"
    ),
    "unknown dead letters": Case(send(topic="%DLQ%nobody"), NO_TOPIC, "topic[%DLQ%nobody]"),
    "topic of delays": Case(
        send(topic="SCHEDULE_TOPIC_XXXX"), FORBIDDEN,
        "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
    ),
    "topic of halves": Case(
        send(topic="RMQ_SYS_TRANS_HALF_TOPIC"), FORBIDDEN, "Sending message to topic[RMQ_SYS"
    ),
    "retry without a group": Case(
        send(topic="%RETRY%"), NO_GROUP, "subscription group not exist, "
    ),
    "queue beyond": Case(send(queueId="2"), INVALID, "request queueId[2] is illegal, "),
    "queue far beyond": Case(
        send_v2(e="2147483647"), INVALID, "request queueId[2147483647] is illegal, "
    ),
    "queue that is no number": Case(send(queueId="x"), SYSTEM_ERROR),
    "queue that is no int": Case(send(queueId="99999999999"), SYSTEM_ERROR),
    "no queue": Case(send_v2(e=None), SYSTEM_ERROR),
    "no fields": Case(Asked(SEND), SYSTEM_ERROR),
    "no short fields": Case(Asked(SEND_V2), SYSTEM_ERROR),
    "large body": Case(send(bytes(4_194_305)), ILLEGAL),
    "large body, short fields": Case(send_v2(bytes(4_194_305)), ILLEGAL),
    "long properties": Case(send(properties="own\x01" + "x" * 32_764), ILLEGAL),
    "very long properties": Case(send(properties="own\x01" + "x" * 70_000), ILLEGAL),
    "delay that is no number": Case(send(properties="DELAY\x01x\x02"), SYSTEM_ERROR),
    "timer that is no number": Case(send(properties="TIMER_DELAY_SEC\x01x\x02"), ILLEGAL),
    "timer that is too far ahead": Case(send(properties="TIMER_DELAY_SEC\x01259201\x02"), ILLEGAL),
    "batch of garbage": Case(batch(b"\xff" * 40), SYSTEM_ERROR),
    "batch of zeros": Case(batch(bytes(40)), SYSTEM_ERROR),
    "batch that ends early": Case(batch(ITEM[:-3]), SYSTEM_ERROR),
    "batch with a rest": Case(batch(ITEM + b"\0\0"), SYSTEM_ERROR),
    "empty batch": Case(batch(b""), SYSTEM_ERROR),
    "large batch": Case(batch(batch_item(bytes(5_000_000))), SYSTEM_ERROR),
    "batch for a retry": Case(
        batch(ITEM, b="%RETRY%refused"), ILLEGAL,
        "batch request does not support retry group %RETRY%refused",
    ),
    "batch in a transaction": Case(batch(ITEM, f="4"), ILLEGAL),
    "delayed batch": Case(batch(ITEM, i="DELAY\x011\x02"), ILLEGAL),
    "batch for nobody": Case(batch(ITEM, b=UNKNOWN), NO_TOPIC, f"topic[{UNKNOWN}] not exist"),
    "batch for a queue beyond": Case(batch(ITEM, e="9"), INVALID, "request queueId[9] is illegal"),
    "given back from nowhere": Case(
        send_back(offset="999999999"), SYSTEM_ERROR, "look message by offset failed, 999999999"
    ),
    "given back by nobody": Case(
        send_back(group="no good"), NO_GROUP, "subscription group not exist, no good"
    ),
}  # fmt: skip

PULLS = {
    "unknown topic": Case(
        pull(topic=UNKNOWN), NO_TOPIC, f"topic[{UNKNOWN}] not exist, apply first please!"
    ),
    "queue beyond": Case(pull(queueId="2"), INVALID, f"queueId[2] is illegal, topic:[{TOPIC}]"),
    "queue below": Case(pull(queueId="-1"), INVALID, f"queueId[-1] is illegal, topic:[{TOPIC}]"),
    "topic that is not to be read": Case(
        pull(topic=DEAF), FORBIDDEN, f"the topic[{DEAF}] pulling message is forbidden"
    ),
    "group that may not": Case(
        pull(consumerGroup=OFF_GROUP), FORBIDDEN, f"subscription group no permission, {OFF_GROUP}"
    ),
    "group with a bad name": Case(
        pull(consumerGroup="no good"), NO_GROUP, "subscription group [no good] does not exist"
    ),
    "group without a name": Case(
        pull(consumerGroup=""), NO_GROUP, "subscription group [] does not exist"
    ),
    "group with a long name": Case(
        pull(consumerGroup="g" * 300), NO_GROUP, "subscription group [ggg"
    ),
    "no heartbeat": Case(
        pull(sysFlag="0", consumerGroup="refusedSilent"), NO_SUBSCRIPTION,
        "the consumer's group info not exist",
    ),
    "not subscribed": Case(
        pull(sysFlag="0", consumerGroup=LIVE_GROUP), NO_SUBSCRIPTION,
        "the consumer's subscription not exist",
    ),
    "old subscription": Case(
        pull(sysFlag="0", consumerGroup=LIVE_GROUP, topic=OTHER, subVersion=f"{VERSION + 1}"),
        NOT_LATEST, "the consumer's subscription not latest",
    ),
    "tags without one": Case(pull(subscription="||"), UNREADABLE),
    "SQL without any": Case(pull(subscription="", expressionType="SQL92"), UNREADABLE),
    "no offset": Case(pull(queueOffset=None), SYSTEM_ERROR),
    "offset that is no number": Case(pull(queueOffset="x"), SYSTEM_ERROR),
    "no fields": Case(Asked(PULL), SYSTEM_ERROR),
    "offset beyond": Case(pull(queueOffset="100"), MOVED, "OFFSET_OVERFLOW_BADLY"),
    "offset below": Case(pull(queueOffset="-5"), MOVED, "OFFSET_TOO_SMALL"),
    "offset in an empty queue": Case(
        pull(queueId="1", queueOffset="3"), MOVED, "NO_MESSAGE_IN_QUEUE"
    ),
    "nothing yet": Case(pull(queueId="1"), NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
    "waited in vain": Case(
        pull(queueOffset="2", suspend_ms=100), NOT_FOUND, "OFFSET_OVERFLOW_ONE"
    ),
    "offset of a new group": Case(
        offset(QUERY_OFFSET, queueId="1"), NO_OFFSET,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    ),
    "offset in an unknown topic": Case(
        offset(QUERY_OFFSET, topic=UNKNOWN), NO_OFFSET, "Not found, V3_0_6_SNAPSHOT"
    ),
    "offset, and not zero": Case(
        offset(QUERY_OFFSET, setZeroIfNotFound="false"), NO_OFFSET,
        "Not found, do not set to zero, maybe this group boot first",
    ),
    "commit to an unknown topic": Case(
        offset(UPDATE_OFFSET, topic=UNKNOWN), NO_TOPIC, f"Topic {UNKNOWN} not exist!"
    ),
    "commit by an unknown group": Case(
        offset(UPDATE_OFFSET, consumerGroup="refusedNobody"), NO_GROUP,
        "Group refusedNobody not exist!",
    ),
    "end of no queue": Case(Asked(MAX_OFFSET, {"topic": TOPIC}), SYSTEM_ERROR),
    "unknown request": Case(Asked(9999), NOT_SUPPORTED, " request type 9999 not supported"),
}  # fmt: skip

NOBODY = {"consumerGroup": GROUP, "clientId": "nobody"}

QUESTIONS = {
    "unknown key": Case(by_key(key="nobody"), NO_OFFSET, "can not find message, maybe time range"),
    "key of another time": Case(by_key(endTimestamp="1"), NO_OFFSET, "can not find message, maybe"),
    "place beyond the log": Case(
        Asked(VIEW, {"offset": "1099511627776"}), SYSTEM_ERROR,
        "can not find message by the offset, 1099511627776",
    ),
    "entries of an unknown queue": Case(
        Asked(ENTRIES, {"topic": UNKNOWN, "queueId": "3", "index": "0", "count": "1"}),
        SYSTEM_ERROR, f"3@{UNKNOWN} is not exist!",
    ),
    "reset in an unknown topic": Case(
        reset(topic=UNKNOWN), NO_TOPIC, f"Topic {UNKNOWN} does not exist"
    ),
    "reset of an unknown group": Case(
        reset(group="refusedNobody"), NO_GROUP, "Group refusedNobody does not exist"
    ),
    "reset beyond a queue": Case(
        reset(queueId="0", offset="9"), SYSTEM_ERROR,
        "Target offset 9 not in consume queue range [0-2]",
    ),
    "times of an unknown topic": Case(
        Asked(TIMES, {"topic": UNKNOWN, "group": GROUP}), NO_TOPIC, f"topic[{UNKNOWN}] not exist"
    ),
    "running info of nobody": Case(
        Asked(RUNNING, NOBODY), SYSTEM_ERROR, f"The Consumer <{GROUP}> <nobody> not online"
    ),
    "status of nobody": Case(Asked(STATUS, {"group": GROUP, "topic": TOPIC}), SYSTEM_ERROR),
    "no message to consume": Case(Asked(DIRECTLY, NOBODY), SYSTEM_ERROR),
    "no such message to consume": Case(
        Asked(DIRECTLY, {**NOBODY, "msgId": "7F00000100002A9F0000010000000000"}), SYSTEM_ERROR
    ),
}  # fmt: skip

DIFFERENCES = {
    "reset of an unknown queue": Difference(
        reset(queueId="9"), 0, INVALID, "Java notes an offset for a queue that nobody can have",
    ),
    "no body": Difference(
        send(b""), SYSTEM_ERROR, ILLEGAL,
        "Java fails with a NullPointerException; the message is at fault, not the broker",
    ),
    "batch with a negative size": Difference(
        batch(b"\xff" * 4 + bytes(40), b=OTHER), 0, SYSTEM_ERROR,
        "Java does not look at the sizes of items, and stores an empty message",
    ),
    "message that is rolled back": Difference(
        send(topic=OTHER, sysFlag="12"), 0, ILLEGAL,
        "Java stores it, and nobody can ever consume it",
    ),
    "SQL that cannot be parsed": Difference(
        pull(subscription="a >", expressionType="SQL92"), 0, UNREADABLE,
        "Java sends everything, as if there were no filter",
    ),
    "filter of an unknown type": Difference(
        pull(expressionType="XPATH"), 0, UNREADABLE,
        "Java sends everything, as if there were no filter",
    ),
    "commit of no offset": Difference(
        offset(UPDATE_OFFSET, commitOffset=None), INVALID, SYSTEM_ERROR,
        "a field that is required and missing is the same error in every request of ours",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(second: BrokerAddress) -> Iterator[str]:
    """The broker with what the requests need; whoever sent the heartbeat stays connected."""
    with Remote(second.address) as remote:
        prepare(remote)
        yield second.address


def refuse(address: str, asked: Asked) -> tuple[int, str]:
    """Code and remark of an answer; then the connection serves, and the queue is as it was."""
    with Remote(address, WAIT_S) as remote:
        answer = remote.ask(asked.code, asked.fields, asked.body)
        at_end = pull(queueOffset="2")
        assert remote.ask(at_end.code, at_end.fields).code == NOT_FOUND
    return answer.code, answer.remark


@pytest.mark.parametrize("name", SENDS)
def test_send_is_refused(prepared: str, name: str) -> None:
    """Topics, queues, bodies, properties and batches that cannot be."""
    check(prepared, SENDS[name])


@pytest.mark.parametrize("name", PULLS)
def test_pull_is_refused(prepared: str, name: str) -> None:
    """Queues, groups, subscriptions and offsets that cannot be, or are not there yet."""
    check(prepared, PULLS[name])


@pytest.mark.parametrize("name", QUESTIONS)
def test_question_is_refused(prepared: str, name: str) -> None:
    """Messages, offsets and consumers that are not there."""
    check(prepared, QUESTIONS[name])


def check(address: str, case: Case) -> None:
    """Whether the answer has the code, and a remark that begins as it should."""
    code, remark = refuse(address, case.asked)
    assert code == case.code, remark
    assert remark.lower().startswith(case.words.lower())
    assert remark


@pytest.mark.parametrize("name", DIFFERENCES)
def test_some_answers_differ_on_purpose(prepared: str, cluster: Cluster, name: str) -> None:
    """Each has its reason; when one is gone, its line here is to go."""
    case = DIFFERENCES[name]
    code, remark = refuse(prepared, case.asked)
    assert code == (case.ours if isinstance(cluster, OurCluster) else case.java), remark


def test_range_read_is_no_harm_to_a_broker_that_does_not_know_it(
    prepared: str, cluster: Cluster
) -> None:
    """Java answers code 3, twice on one connection, which then serves a pull; ours reads."""
    fields = {"topic": TOPIC, "queueId": "0", "queueOffset": "0"}
    with Remote(prepared) as remote:
        answers = [remote.ask(READ_RANGE, fields) for _ in range(2)]
        pulled = remote.ask(PULL, pull().fields)
    assert pulled.code == 0
    if isinstance(cluster, OurCluster):
        assert [(one.code, one.body) for one in answers] == [(0, pulled.body)] * 2
    else:
        assert {one.code for one in answers} == {NOT_SUPPORTED}
        assert answers[0].remark == f" request type {READ_RANGE} not supported"
