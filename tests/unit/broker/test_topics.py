"""Topics are made at start, on first use and for groups, as Java's broker makes them."""

from pathlib import Path

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.topics import SendTarget, Topics
from roketto.protocol.bodies.topics import TopicConfig, TopicFilterType
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import IllegalNameError, RequestError
from roketto.store.files import Files
from roketto.store.topic_table import TopicTable


def make(root: Path, **options: object) -> Topics:
    config = BrokerConfig(store_path_root_dir=root, broker_ip1="10.0.0.1", broker_name="b")
    for name, value in options.items():
        setattr(config, name, value)
    topics = Topics(TopicTable(Files(), root / "config"), config, lambda: 1)
    topics.create_system_topics()
    return topics


def shape(topics: Topics, name: str) -> tuple[int, int, int]:
    found = topics.get(name)
    assert found is not None, name
    return found.read_queue_nums, found.write_queue_nums, found.perm


def test_system_topics_are_those_of_java(tmp_path: Path) -> None:
    """Names, queues and permissions, with Java's defaults."""
    topics = make(tmp_path)
    assert {name: shape(topics, name) for name in topics.topics} == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7),
        "b": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "rmq_sys_wheel_timer": (1, 1, 6),
    }


def test_options_decide_which_system_topics_there_are(tmp_path: Path) -> None:
    """Model, trace and timer topics; cluster and broker may only be models."""
    topics = make(
        tmp_path, auto_create_topic_enable=False, trace_topic_enable=True,
        timer_wheel_enable=False, cluster_topic_enable=False, broker_topic_enable=False,
    )  # fmt: skip
    assert topics.get("TBW102") is None
    assert topics.get("rmq_sys_wheel_timer") is None
    assert shape(topics, "RMQ_SYS_TRACE_TOPIC") == (1, 1, 6)
    assert shape(topics, "DefaultCluster") == (16, 16, 1)
    assert shape(topics, "b") == (1, 1, 1)


def test_a_system_topic_that_an_operator_changed_stays_so(tmp_path: Path) -> None:
    """The file counts more than the default."""
    topics = make(tmp_path)
    topics.put(TopicConfig(topic_name="TBW102", read_queue_nums=3, write_queue_nums=2, perm=7))
    topics.create_system_topics()
    assert shape(topics, "TBW102") == (3, 2, 7)


def test_topics_can_be_announced_again_as_new(tmp_path: Path) -> None:
    """A permission of the broker is part of what name servers are told of each of them."""
    topics = make(tmp_path)
    told: list[TopicConfig | None] = []
    topics.on_change = told.append
    before = topics.data_version.counter
    topics.renew()
    assert (told, topics.data_version.counter) == ([None], before + 1)


def test_tables_are_saved_and_loaded(tmp_path: Path) -> None:
    """What was made is there after a restart."""
    topics = make(tmp_path)
    topics.for_sending("T", "TBW102", 4)
    assert topics.save()
    assert not topics.save()
    table = TopicTable(Files(), tmp_path / "config")
    table.load()
    assert table.get("T") == topics.get("T")


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (100, 8), (0, 0), (-3, 0)])
def test_a_new_topic_has_as_many_queues_as_asked_and_the_model_allow(
    tmp_path: Path, asked: int, made: int
) -> None:
    """The smaller number, never below zero; permissions without inheritance."""
    topics = make(tmp_path)
    seen: list[TopicConfig | None] = []
    topics.on_change = seen.append
    version = topics.data_version.counter
    config = topics.for_sending("T", "TBW102", asked)
    assert shape(topics, "T") == (made, made, 6)
    assert seen == [config]
    assert topics.data_version.counter == version + 1
    assert topics.for_sending("T", "TBW102", 1) is config
    assert len(seen) == 1


def test_any_topic_that_may_be_inherited_is_a_model(tmp_path: Path) -> None:
    """Also its way of tags; others say why not."""
    topics = make(tmp_path)
    model = TopicConfig(topic_name="Model", perm=7, topic_filter_type=TopicFilterType.MULTI_TAG)
    topics.put(model)
    assert topics.for_sending("T", "Model", 4).topic_filter_type is TopicFilterType.MULTI_TAG
    for default, text in (("T", "lacks inherit"), ("Nothing", "does not exist either")):
        with pytest.raises(RequestError, match=text) as caught:
            topics.for_sending("U", default, 4)
        assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_usual_model_counts_only_where_topics_may_be_made(tmp_path: Path) -> None:
    """Its permission from an earlier run changes nothing about that; other models still count."""
    topics = make(tmp_path)
    topics.put(TopicConfig(topic_name="Model", perm=7))
    table = TopicTable(Files(), tmp_path / "config")
    config = BrokerConfig(store_path_root_dir=tmp_path, broker_ip1="10.0.0.1")
    config.auto_create_topic_enable = False
    topics.save()
    table.load()
    later = Topics(table, config, lambda: 1)
    with pytest.raises(RequestError, match="autoCreateTopicEnable is false"):
        later.for_sending("T", "TBW102", 4)
    later.for_sending("T", "Model", 4)


def test_unit_mode_marks_new_topics(tmp_path: Path) -> None:
    """A topic as one of the unit, a retry topic as subscribed to by one."""
    topics = make(tmp_path)
    assert topics.for_sending("T", "TBW102", 4, is_unit=True).topic_sys_flag == 1
    assert topics.for_sending("%RETRY%G", "TBW102", 4, is_unit=True).topic_sys_flag == 2
    assert topics.create_for_group("%RETRY%H", 1, is_unit=True).topic_sys_flag == 2


def test_a_retry_topic_needs_no_model(tmp_path: Path) -> None:
    """It has one queue then; with a model it is made like any other, as in Java."""
    topics = make(tmp_path)
    assert topics.for_sending("%RETRY%G", "TBW102", 4).write_queue_nums == 4
    assert topics.for_sending("%RETRY%H", "None", 4).write_queue_nums == 1


def test_topics_of_groups_are_made_once(tmp_path: Path) -> None:
    """Later queues and permissions do not change what there is."""
    topics = make(tmp_path)
    made = topics.create_for_group("%DLQ%G", 1)
    assert shape(topics, "%DLQ%G") == (1, 1, 6)
    assert topics.create_for_group("%DLQ%G", 7, perm=4) is made


def test_what_may_not_be_sent_to_is_not_remembered(tmp_path: Path) -> None:
    """Neither illegal names nor topics of the broker nor unknown ones fill the memory."""
    topics = make(tmp_path)
    with pytest.raises(IllegalNameError):
        topics.target("a b", "TBW102", 4)
    with pytest.raises(RequestError, match="forbidden"):
        topics.target("SCHEDULE_TOPIC_XXXX", "TBW102", 4)
    with pytest.raises(RequestError, match="not exist"):
        topics.target("U", "Nothing", 4)
    assert topics.targets == {}


def test_a_changed_topic_is_sent_to_as_it_is_now(tmp_path: Path) -> None:
    """And one that was removed is made anew."""
    topics = make(tmp_path)
    topics.target("T", "TBW102", 4)
    topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=2))
    assert topics.target("T", "TBW102", 4).queue_count == 2
    seen: list[TopicConfig | None] = []
    topics.on_change = seen.append
    assert topics.remove("T") is not None
    assert topics.remove("T") is None
    assert seen == [None]
    assert topics.target("T", "TBW102", 4).queue_count == 4


@pytest.mark.parametrize(
    ("config", "is_plain"),
    [
        (TopicConfig(topic_name="T"), True),
        (TopicConfig(topic_name="T", order=True), False),
        (TopicConfig(topic_name="%RETRY%G"), False),
        (TopicConfig(topic_name="T", topic_filter_type=TopicFilterType.MULTI_TAG), False),
        (TopicConfig(topic_name="T", attributes={"cleanup.policy": "COMPACTION"}), False),
        (TopicConfig(topic_name="T", attributes={"cleanup.policy": "DELETE"}), True),
    ],
)
def test_only_a_topic_with_nothing_to_look_at_is_plain(config: TopicConfig, is_plain: bool) -> None:
    """What is special goes the long way."""
    assert SendTarget(config).is_plain is is_plain
