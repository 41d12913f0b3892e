"""Without an address to advertise, a broker takes the one that Java would."""

import ipaddress

from roketto.broker.local_address import local_address, pick_address


def test_address_outside_home_networks_comes_first() -> None:
    assert pick_address(["192.168.1.5", "10.0.0.7", "172.17.0.1"]) == "10.0.0.7"


def test_last_address_of_a_home_network_is_better_than_none() -> None:
    assert pick_address(["192.168.1.5", "192.168.2.5"]) == "192.168.2.5"


def test_machine_without_a_network_is_reached_by_loopback() -> None:
    assert pick_address([]) == "127.0.0.1"


def test_address_of_this_machine_is_an_address() -> None:
    assert ipaddress.ip_address(local_address()).version == 4
