"""The route table registers, expires and answers as RocketMQ's, one claim for each rule of it."""

import pytest

from roketto.namesrv import routes as routes_module
from roketto.protocol.bodies.route import QueueData
from roketto.protocol.bodies.topics import DataVersion, TopicQueueMappingInfo
from roketto.protocol.errors import RequestError
from unit.namesrv.brokers import Broker, answer, queue, register, route, table

MASTER = Broker()
SLAVE = Broker(address="10.0.0.2:10911", broker_id=1)
ACTING_MASTER = Broker(acting_master=True)
ACTING_SLAVE = Broker(address="10.0.0.2:10911", broker_id=1, acting_master=True)
ACTING_SLAVE_2 = Broker(address="10.0.0.3:10911", broker_id=2, acting_master=True)
STATIC = {"T1": TopicQueueMappingInfo(bname="a", topic="T1", total_queues=4)}


# --- registration ---------------------------------------------------------------------------------


def test_registration_makes_cluster_broker_and_topics_known() -> None:
    routes = table()
    register(routes, MASTER.said())
    assert routes.cluster_info().cluster_addr_table == {"C": ["a"]}
    (broker,) = route(routes, "T1").broker_datas
    assert (broker.broker_name, broker.cluster) == ("a", "C")
    assert broker.broker_addrs == {0: MASTER.address}
    assert queue(routes, "T1") == QueueData("a", 6, 4, 0, 4)


def test_first_registration_with_one_topic_is_refused_and_leaves_no_trace() -> None:
    routes = table()
    with pytest.raises(RequestError, match="register broker failed") as caught:
        routes.register(MASTER.said(("T1",)))
    assert caught.value.code == 1
    assert routes.cluster_info().broker_addr_table == {}
    assert routes.cluster_info().cluster_addr_table == {}
    assert routes.pick_route("T1") is None
    assert routes.data_version("C", MASTER.address) is None


def test_registered_broker_may_send_one_topic() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(("T3",), counter=2))
    assert queue(routes, "T3").perm == 6
    assert queue(routes, "T1").perm == 6


def test_registration_without_topics_is_taken() -> None:
    routes = table()
    register(routes, MASTER.said(()))
    assert routes.members("a") == {0: MASTER.address}


def test_unknown_acting_master_field_reads_as_false() -> None:
    routes = table()
    register(routes, ACTING_MASTER.said(), MASTER.said())
    assert route(routes, "T1").broker_datas[0].enable_acting_master is False


def test_zone_of_the_last_registration_counts() -> None:
    routes = table()
    register(routes, MASTER.said(), Broker(zone="z").said())
    assert route(routes, "T1").broker_datas[0].zone_name == "z"


def test_slave_that_becomes_master_leaves_its_old_id() -> None:
    routes = table()
    promoted = Broker(address=SLAVE.address, broker_id=0)
    register(routes, MASTER.said(), SLAVE.said(), promoted.said())
    assert routes.members("a") == {0: SLAVE.address}


def test_id_held_by_a_live_address_with_a_larger_state_is_kept() -> None:
    routes = table()
    usurper = Broker(address="10.0.0.9:10911")
    register(routes, MASTER.said(state=2))
    said = answer(routes, usurper.said(state=1))
    assert (said.ha_server_addr, said.master_addr) == (None, None)
    assert routes.members("a") == {0: MASTER.address}
    assert routes.data_version("C", usurper.address) is None


def test_outdated_slave_that_calls_itself_master_is_forgotten() -> None:
    routes = table()
    register(routes, MASTER.said(state=2), SLAVE.said(state=2))
    register(routes, Broker(address=SLAVE.address, broker_id=0).said(state=1))
    assert routes.members("a") == {0: MASTER.address}
    assert routes.data_version("C", SLAVE.address) is None


def test_id_goes_to_an_address_with_an_equal_or_larger_state() -> None:
    routes = table()
    register(routes, MASTER.said(state=2), Broker(address="10.0.0.9:10911").said(state=2))
    assert routes.members("a") == {0: "10.0.0.9:10911"}


def test_topics_of_an_old_slave_are_ignored() -> None:
    routes = table()
    register(routes, MASTER.said(), SLAVE.said(("T8", "T9"), counter=7))
    assert routes.pick_route("T9") is None


def test_topics_of_a_new_slave_beside_a_master_are_ignored() -> None:
    routes = table()
    register(routes, ACTING_MASTER.said(), ACTING_SLAVE.said(("T8", "T9")))
    assert routes.pick_route("T9") is None


def test_topics_of_the_smallest_new_slave_are_taken_without_write_permission() -> None:
    routes = table()
    register(routes, ACTING_SLAVE.said())
    assert queue(routes, "T1").perm == 4


def test_smallest_new_slave_without_acting_master_keeps_write_permission() -> None:
    routes = table()
    register(routes, Broker(broker_id=1, acting_master=False).said())
    assert queue(routes, "T1").perm == 6


def test_unchanged_data_version_leaves_known_topics_alone() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(perm=4))
    assert queue(routes, "T1").perm == 6


def test_unchanged_data_version_adds_missing_topics() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(("T1", "T3"), perm=4))
    assert queue(routes, "T3").perm == 4


def test_changed_data_version_rewrites_topics() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(perm=4, counter=2))
    assert queue(routes, "T1").perm == 4


def test_topic_without_a_name_of_its_own_has_that_of_its_key() -> None:
    routes = table()
    said = MASTER.said()
    said.body.topic_config_serialize_wrapper.topic_config_table["T1"].topic_name = ""
    register(routes, said)
    assert queue(routes, "T1").perm == 6


@pytest.mark.parametrize("deletes", [False, True])
def test_missing_topics_are_deleted_only_where_configured(deletes: bool) -> None:
    routes = table(delete_topic_with_broker_registration=deletes)
    register(routes, MASTER.said(), MASTER.said(("T2", "T3"), counter=2))
    assert (routes.pick_route("T1") is None) is deletes
    assert routes.pick_route("T2") is not None


def test_static_topics_protect_missing_ones_from_deletion() -> None:
    routes = table(delete_topic_with_broker_registration=True)
    register(routes, MASTER.said(), MASTER.said(("T2", "T3"), counter=2, mappings=STATIC))
    assert routes.pick_route("T1") is not None


def test_queue_mappings_are_shown_in_the_route() -> None:
    routes = table()
    register(routes, MASTER.said(mappings=STATIC))
    assert route(routes, "T1").topic_queue_mapping_by_broker == {"a": STATIC["T1"]}
    assert route(routes, "T2").topic_queue_mapping_by_broker is None


def test_queue_mappings_wait_for_a_new_data_version() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(mappings=STATIC))
    assert route(routes, "T1").topic_queue_mapping_by_broker is None


def test_filter_servers_appear_and_go() -> None:
    routes = table()
    register(routes, MASTER.said(filters=("f1", "f2")))
    assert route(routes, "T1").filter_server_table == {MASTER.address: ["f1", "f2"]}
    register(routes, MASTER.said())
    assert route(routes, "T1").filter_server_table == {}


def test_slave_is_told_where_its_live_master_is() -> None:
    routes = table()
    register(routes, MASTER.said())
    said = answer(routes, SLAVE.said())
    assert said.master_addr == MASTER.address
    assert said.ha_server_addr == f"ha of {MASTER.address}"


def test_slave_without_a_master_is_told_nothing() -> None:
    assert answer(table(), SLAVE.said()).master_addr is None


def test_master_is_told_nothing() -> None:
    assert answer(table(), MASTER.said()).master_addr is None


def test_new_smallest_id_is_told_to_the_other_members() -> None:
    routes = table(notify_min_broker_id_changed=True)
    register(routes, ACTING_SLAVE.said(), ACTING_SLAVE_2.said())
    (notice,) = register(routes, ACTING_MASTER.said())
    assert notice.addresses == [ACTING_SLAVE.address, ACTING_SLAVE_2.address]
    assert notice.header.min_broker_id == 0
    assert notice.header.min_broker_addr == MASTER.address
    assert notice.header.ha_broker_addr == f"ha of {MASTER.address}"
    assert notice.header.offline_broker_addr is None


def test_promoted_only_member_is_told_of_itself() -> None:
    routes = table(notify_min_broker_id_changed=True)
    register(routes, ACTING_SLAVE.said())
    (notice,) = register(routes, Broker(address=ACTING_SLAVE.address, acting_master=True).said())
    assert notice.addresses == [ACTING_SLAVE.address]


def test_notices_are_off_by_default_and_absent_without_a_change() -> None:
    assert register(table(), ACTING_SLAVE.said(), ACTING_MASTER.said()) == []
    loud = table(notify_min_broker_id_changed=True)
    assert register(loud, ACTING_MASTER.said(), ACTING_SLAVE.said()) == []


def test_too_many_brokers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "BROKERS_MAX", 1)
    routes = table()
    register(routes, MASTER.said(), MASTER.said())
    for one_more in (SLAVE, Broker("other name, same address")):
        with pytest.raises(RequestError, match="1 brokers are registered, the bound"):
            routes.register(one_more.said())


def test_too_many_topics_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "ROUTE_ENTRIES_MAX", 3)
    routes = table()
    register(routes, MASTER.said())
    with pytest.raises(RequestError, match="2 more topics would exceed the bound of 3"):
        routes.register(MASTER.said(("T3", "T4"), counter=2))
    routes.register_topic("N", [QueueData("a", 6, 1, 0, 1)])
    with pytest.raises(RequestError, match="1 more topics would exceed"):
        routes.register_topic("M", [QueueData("a", 6, 1, 0, 1)])


def test_full_table_still_takes_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "ROUTE_ENTRIES_MAX", 3)
    routes = table()
    register(routes, MASTER.said(mappings=STATIC))
    register(routes, MASTER.said(counter=2, perm=4, mappings=STATIC))
    assert queue(routes, "T1").perm == 4


# --- liveness -------------------------------------------------------------------------------------


def test_silent_broker_goes_after_two_minutes() -> None:
    routes = table()
    register(routes, MASTER.said(now_ms=1_000))
    assert routes.expire(121_000) == ([], [])
    assert routes.expire(121_001) == ([MASTER.connection], [])
    assert routes.pick_route("T1") is None
    assert routes.cluster_info().cluster_addr_table == {}
    assert routes.expire(999_999) == ([], [])


def test_broker_may_ask_for_a_shorter_timeout() -> None:
    routes = table()
    register(routes, Broker(timeout_ms=10_000).said())
    assert routes.expire(10_000) == ([], [])
    assert routes.expire(10_001)[0] != []


def test_heartbeat_keeps_a_broker() -> None:
    routes = table()
    register(routes, MASTER.said())
    routes.heartbeat("C", MASTER.address, 60_000)
    assert routes.expire(150_000) == ([], [])


def test_heartbeat_of_an_unknown_address_changes_nothing() -> None:
    routes = table()
    routes.heartbeat("C", "10.9.9.9:1", 60_000)
    assert routes.data_version("C", "10.9.9.9:1") is None


def test_data_version_is_that_of_the_last_registration() -> None:
    routes = table()
    register(routes, MASTER.said(), MASTER.said(counter=5))
    assert routes.data_version("C", MASTER.address) == DataVersion(5, 0, 1)
    assert routes.data_version("other", MASTER.address) is None


def test_closed_connection_takes_all_its_brokers() -> None:
    routes = table()
    shared = object()
    other = Broker("b", "10.0.0.5:10911")
    register(
        routes,
        Broker("a", "10.0.0.1:10911", connection=shared).said(),
        Broker("c", "10.0.0.3:10911", connection=shared).said(),
        other.said(),
    )
    routes.connection_closed(shared)
    assert set(routes.cluster_info().broker_addr_table) == {"b"}


def test_connection_that_was_replaced_takes_nothing() -> None:
    routes = table()
    old, new = Broker(), Broker()
    register(routes, old.said(), new.said())
    assert routes.connection_closed(old.connection) == []
    assert routes.members("a") == {0: MASTER.address}


def test_address_whose_id_was_taken_over_leaves_quietly() -> None:
    routes = table()
    register(routes, MASTER.said(), Broker(address="10.0.0.9:10911").said())
    routes.connection_closed(MASTER.connection)
    assert routes.members("a") == {0: "10.0.0.9:10911"}
    assert routes.data_version("C", MASTER.address) is None


def test_address_under_two_names_loses_both_with_its_connection() -> None:
    routes = table()
    connection = object()
    names = [Broker(name, connection=connection).said() for name in ("a", "b")]
    register(routes, *names)
    assert set(routes.cluster_info().broker_addr_table) == {"a", "b"}
    routes.connection_closed(connection)
    assert routes.cluster_info().broker_addr_table == {}


def test_unregistered_broker_is_gone_with_its_topics() -> None:
    routes = table()
    other = Broker("b", "10.0.0.5:10911")
    register(routes, MASTER.said(filters=("f",)), other.said(("T2", "T3")))
    assert routes.unregister("C", MASTER.address, "a", 0) == []
    assert routes.pick_route("T1") is None
    assert [b.broker_name for b in route(routes, "T2").broker_datas] == ["b"]
    assert routes.cluster_info().cluster_addr_table == {"C": ["b"]}
    assert routes.data_version("C", MASTER.address) is None


def test_unregistering_the_unknown_changes_nothing() -> None:
    routes = table()
    register(routes, MASTER.said())
    assert routes.unregister("C", MASTER.address, "nobody", 0) == []
    assert routes.unregister("C", "10.9.9.9:1", "a", 1) == []
    assert routes.members("a") == {0: MASTER.address}


def test_lost_master_of_old_style_leaves_topics_writable() -> None:
    routes = table()
    register(routes, MASTER.said(), SLAVE.said())
    routes.unregister("C", MASTER.address, "a", 0)
    assert queue(routes, "T1").perm == 6
    assert routes.members("a") == {1: SLAVE.address}


def test_lost_master_with_acting_master_takes_the_write_permission() -> None:
    routes = table()
    register(routes, ACTING_MASTER.said(), ACTING_SLAVE.said())
    routes.unregister("C", MASTER.address, "a", 0)
    assert queue(routes, "T1").perm == 4


def test_lost_slave_leaves_the_write_permission() -> None:
    routes = table()
    register(routes, ACTING_MASTER.said(), ACTING_SLAVE.said())
    routes.unregister("C", ACTING_SLAVE.address, "a", 1)
    assert queue(routes, "T1").perm == 6


def test_lost_smallest_id_is_told_to_all_that_are_left() -> None:
    routes = table(notify_min_broker_id_changed=True)
    register(routes, ACTING_MASTER.said(), ACTING_SLAVE.said(), ACTING_SLAVE_2.said())
    (notice,) = routes.connection_closed(ACTING_MASTER.connection)
    assert notice.addresses == [ACTING_SLAVE.address, ACTING_SLAVE_2.address]
    assert notice.header.min_broker_id == 1
    assert notice.header.min_broker_addr == ACTING_SLAVE.address
    assert notice.header.offline_broker_addr == MASTER.address


def test_lost_larger_id_is_told_to_nobody() -> None:
    routes = table(notify_min_broker_id_changed=True)
    register(routes, ACTING_MASTER.said(), ACTING_SLAVE.said())
    assert routes.unregister("C", ACTING_SLAVE.address, "a", 1) == []


def test_last_sign_of_a_static_topic_goes_with_its_last_broker() -> None:
    routes = table()
    register(routes, MASTER.said(mappings=STATIC))
    routes.unregister("C", MASTER.address, "a", 0)
    register(routes, Broker("b", "10.0.0.5:10911").said())
    assert route(routes, "T1").topic_queue_mapping_by_broker is None


# --- answers --------------------------------------------------------------------------------------


def test_route_shows_every_broker_of_the_topic() -> None:
    routes = table()
    register(routes, MASTER.said(), Broker("b", "10.0.0.5:10911").said(("T2", "T3")))
    assert [b.broker_name for b in route(routes, "T2").broker_datas] == ["a", "b"]
    assert [q.broker_name for q in route(routes, "T2").queue_datas] == ["a", "b"]


def test_addresses_are_sorted_by_id() -> None:
    routes = table()
    register(routes, ACTING_SLAVE_2.said(), ACTING_SLAVE.said(), ACTING_MASTER.said())
    assert list(routes.members("a")) == [0, 1, 2]


def masterless(**options: bool) -> routes_module.RouteTable:
    """A group whose master is gone, with a name server that supports acting masters."""
    routes = table(support_acting_master=True, **options)
    register(routes, ACTING_MASTER.said(("T1", "rmq_sys_SYNC_BROKER_MEMBER_a")))
    register(routes, ACTING_SLAVE.said(), ACTING_SLAVE_2.said())
    routes.unregister("C", MASTER.address, "a", 0)
    return routes


def test_smallest_slave_is_shown_as_master_where_supported() -> None:
    shown = route(masterless(), "T1").broker_datas[0].broker_addrs
    assert shown == {0: ACTING_SLAVE.address, 2: ACTING_SLAVE_2.address}


def test_showing_an_acting_master_changes_nothing_in_the_table() -> None:
    routes = masterless()
    route(routes, "T1")
    assert routes.members("a") == {1: ACTING_SLAVE.address, 2: ACTING_SLAVE_2.address}


def test_acting_master_is_not_shown_to_the_brokers_themselves() -> None:
    shown = route(masterless(), "rmq_sys_SYNC_BROKER_MEMBER_a").broker_datas[0].broker_addrs
    assert list(shown) == [1, 2]


def test_acting_master_is_not_shown_while_the_topic_is_writable() -> None:
    routes = masterless()
    routes.topics.allow_write("a")
    assert list(route(routes, "T1").broker_datas[0].broker_addrs) == [1, 2]


def test_acting_master_is_not_shown_for_old_style_brokers() -> None:
    routes = table(support_acting_master=True)
    register(routes, MASTER.said(perm=4), SLAVE.said())
    routes.unregister("C", MASTER.address, "a", 0)
    assert list(route(routes, "T1").broker_datas[0].broker_addrs) == [1]


def test_acting_master_is_not_shown_where_not_supported() -> None:
    routes = table()
    register(routes, ACTING_SLAVE.said())
    assert list(route(routes, "T1").broker_datas[0].broker_addrs) == [1]


def test_topic_whose_brokers_are_unknown_has_no_route() -> None:
    assert table().pick_route("T1") is None


def test_topics_of_a_cluster() -> None:
    routes = table()
    register(routes, MASTER.said(), Broker("b", "10.0.0.5:10911", cluster="D").said(("T2", "T3")))
    assert routes.topics_of_cluster("D") == ["T2", "T3"]
    assert routes.topics_of_cluster("unknown") == []


def test_system_topics_are_cluster_and_broker_names_with_an_address() -> None:
    routes = table()
    assert routes.system_topics().broker_addr is None
    register(routes, MASTER.said(), Broker("C", "10.0.0.5:10911").said())
    shown = routes.system_topics()
    assert shown.topic_list == ["C", "a"]
    assert shown.broker_addr == MASTER.address


def test_broker_that_changed_its_cluster_leaves_none_behind() -> None:
    routes = table()
    moved = Broker(cluster="D")
    register(routes, MASTER.said(), moved.said())
    assert routes.cluster_info().cluster_addr_table == {"C": ["a"], "D": ["a"]}
    routes.unregister("D", moved.address, "a", 0)
    assert routes.cluster_info().cluster_addr_table == {}


# --- changes by administrators --------------------------------------------------------------------


def test_topic_is_added_to_known_brokers() -> None:
    routes = table()
    register(routes, MASTER.said())
    routes.register_topic("N", [QueueData("a", 6, 1, 0, 1)])
    assert queue(routes, "N").read_queue_nums == 1


def test_topic_of_an_unknown_broker_is_dropped_in_silence() -> None:
    routes = table()
    register(routes, MASTER.said())
    routes.register_topic("N", [QueueData("zz", 6, 1, 0, 1), QueueData("a", 6, 1, 0, 1)])
    assert routes.pick_route("N") is None


def test_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    routes = table()
    register(routes, MASTER.said(), Broker("b", "10.0.0.5:10911", cluster="D").said())
    routes.delete_topic("T1", "D")
    assert [q.broker_name for q in route(routes, "T1").queue_datas] == ["a"]
    routes.delete_topic("T1", "unknown")
    routes.delete_topic("T1", "")
    assert routes.pick_route("T1") is None
