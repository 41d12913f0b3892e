"""Topics over the wire: what operators create is kept and shown, what may not be is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import topics as handlers
from roketto.protocol.bodies.groups import GroupList
from roketto.protocol.bodies.heartbeat import QuerySubscriptionResponseBody
from roketto.protocol.bodies.route import MessageQueue, TopicList
from roketto.protocol.bodies.stats import TopicStatsTable
from roketto.protocol.bodies.topics import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
)
from roketto.protocol.codes import ResponseCode
from unit.broker.clients_rig import ClientsRig, route
from unit.broker.pull_rig import START_MS

UPDATE = route(handlers.ROUTES, 17)
UPDATE_LIST = route(handlers.ROUTES, 18)
GET_ALL = route(handlers.ROUTES, 21)
STATS = route(handlers.ROUTES, 202)
DELETE = route(handlers.ROUTES, 215)
BY_WHO = route(handlers.ROUTES, 300)
SYSTEM = route(handlers.ROUTES, 305)
BY_GROUP = route(handlers.ROUTES, 343)
SUBSCRIPTION = route(handlers.ROUTES, 345)
GET = route(handlers.ROUTES, 351)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def asked(topic: str, **more: object) -> dict[str, object]:
    """The header that mqadmin updateTopic sends."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 8,
        "writeQueueNums": 8,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    } | more


# --- creating -------------------------------------------------------------------------------------


def test_a_topic_is_created_as_it_was_asked_for(rig: ClientsRig) -> None:
    """Every field counts; whoever announces topics hears of it."""
    heard: list[TopicConfig | None] = []
    rig.context.topics.on_change = heard.append
    said = asked(
        "Orders", readQueueNums=4, writeQueueNums=2, perm=4, order="true", topicSysFlag=1,
        topicFilterType="MULTI_TAG", attributes="+message.type=FIFO",
    )  # fmt: skip
    assert rig.ask(UPDATE, said).code == 0
    expected = TopicConfig(
        attributes={"message.type": "FIFO"},
        order=True,
        perm=4,
        read_queue_nums=4,
        topic_filter_type=TopicFilterType.MULTI_TAG,
        topic_name="Orders",
        topic_sys_flag=1,
        write_queue_nums=2,
    )
    assert rig.context.topics.get("Orders") == expected
    assert heard == [expected]


def test_the_same_configuration_again_changes_nothing(rig: ClientsRig) -> None:
    """It is answered, and nobody is told."""
    rig.ask(UPDATE, asked("Orders"))
    version = rig.context.topics.data_version.counter
    assert rig.ask(UPDATE, asked("Orders")).code == 0
    assert rig.context.topics.data_version.counter == version


def test_an_update_keeps_attributes_that_it_does_not_name(rig: ClientsRig) -> None:
    """mqadmin updateTopic without -a."""
    rig.ask(UPDATE, asked("Orders", attributes="+message.type=FIFO"))
    rig.ask(UPDATE, asked("Orders", readQueueNums=16))
    topic = rig.context.topics.get("Orders")
    assert topic is not None
    assert (topic.attributes, topic.read_queue_nums) == ({"message.type": "FIFO"}, 16)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "no such name"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": " "}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "../../etc"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "t" * 128}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "TBW102"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "rmq_sys_mine"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "DefaultCluster"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "DefaultCluster_REPLY_TOPIC"}, ResponseCode.INVALID_PARAMETER),
        ({"readQueueNums": -1}, ResponseCode.INVALID_PARAMETER),
        ({"writeQueueNums": 65_536}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+color=red"}, ResponseCode.SYSTEM_ERROR),
        ({"topicFilterType": "ODD"}, ResponseCode.SYSTEM_ERROR),
        ({"perm": "six"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_may_not_be_is_refused(
    rig: ClientsRig, change: dict[str, object], code: ResponseCode
) -> None:
    """With Java's codes, and nothing is stored."""
    before = dict(rig.context.topics.topics)
    found, reason = rig.refuse(UPDATE, asked("Orders") | change)
    assert found == code
    assert reason
    assert rig.context.topics.topics == before


def test_system_topics_may_be_changed_where_that_is_allowed(rig: ClientsRig) -> None:
    """validateSystemTopicWhenUpdateTopic=false."""
    rig.context.config.validate_system_topic_when_update_topic = False
    assert rig.ask(UPDATE, asked("TBW102")).code == 0


def test_retry_topics_may_be_longer(rig: ClientsRig) -> None:
    """%RETRY% before a group of 120 characters."""
    assert rig.ask(UPDATE, asked("%RETRY%" + "g" * 120)).code == 0


def test_several_topics_are_created_together_or_not_at_all(rig: ClientsRig) -> None:
    """One bad one, and none of them is made."""
    good = TopicConfig(topic_name="A", attributes={"+message.type": "FIFO"})
    bad = TopicConfig(topic_name="B", attributes={"+color": "red"})
    code, _ = rig.refuse(UPDATE_LIST, {}, CreateTopicListRequestBody([good, bad]))
    assert code == ResponseCode.SYSTEM_ERROR
    assert rig.context.topics.get("A") is None
    assert rig.ask(UPDATE_LIST, {}, CreateTopicListRequestBody([good])).code == 0
    made = rig.context.topics.get("A")
    assert made is not None
    assert made.attributes == {"message.type": "FIFO"}


# --- deleting -------------------------------------------------------------------------------------


def test_a_deleted_topic_leaves_nothing(rig: ClientsRig) -> None:
    """Configuration, queues, offsets; and a topic of that name begins anew."""
    rig.send()
    rig.context.offsets.commit("T", "G", 0, 1)
    rig.context.stats.note_put("T", 0, 1, 10)
    assert rig.ask(DELETE, {"topic": "T"}).code == 0
    assert rig.context.topics.get("T") is None
    assert rig.store.queue("T", 0) is None
    assert rig.context.offsets.get("T", "G", 0) is None
    assert "T" not in rig.context.stats.topics
    assert rig.ask(DELETE, {"topic": "T"}).code == 0


@pytest.mark.parametrize("clears", [True, False])
def test_retry_topics_of_pop_go_along(rig: ClientsRig, clears: bool) -> None:
    """Those of its groups, in both spellings; clearRetryTopicWhenDeleteTopic may keep them."""
    rig.context.config.clear_retry_topic_when_delete_topic = clears
    rig.context.offsets.commit("T", "G", 0, 1)
    retries = ["%RETRY%G+T", "%RETRY%G_T"]
    for retry in [*retries, "%RETRY%G"]:
        rig.context.topics.put(TopicConfig(topic_name=retry))
    rig.ask(DELETE, {"topic": "T"})
    assert [rig.context.topics.get(retry) is None for retry in retries] == [clears, clears]
    assert rig.context.topics.get("%RETRY%G") is not None


@pytest.mark.parametrize("topic", ["", " ", "TBW102", "../../etc", "DefaultCluster"])
def test_what_may_not_be_deleted_is_refused(rig: ClientsRig, topic: str) -> None:
    """Blank names, topics of the system, and paths."""
    code, _ = rig.refuse(DELETE, {"topic": topic})
    assert code == ResponseCode.INVALID_PARAMETER


# --- looking --------------------------------------------------------------------------------------


def test_one_topic_is_shown(rig: ClientsRig) -> None:
    """As JSON of its configuration; 17 if there is none."""
    topic = rig.read(TopicConfig, GET, {"topic": "T", "lo": "true"})
    assert topic == rig.context.topics.get("T")
    assert rig.refuse(GET, {"topic": "U"}) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "No topic in this broker. topic: U",
    )


def test_all_topics_are_shown(rig: ClientsRig) -> None:
    """With their version, and how many there are."""
    answer = rig.ask(GET_ALL)
    assert answer.ext == {"totalTopicNum": "1"}
    body = rig.read(TopicConfigAndMappingSerializeWrapper, GET_ALL, {})
    assert body.topic_config_table == rig.context.topics.topics
    assert body.data_version == rig.context.topics.data_version


def test_topics_are_shown_page_by_page(rig: ClientsRig) -> None:
    """A slave of 5.4 asks for so many at a time."""
    rig.ask(UPDATE, asked("A"))
    said: dict[str, object] = {"topicSeq": 0, "maxTopicNum": 1, "dataVersion": ""}
    body = rig.read(TopicConfigAndMappingSerializeWrapper, GET_ALL, said)
    assert list(body.topic_config_table) == ["A"]


def test_the_queues_of_a_topic_are_shown(rig: ClientsRig) -> None:
    """Ends and last time of each, also of those without messages."""
    rig.send(3)
    body = rig.read(TopicStatsTable, STATS, {"topic": "T"})
    assert len(body.offset_table) == 4
    first = body.offset_table[MessageQueue(rig.config.broker_name, 0, "T")]
    assert (first.min_offset, first.max_offset) == (0, 3)
    assert first.last_update_timestamp == START_MS
    second = body.offset_table[MessageQueue(rig.config.broker_name, 1, "T")]
    assert (second.min_offset, second.max_offset, second.last_update_timestamp) == (0, 0, 0)
    assert rig.refuse(STATS, {"topic": "U"}) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[U] not exist",
    )


def test_the_groups_of_a_topic_are_shown_once(rig: ClientsRig) -> None:
    """Those online and those with offsets."""
    rig.join(group="G")
    rig.context.offsets.commit("T", "G", 0, 1)
    rig.context.offsets.commit("T", "H", 0, 1)
    assert rig.read(GroupList, BY_WHO, {"topic": "T"}).group_list == ["G", "H"]
    assert rig.read(GroupList, BY_WHO, {"topic": "U"}).group_list == []


def test_the_topics_of_a_group_are_shown(rig: ClientsRig) -> None:
    """Those with offsets; Java says which broker tells it."""
    rig.context.offsets.commit("T", "G", 0, 1)
    rig.context.offsets.commit("U", "G", 0, 1)
    rig.context.offsets.commit("V", "H", 0, 1)
    shown = rig.read(TopicList, BY_GROUP, {"group": "G"})
    assert (shown.broker_addr, shown.topic_list) == ("10.0.0.1:10911", ["T", "U"])


def test_the_subscription_of_a_group_is_shown_while_it_is_online(rig: ClientsRig) -> None:
    """Else nothing is said of it."""
    said: dict[str, object] = {"group": "G", "topic": "T"}
    shown = rig.read(QuerySubscriptionResponseBody, SUBSCRIPTION, said)
    assert (shown.group, shown.topic, shown.subscription_data) == ("G", "T", None)
    rig.join(group="G")
    shown = rig.read(QuerySubscriptionResponseBody, SUBSCRIPTION, said)
    assert shown.subscription_data is not None
    assert (shown.subscription_data.topic, shown.subscription_data.sub_string) == ("T", "*")
    shown = rig.read(QuerySubscriptionResponseBody, SUBSCRIPTION, {"group": "G"})
    assert shown.subscription_data is None


def test_the_topics_of_the_system_are_shown(rig: ClientsRig) -> None:
    """Those that every broker has, and those that are called after this one."""
    shown = rig.read(TopicList, SYSTEM, {}).topic_list
    names = {"TBW102", "SCHEDULE_TOPIC_XXXX", rig.config.broker_name, "DefaultCluster_REPLY_TOPIC"}
    assert names <= set(shown)
    assert "T" not in shown
