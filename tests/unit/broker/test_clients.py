"""The clients of a broker: joined by heartbeats, gone with their connection, never too many."""

import pytest

from roketto.broker import clients as clients_module
from roketto.broker.clients import Clients
from roketto.broker.consumer_group import Member
from roketto.protocol.bodies.heartbeat import ConsumerData, MessageModel
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from unit.broker.peers import ClientOptions, Consumer, Now, Peer, subscription

HEARTBEAT = Command(RequestCode.HEART_BEAT)


class Rig:
    """A table of clients that a test speaks to as the handlers do."""

    def __init__(self) -> None:
        self.now = Now()
        self.options = ClientOptions()
        self.clients = Clients(self.options, self.now)
        self.changed: list[str] = []
        self.gone: list[str] = []
        self.clients.on_group_change = self.changed.append
        self.clients.on_group_gone = self.gone.append

    def member(self, client_id: str, peer: Peer) -> Member:
        return self.clients.member(peer, client_id, HEARTBEAT)

    def consume(
        self,
        client_id: str,
        peer: Peer,
        consumer: Consumer | None = None,
        *,
        without_sub: bool = False,
        should_notify: bool = True,
    ) -> bool:
        data = (consumer or Consumer()).data()
        return self.clients.register_consumer(
            data,
            self.member(client_id, peer),
            without_sub=without_sub,
            should_notify=should_notify,
        )

    def produce(self, client_id: str, peer: Peer, group: str = "P") -> None:
        self.clients.register_producer(group, self.member(client_id, peer))


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --- joining --------------------------------------------------------------------------------------


def test_members_are_told_of_each_new_one(rig: Rig) -> None:
    """All of them, the new one as well; a heartbeat that changes nothing tells nobody."""
    first, second = Peer(), Peer()
    assert rig.consume("c1", first)
    assert rig.consume("c2", second)
    assert first.take_notices() == ["G", "G"]
    assert second.take_notices() == ["G"]
    assert not rig.consume("c2", second)
    assert first.take_notices() == second.take_notices() == []
    assert rig.clients.client_ids("G") == ["c1", "c2"]
    assert rig.changed == ["G", "G"]


def test_members_are_told_of_a_changed_topic(rig: Rig) -> None:
    """They have to share out the queues of the new one."""
    peer = Peer()
    rig.consume("c1", peer)
    peer.take_notices()
    assert rig.consume("c1", peer, Consumer(subscriptions=[subscription("U")]))
    assert peer.take_notices() == ["G"]
    assert rig.clients.subscription("G", "T") is None
    assert rig.clients.subscription("G", "U") is not None


@pytest.mark.parametrize("reason", ["group", "broker", "broadcast"])
def test_nobody_is_told_where_that_is_switched_off(rig: Rig, reason: str) -> None:
    """By the group, by the broker, or because who broadcasts shares nothing."""
    peer = Peer()
    rig.options.notify_consumer_ids_changed_enable = reason != "broker"
    model = MessageModel.BROADCASTING if reason == "broadcast" else MessageModel.CLUSTERING
    consumer = Consumer(message_model=model)
    assert rig.consume("c1", peer, consumer, should_notify=reason != "group")
    assert peer.take_notices() == []
    assert rig.changed == ["G"]


def test_a_notice_is_a_one_way_request_of_java(rig: Rig) -> None:
    """Code 40 and the group's name."""
    peer = Peer()
    rig.consume("c1", peer)
    (notice,) = peer.sent
    assert notice.code == 40
    assert notice.ext == {"consumerGroup": "G"}


def test_a_short_heartbeat_leaves_the_subscriptions(rig: Rig) -> None:
    """It says that a client is there, and of a new client that it is new."""
    first, second = Peer(), Peer()
    rig.consume("c1", first)
    first.take_notices()
    nothing = Consumer(subscriptions=[])
    assert not rig.consume("c1", first, nothing, without_sub=True)
    assert rig.consume("c2", second, nothing, without_sub=True)
    assert rig.clients.subscription("G", "T") is not None
    assert first.take_notices() == ["G"]


def test_groups_are_found_by_topic(rig: Rig) -> None:
    """Those that subscribe to it now."""
    rig.consume("c1", Peer())
    rig.consume("c1", Peer(), Consumer("H", [subscription("T"), subscription("U")]))
    assert rig.clients.groups_subscribed_to("T") == ["G", "H"]
    assert rig.clients.groups_subscribed_to("U") == ["H"]
    assert list(rig.clients.consumer_groups) == ["G", "H"]


def test_unlike_members_are_kept_for_operators(rig: Rig) -> None:
    """Which groups, and what they say."""
    rig.consume("c1", Peer())
    assert rig.clients.inconsistencies == {}
    rig.consume("c2", Peer(), Consumer(subscriptions=[subscription("U")]))
    assert list(rig.clients.inconsistencies) == ["G"]
    assert "c1 wants T * " in rig.clients.inconsistencies["G"]


def test_producers_are_found_by_group_and_by_id(rig: Rig) -> None:
    """Checks of transactions go to the group, replies to the client."""
    first, second = Peer(), Peer()
    rig.produce("p1", first)
    rig.produce("p1", first)
    rig.produce("p2", second)
    assert rig.clients.producer_connections("P") == [first, second]
    assert [member.client_id for member in rig.clients.producers("P")] == ["p1", "p2"]
    assert rig.clients.producer("p2") is second
    assert rig.clients.producer("p3") is None


def test_unknown_groups_have_nobody(rig: Rig) -> None:
    """No error, nothing."""
    assert rig.clients.consumer_group("G") is None
    assert rig.clients.subscription("G", "T") is None
    assert rig.clients.client_ids("G") == []
    assert rig.clients.producers("P") == []
    assert rig.clients.producer_connections("P") == []


# --- leaving --------------------------------------------------------------------------------------


def test_who_unregisters_is_gone_and_the_others_know(rig: Rig) -> None:
    """The last one takes the group along."""
    first, second = Peer(), Peer()
    rig.consume("c1", first)
    rig.consume("c2", second)
    first.take_notices()
    rig.clients.unregister_consumer("G", second, should_notify=True)
    assert first.take_notices() == ["G"]
    assert rig.clients.client_ids("G") == ["c1"]
    assert rig.gone == []
    rig.clients.unregister_consumer("G", first, should_notify=True)
    assert rig.clients.consumer_group("G") is None
    assert rig.gone == ["G"]


def test_a_farewell_of_a_stranger_changes_nothing(rig: Rig) -> None:
    """Unknown connections and groups that they are not in."""
    peer = Peer()
    rig.consume("c1", peer)
    rig.clients.unregister_consumer("G", Peer(), should_notify=True)
    rig.clients.unregister_producer("P", Peer())
    rig.clients.unregister_consumer("H", peer, should_notify=True)
    rig.clients.unregister_producer("P", peer)
    assert rig.clients.client_ids("G") == ["c1"]


def test_a_lost_connection_takes_its_client_out_of_all_groups(rig: Rig) -> None:
    """At once, and the others share out anew."""
    first, second = Peer(), Peer()
    rig.consume("c1", first)
    rig.consume("c2", second)
    rig.consume("c2", second, Consumer("H"))
    rig.produce("c2", second)
    first.take_notices()
    second.lose()
    assert first.take_notices() == ["G"]
    assert rig.clients.client_ids("G") == ["c1"]
    assert rig.clients.consumer_group("H") is None
    assert rig.clients.producer("c2") is None
    assert rig.clients.producers("P") == []
    assert len(rig.clients) == 1
    second.lose()
    assert len(rig.clients) == 1


def test_a_connection_is_watched_once(rig: Rig) -> None:
    """However many heartbeats it brings, also after it has left all groups."""
    peer = Peer()
    for _ in range(3):
        rig.consume("c1", peer)
        rig.clients.unregister_consumer("G", peer, should_notify=True)
    assert len(peer.callbacks) == 1


def test_a_client_that_reconnected_keeps_its_producer(rig: Rig) -> None:
    """The end of the old connection does not take away the new one."""
    old, new = Peer(), Peer()
    rig.produce("p1", old)
    rig.produce("p1", new)
    old.lose()
    assert rig.clients.producer("p1") is new
    rig.clients.unregister_producer("P", new)
    assert rig.clients.producer("p1") is None


def test_silent_clients_are_let_go(rig: Rig) -> None:
    """After two minutes without a heartbeat their connection is closed and the others know."""
    silent, loud = Peer(), Peer()
    rig.consume("c1", silent)
    rig.produce("c1", silent)
    rig.consume("c2", loud)
    loud.take_notices()
    rig.now.now_s += 120
    rig.consume("c2", loud)
    rig.clients.expire()
    assert not silent.closed
    rig.now.now_s += 0.001
    rig.clients.expire()
    assert silent.close_reason == "no heartbeat for 120000 ms"
    assert rig.clients.client_ids("G") == ["c2"]
    assert rig.clients.producers("P") == []
    assert loud.take_notices() == ["G"]
    assert not loud.closed
    silent.lose()
    assert loud.take_notices() == []


def test_a_connection_that_lives_in_another_group_stays(rig: Rig) -> None:
    """A client may have left a group without a word, and still consume in others."""
    peer = Peer()
    rig.consume("c1", peer)
    rig.now.now_s += 100
    rig.consume("c1", peer, Consumer("H"))
    rig.now.now_s += 100
    rig.clients.expire()
    assert rig.clients.consumer_group("G") is None
    assert rig.clients.client_ids("H") == ["c1"]
    assert not peer.closed


# --- bounds ---------------------------------------------------------------------------------------


def refuse(rig: Rig, client_id: str, consumers: list[ConsumerData], *producers: str) -> str:
    with pytest.raises(RequestError) as caught:
        rig.clients.check_heartbeat(Peer(), client_id, consumers, producers)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    return caught.value.reason


def test_heartbeats_of_normal_size_pass(rig: Rig) -> None:
    """The check leaves nothing behind."""
    rig.clients.check_heartbeat(Peer(), "c1", [Consumer().data()], ["P"])
    assert len(rig.clients) == 0


def test_names_have_a_bound(rig: Rig) -> None:
    """Client ids, groups, topics, expressions and their types."""
    long = "x" * 256
    assert "client id 'xxx" in refuse(rig, long, [])
    assert "group 'xxx" in refuse(rig, "c1", [], long)
    assert "group 'xxx" in refuse(rig, "c1", [Consumer(long).data()])
    topic = Consumer(subscriptions=[subscription(long)]).data()
    assert "topic 'xxx" in refuse(rig, "c1", [topic])
    expression = Consumer(subscriptions=[subscription("T", "x" * 65_537)]).data()
    assert "expression 'xxx" in refuse(rig, "c1", [expression])
    kind = Consumer().data()
    kind.subscription_data_set[0].expression_type = long
    assert "expression type 'xxx" in refuse(rig, "c1", [kind])


def test_clients_have_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are known still may speak."""
    monkeypatch.setattr(clients_module, "CLIENTS_MAX", 1)
    peer = Peer()
    rig.consume("c1", peer)
    rig.clients.check_heartbeat(peer, "c1", [Consumer().data()], [])
    assert "1 clients are connected, at most 1" in refuse(rig, "c2", [Consumer().data()])


def test_groups_of_a_client_have_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those it is in already and those it asks for, together."""
    monkeypatch.setattr(clients_module, "GROUPS_PER_CLIENT_MAX", 2)
    peer = Peer()
    rig.consume("c1", peer)
    rig.clients.check_heartbeat(peer, "c1", [Consumer().data()], ["P"])
    rig.produce("c1", peer)
    with pytest.raises(RequestError, match="3 groups of one client, 2 at most"):
        rig.clients.check_heartbeat(peer, "c1", [Consumer("H").data()], [])


def test_subscriptions_of_a_group_have_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused."""
    monkeypatch.setattr(clients_module, "SUBSCRIPTIONS_PER_GROUP_MAX", 1)
    many = Consumer(subscriptions=[subscription("T"), subscription("U")]).data()
    assert "group G subscribes to 2 topics, at most 1" in refuse(rig, "c1", [many])
