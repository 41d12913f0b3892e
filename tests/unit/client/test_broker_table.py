"""A broker is where the newest route says, and nowhere when no route names it."""

from roketto.client.broker_table import BrokerTable
from roketto.client.routes import make_route
from unit.client.core_rig import MASTER, SLAVE, route_data


def test_the_newest_route_says_where_a_broker_is() -> None:
    """Not the one that happens to be looked at last, which may be that of a deleted topic."""
    table = BrokerTable()
    table.note(make_route("New", route_data({"broker-a": {0: MASTER, 1: SLAVE}}), "n1"))
    table.note(make_route("Old", route_data({"broker-a": {0: "10.0.0.9:1"}, "b": {}}), "n2"))
    assert table.addresses_of("broker-a") == {0: "10.0.0.9:1"}
    assert table.all() == {"broker-a": {0: "10.0.0.9:1"}, "b": {}}
    assert table.name_at("10.0.0.9:1") == "broker-a"
    assert table.name_at(SLAVE) is None
    table.keep({"b"})
    assert table.addresses_of("broker-a") == {}


def test_what_is_said_of_an_address_names_its_advertiser() -> None:
    table = BrokerTable()
    table.note(make_route("T", route_data({"broker-a": {0: MASTER}}), "10.0.0.7:9876"))
    assert table.describe(MASTER) == (
        "broker broker-a at 10.0.0.1:10911 (as name server 10.0.0.7:9876 says)"
    )
    assert table.describe("h:1") == "h:1"


def test_nobody_changes_the_table_from_outside() -> None:
    table = BrokerTable()
    table.note(make_route("T", route_data({"broker-a": {0: MASTER}}), "n"))
    table.addresses_of("broker-a").clear()
    table.all()["broker-a"].clear()
    assert table.addresses_of("broker-a") == {0: MASTER}
