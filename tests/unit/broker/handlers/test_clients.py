"""Heartbeats make members, retry topics and filters; farewells, lists and checks answer as Java."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.handlers import clients as handlers
from roketto.protocol.bodies.connections import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from unit.broker.clients_rig import ClientsRig, heartbeat_of, route
from unit.broker.peers import Consumer, Peer, subscription

HEARTBEAT = route(handlers.ROUTES, 34)
UNREGISTER = route(handlers.ROUTES, 35)
LIST_CONSUMERS = route(handlers.ROUTES, 38)
CHECK = route(handlers.ROUTES, 46)
CONSUMERS = route(handlers.ROUTES, 203)
PRODUCERS = route(handlers.ROUTES, 204)
ALL_PRODUCERS = route(handlers.ROUTES, 328)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClientsRig]:
    rig = ClientsRig(tmp_path)
    yield rig
    rig.close()


def beat(
    rig: ClientsRig,
    peer: Peer,
    *consumers: Consumer,
    fingerprint: int = 0,
    without_sub: bool = False,
) -> bool:
    """A heartbeat; whether the client shall send its subscriptions again."""
    said = heartbeat_of("c1", *consumers, fingerprint=fingerprint, without_sub=without_sub)
    answer = rig.ask(HEARTBEAT, {}, said, peer)
    assert answer.code == 0
    assert answer.ext is not None
    assert answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    return answer.ext["IS_SUB_CHANGE"] == "true"


# --- heartbeats -----------------------------------------------------------------------------------


def test_a_heartbeat_makes_group_and_retry_topic(rig: ClientsRig) -> None:
    """The topic has as many queues as the group is configured with; the second changes nothing."""
    rig.context.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=3))
    assert beat(rig, Peer(), Consumer())
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (3, 3, 6)
    assert rig.context.clients.client_ids("G") == ["c1"]
    version = rig.context.topics.data_version.counter
    beat(rig, Peer(), Consumer())
    assert rig.context.topics.data_version.counter == version


def test_a_unit_has_its_flag_in_the_retry_topic(rig: ClientsRig) -> None:
    """Other units subscribe to it."""
    said = heartbeat_of("c1", Consumer())
    said.consumer_data_set[0].unit_mode = True
    rig.ask(HEARTBEAT, {}, said)
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert retry.topic_sys_flag == 2


def test_who_reads_an_ordered_topic_has_an_ordered_retry_topic(rig: ClientsRig) -> None:
    """Until it does so no longer; a heartbeat without subscriptions says nothing about it."""
    rig.context.topics.put(TopicConfig(topic_name="O", order=True))
    ordered = Consumer(subscriptions=[subscription("O")])
    peer = Peer()
    beat(rig, peer, ordered, fingerprint=5)
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert retry.order
    beat(rig, peer, Consumer(subscriptions=[]), fingerprint=5, without_sub=True)
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert retry.order
    beat(rig, peer, Consumer(), fingerprint=6)
    retry = rig.context.topics.get("%RETRY%G")
    assert retry is not None
    assert not retry.order


def test_a_group_that_may_not_be_is_skipped(rig: ClientsRig) -> None:
    """Without a word, as in Java; the others of the client are served."""
    rig.context.config.auto_create_subscription_group = False
    rig.context.groups.put(SubscriptionGroupConfig(group_name="H"))
    beat(rig, Peer(), Consumer("G"), Consumer("H"), Consumer("no such name"))
    assert list(rig.context.clients.consumer_groups) == ["H"]
    assert rig.context.topics.get("%RETRY%G") is None


def test_pull_consumers_may_be_refused(rig: ClientsRig) -> None:
    """rejectPullConsumerEnable leaves out those that pull, and no others."""
    rig.context.config.reject_pull_consumer_enable = True
    pulling = Consumer("G", consume_type=ConsumeType.CONSUME_ACTIVELY)
    beat(rig, Peer(), pulling, Consumer("H"))
    assert list(rig.context.clients.consumer_groups) == ["H"]


def test_an_old_client_is_always_asked_for_its_subscriptions(rig: ClientsRig) -> None:
    """It sends no fingerprint; Java answers so."""
    peer = Peer()
    assert beat(rig, peer, Consumer())
    assert beat(rig, peer, Consumer())


def test_a_known_fingerprint_saves_the_subscriptions(rig: ClientsRig) -> None:
    """The first time and while it stays the same."""
    peer = Peer()
    assert not beat(rig, peer, Consumer(), fingerprint=5)
    short = Consumer(subscriptions=[])
    assert not beat(rig, peer, short, fingerprint=5, without_sub=True)
    assert rig.context.clients.subscription("G", "T") is not None


def test_another_fingerprint_in_the_group_asks_for_subscriptions(rig: ClientsRig) -> None:
    """Two members that differ keep sending all of it, so that the last one counts, as in Java."""
    first, second = Peer(), Peer()
    assert not beat(rig, first, Consumer(), fingerprint=5)
    assert beat(rig, second, Consumer(), fingerprint=6)
    assert beat(rig, first, Consumer(), fingerprint=5)


def test_a_broker_that_knows_no_subscriptions_asks_for_them(rig: ClientsRig) -> None:
    """It was started anew, and the client's short heartbeats would leave it without for ever."""
    short = Consumer(subscriptions=[])
    assert beat(rig, Peer(), short, fingerprint=5, without_sub=True)


def test_sql_filters_come_with_heartbeats(rig: ClientsRig) -> None:
    """Pulls find them; a heartbeat without subscriptions leaves them."""
    wanted = subscription("T", "a > 1")
    wanted.expression_type = "SQL92"
    peer = Peer()
    beat(rig, peer, Consumer(subscriptions=[wanted]), fingerprint=5)
    assert rig.context.filters.get("T", "G") is not None
    beat(rig, peer, Consumer(subscriptions=[]), fingerprint=5, without_sub=True)
    assert rig.context.filters.find("T", "G", 1) is not None


def test_producers_are_registered(rig: ClientsRig) -> None:
    """With every group that they name."""
    peer = Peer()
    said = heartbeat_of("p1", producers=("P", "CLIENT_INNER_PRODUCER"))
    rig.ask(HEARTBEAT, {}, said, peer)
    assert rig.context.clients.producer("p1") is peer
    assert rig.context.clients.producer_connections("CLIENT_INNER_PRODUCER") == [peer]


def test_heartbeats_of_other_languages_are_understood(rig: ClientsRig) -> None:
    """Ordinals for names, strings for numbers, versions in nanoseconds."""
    body = (
        b'{"clientID":"go@1","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[{'
        b'"groupName":"G","consumeType":1,"messageModel":"1","consumeFromWhere":4,"subscription'
        b'DataSet":[{"topic":"T","subString":"a || b","subVersion":"1700000000000000000",'
        b'"codeSet":["97","98"],"tagsSet":["a","b"]}]}]}'
    )
    assert rig.ask(HEARTBEAT, {}, body).code == 0
    group = rig.context.clients.consumer_group("G")
    assert group is not None
    assert group.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert group.message_model is MessageModel.CLUSTERING
    assert group.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    found = group.subscription("T")
    assert found is not None
    assert (found.code_set, found.sub_version) == ([97, 98], 1_700_000_000_000_000_000)


def test_a_heartbeat_that_is_too_large_leaves_nothing(rig: ClientsRig) -> None:
    """It is refused before the first group is made."""
    said = heartbeat_of("c" * 300, Consumer())
    code, reason = rig.refuse(HEARTBEAT, {}, said)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "client id" in reason
    assert rig.context.groups.get("G") is None


# --- farewells ------------------------------------------------------------------------------------


def test_a_client_leaves_the_groups_that_it_names(rig: ClientsRig) -> None:
    """Producers and consumers; the members that stay are told."""
    peer, other = Peer(), Peer()
    rig.ask(HEARTBEAT, {}, heartbeat_of("c1", Consumer(), producers=("P",)), peer)
    rig.ask(HEARTBEAT, {}, heartbeat_of("c2", Consumer()), other)
    other.take_notices()
    ext = {"clientID": "c1", "consumerGroup": "G", "producerGroup": "P"}
    assert rig.ask(UNREGISTER, ext, peer=peer).code == 0
    assert rig.context.clients.client_ids("G") == ["c2"]
    assert rig.context.clients.producers("P") == []
    assert other.take_notices() == ["G"]
    assert rig.ask(UNREGISTER, {"clientID": "c1"}, peer=peer).code == 0


def test_a_quiet_group_is_not_told_of_a_farewell(rig: ClientsRig) -> None:
    """notifyConsumerIdsChangedEnable of the group."""
    rig.context.groups.put(
        SubscriptionGroupConfig(group_name="G", notify_consumer_ids_changed_enable=False)
    )
    peer, other = Peer(), Peer()
    rig.ask(HEARTBEAT, {}, heartbeat_of("c1", Consumer()), peer)
    rig.ask(HEARTBEAT, {}, heartbeat_of("c2", Consumer()), other)
    rig.ask(UNREGISTER, {"clientID": "c1", "consumerGroup": "G"}, peer=peer)
    assert other.take_notices() == []


# --- who is there ---------------------------------------------------------------------------------


def test_the_members_of_a_group_are_listed(rig: ClientsRig) -> None:
    """By their ids; a group that nobody is in is an error, as in Java."""
    rig.ask(HEARTBEAT, {}, heartbeat_of("c1", Consumer()))
    body = rig.read(GetConsumerListByGroupResponseBody, LIST_CONSUMERS, {"consumerGroup": "G"})
    assert body.consumer_id_list == ["c1"]
    assert rig.refuse(LIST_CONSUMERS, {"consumerGroup": "H"}) == (
        ResponseCode.SYSTEM_ERROR,
        "no consumer for this group, H",
    )


def test_consumers_are_shown_with_what_they_consume(rig: ClientsRig) -> None:
    """Address, language, version, subscriptions."""
    rig.ask(HEARTBEAT, {}, heartbeat_of("c1", Consumer()), Peer("10.0.0.7:5"))
    body = rig.read(ConsumerConnection, CONSUMERS, {"consumerGroup": "G"})
    (shown,) = body.connection_set
    assert (shown.client_addr, shown.client_id) == ("10.0.0.7:5", "c1")
    assert (shown.language, shown.version) == ("JAVA", 479)
    assert list(body.subscription_table) == ["T"]
    assert body.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert rig.refuse(CONSUMERS, {"consumerGroup": "H"}) == (
        ResponseCode.CONSUMER_NOT_ONLINE,
        "the consumer group[H] not online",
    )


def test_producers_are_shown(rig: ClientsRig) -> None:
    """A language that nobody knows is left out."""
    request = Command(34, body=b'{"clientID":"p1","producerDataSet":[{"groupName":"P"}]}')
    request.language = -1
    HEARTBEAT(rig.context, Peer(), request)
    (shown,) = rig.read(ProducerConnection, PRODUCERS, {"producerGroup": "P"}).connection_set
    assert (shown.client_id, shown.language) == ("p1", None)
    assert rig.refuse(PRODUCERS, {"producerGroup": "Q"}) == (
        ResponseCode.SYSTEM_ERROR,
        "the producer group[Q] not exist",
    )


# --- may I? ---------------------------------------------------------------------------------------


def check(expression_type: str, expression: str) -> CheckClientRequestBody:
    wanted = SubscriptionData(topic="T", expression_type=expression_type, sub_string=expression)
    return CheckClientRequestBody(client_id="c1", group="G", subscription_data=wanted)


def test_tags_always_pass_the_check(rig: ClientsRig) -> None:
    """And so does a request that asks nothing."""
    rig.context.config.enable_property_filter = False
    assert rig.ask(CHECK, {}, check("TAG", "a || b")).code == 0
    assert rig.ask(CHECK, {}).code == 0
    assert rig.ask(CHECK, {}, CheckClientRequestBody(group="G")).code == 0


def test_a_filter_is_compiled_before_a_consumer_starts(rig: ClientsRig) -> None:
    """What does not compile is refused, and all of it while filters are switched off."""
    assert rig.ask(CHECK, {}, check("SQL92", "a > 1")).code == 0
    code, _ = rig.refuse(CHECK, {}, check("SQL92", "a >"))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    code, _ = rig.refuse(CHECK, {}, check("XPATH", "a"))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    rig.context.config.enable_property_filter = False
    code, reason = rig.refuse(CHECK, {}, check("SQL92", "a > 1"))
    assert code == ResponseCode.SYSTEM_ERROR
    assert reason.startswith("The broker does not support consumer to filter message by SQL92")


def test_all_producers_are_shown_by_group(rig: ClientsRig) -> None:
    """With the time of their last heartbeats, and their addresses as Java writes them."""
    rig.ask(HEARTBEAT, {}, heartbeat_of("p1", producers=("P", "Q")), Peer("10.0.0.7:5"))
    rig.now_s += 3
    rig.ask(HEARTBEAT, {}, heartbeat_of("p2", producers=("Q",)), Peer("10.0.0.8:5"))
    shown = rig.read(ProducerTableInfo, ALL_PRODUCERS, {}).data
    assert {group: [one.client_id for one in found] for group, found in shown.items()} == {
        "P": ["p1"], "Q": ["p1", "p2"],
    }  # fmt: skip
    assert shown["Q"] == [
        ProducerInfo("p1", "JAVA", rig.now_ms - 3_000, "/10.0.0.7:5", 479),
        ProducerInfo("p2", "JAVA", rig.now_ms, "/10.0.0.8:5", 479),
    ]
