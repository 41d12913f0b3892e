"""A client knows its address where it has one, and no two have the same id or message ids."""

import os
import socket
from ipaddress import ip_address

import pytest

from roketto.client import identity
from roketto.client.identity import client_id, local_ip, make_unique_ids, own_instance_name
from roketto.clock import wall_ms
from roketto.protocol.ids import decode_unique_id


def test_the_address_is_one_of_this_machine() -> None:
    found = ip_address(local_ip())
    with socket.socket(socket.AF_INET if found.version == 4 else socket.AF_INET6) as probe:
        probe.bind((str(found), 0))


def test_a_machine_without_a_way_to_others_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPv6 alone that one is found; with neither there is still an id."""
    unknown_family = (99, ("192.0.2.1", 9))
    loopback = (socket.AF_INET6, ("::1", 9))
    monkeypatch.setattr(identity, "_ANYWHERE", (unknown_family, loopback))
    assert local_ip() == "::1"
    monkeypatch.setattr(identity, "_ANYWHERE", (unknown_family,))
    assert local_ip() == "127.0.0.1"


def test_ids_are_written_as_java_writes_them() -> None:
    assert client_id("10.0.0.1", "DEFAULT") == "10.0.0.1@DEFAULT"
    assert client_id("10.0.0.1", "i", "unit") == "10.0.0.1@i@unit"
    first, second = own_instance_name(), own_instance_name()
    assert first != second
    assert first.split("#")[0] == str(os.getpid())


@pytest.mark.parametrize("ip", ["10.1.2.3", "2001:db8::7", "a-name"])
def test_message_ids_have_the_address_and_differ_between_clients(ip: str) -> None:
    first, second = make_unique_ids(ip), make_unique_ids(ip)
    made = [ids.next_id(wall_ms()) for ids in (first, first, second)]
    assert len(set(made)) == 3
    parts = [decode_unique_id(one) for one in made]
    assert {part.pid for part in parts} == {os.getpid() & 0xFFFF}
    if ip != "a-name":
        assert {part.ip for part in parts} == {ip_address(ip).packed}
    assert parts[0].process_hash == parts[1].process_hash
    assert parts[0].process_hash != parts[2].process_hash
