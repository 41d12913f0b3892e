"""One consumer group: members come and go, the last heartbeat decides, who disagrees is named."""

import pytest

from roketto.broker.consumer_group import ConsumerGroup, Member
from roketto.protocol.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from unit.broker.peers import Consumer, Peer, subscription


def member(client_id: str, peer: Peer, seen_s: float = 1.0) -> Member:
    return Member(client_id, peer, 0, 479, seen_s)


def join(group: ConsumerGroup, client_id: str, peer: Peer, consumer: Consumer) -> bool:
    """A full heartbeat; whether the topics have changed by it."""
    group.update_member(consumer.data(), member(client_id, peer))
    return group.update_subscriptions(consumer.data(), peer)


def test_a_member_is_new_once() -> None:
    """Its next heartbeat only says that it is still there."""
    group, peer = ConsumerGroup("G"), Peer()
    data = Consumer().data()
    assert group.update_member(data, member("c1", peer, 1.0))
    assert not group.update_member(data, member("c1", peer, 2.0))
    found = group.member(peer)
    assert found is not None
    assert found.seen_s == 2.0


def test_the_last_heartbeat_says_how_the_group_consumes() -> None:
    """Type, model and first offset are those of whoever spoke last, as in Java."""
    group = ConsumerGroup("G")
    group.update_member(Consumer().data(), member("c1", Peer()))
    other = Consumer(
        consume_type=ConsumeType.CONSUME_ACTIVELY,
        message_model=MessageModel.BROADCASTING,
        from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    group.update_member(other.data(), member("c2", Peer()))
    assert group.consume_type is ConsumeType.CONSUME_ACTIVELY
    assert group.message_model is MessageModel.BROADCASTING
    assert group.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def test_a_changed_model_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Its first word is no change; the second that differs is."""
    group, peer = ConsumerGroup("G"), Peer()
    group.update_member(Consumer().data(), member("c1", peer))
    assert not caplog.records
    changed = Consumer(message_model=MessageModel.BROADCASTING).data()
    group.update_member(changed, member("c1", peer))
    assert "group G: its message model was MessageModel.CLUSTERING and is" in caplog.text


def test_a_client_that_reconnected_counts_once() -> None:
    """Queues are shared out by ids: one that stands there twice would get a share for nobody."""
    group = ConsumerGroup("G")
    for client_id in ("c1", "c2", "c1"):
        group.update_member(Consumer().data(), member(client_id, Peer()))
    assert group.client_ids == ["c1", "c2"]
    assert len(group.members) == 3


def test_a_member_is_found_by_its_id() -> None:
    """Of one that has reconnected, the connection that is not yet found dead is the newer one."""
    group, peers = ConsumerGroup("G"), [Peer(), Peer(), Peer()]
    for client_id, peer in zip(("c1", "c2", "c1"), peers, strict=True):
        group.update_member(Consumer().data(), member(client_id, peer))
    first, second = group.find("c1"), group.find("c2")
    assert first is not None
    assert second is not None
    assert (first.connection, second.connection) == (peers[2], peers[1])
    assert group.find("c3") is None


def test_a_connection_that_changes_its_client_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    """The new id counts."""
    group, peer = ConsumerGroup("G"), Peer()
    group.update_member(Consumer().data(), member("c1", peer))
    assert not group.update_member(Consumer().data(), member("c2", peer))
    assert group.client_ids == ["c2"]
    assert "the connection of 'c1' now is one of 'c2'" in caplog.text


def test_a_new_topic_changes_the_group_and_a_new_version_does_not() -> None:
    """Members share out anew for a topic, not for another filter on it; the filter counts."""
    group, peer = ConsumerGroup("G"), Peer()
    assert join(group, "c1", peer, Consumer(subscriptions=[subscription("T", "a", 1)]))
    assert not join(group, "c1", peer, Consumer(subscriptions=[subscription("T", "b", 2)]))
    found = group.subscription("T")
    assert found is not None
    assert (found.sub_string, found.sub_version) == ("b", 2)


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    """Two members rebalance at different times; the newest subscription stays."""
    group = ConsumerGroup("G")
    join(group, "c1", Peer(), Consumer(subscriptions=[subscription("T", "new", 2)]))
    join(group, "c2", Peer(), Consumer(subscriptions=[subscription("T", "old", 1)]))
    found = group.subscription("T")
    assert found is not None
    assert found.sub_string == "new"


def test_topics_that_the_last_heartbeat_lacks_are_taken_out() -> None:
    """As in Java; this is how a group of unlike members loses messages."""
    group, peer = ConsumerGroup("G"), Peer()
    both = [subscription("T"), subscription("U")]
    join(group, "c1", peer, Consumer(subscriptions=both))
    assert join(group, "c1", peer, Consumer(subscriptions=[subscription("U")]))
    assert list(group.subscriptions) == ["U"]
    assert group.subscription("T") is None


def test_members_that_disagree_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often their heartbeats come; the text names both and what they want."""
    group, first, second = ConsumerGroup("G"), Peer(), Peer()
    for _ in range(3):
        join(group, "c1", first, Consumer(subscriptions=[subscription("T", "a")]))
        join(group, "c2", second, Consumer(subscriptions=[subscription("T", "b")]))
    assert group.disagreement == (
        "c1 wants T a (CONSUME_PASSIVELY, CLUSTERING, CONSUME_FROM_LAST_OFFSET), "
        "but c2 wants T b (CONSUME_PASSIVELY, CLUSTERING, CONSUME_FROM_LAST_OFFSET)"
    )
    assert caplog.text.count("its members disagree") == 1


def test_members_that_differ_in_model_alone_disagree_too() -> None:
    """One shares, one broadcasts: half the messages come twice."""
    group = ConsumerGroup("G")
    join(group, "c1", Peer(), Consumer())
    join(group, "c2", Peer(), Consumer(message_model=MessageModel.BROADCASTING))
    assert group.disagreement is not None
    assert "BROADCASTING" in group.disagreement


def test_a_disagreement_ends_when_one_of_its_members_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And when it says what the others say."""
    caplog.set_level("INFO")
    group, first, second = ConsumerGroup("G"), Peer(), Peer()
    other = Consumer(subscriptions=[subscription("T", "b")])
    join(group, "c1", first, Consumer())
    join(group, "c2", second, other)
    join(group, "c2", second, Consumer())
    assert group.disagreement is None
    assert "its members agree again" in caplog.text
    join(group, "c2", second, other)
    assert group.disagreement is not None
    assert group.remove(second) is not None
    assert group.disagreement is None
    assert group.remove(second) is None


def test_versions_alone_are_no_disagreement() -> None:
    """They count up at different times in every client; an empty filter means all messages."""
    group = ConsumerGroup("G")
    join(group, "c1", Peer(), Consumer(subscriptions=[subscription("T", "*", 1)]))
    join(group, "c2", Peer(), Consumer(subscriptions=[subscription("T", "", 9)]))
    assert group.disagreement is None


def test_who_left_out_its_subscriptions_does_not_disagree() -> None:
    """A short heartbeat says nothing about them."""
    group = ConsumerGroup("G")
    group.update_member(Consumer().data(), member("c0", Peer()))
    join(group, "c1", Peer(), Consumer())
    assert group.disagreement is None


def test_a_long_disagreement_is_cut() -> None:
    """A thousand topics do not fill the log."""
    group = ConsumerGroup("G")
    many = [subscription(f"Topic{number}") for number in range(1_000)]
    join(group, "c1", Peer(), Consumer(subscriptions=many))
    join(group, "c2", Peer(), Consumer())
    assert group.disagreement is not None
    assert len(group.disagreement) < 1_200
