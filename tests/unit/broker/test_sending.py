"""What every send needs is at hand, and is forgotten with the connection it belongs to."""

from datetime import UTC
from pathlib import Path

from roketto.broker.config import BrokerConfig
from roketto.broker.sending import Sending
from roketto.protocol.hosts import NO_HOST, encode_host
from roketto.protocol.properties import decode_properties
from unit.broker.fake_connection import FakeConnection

HOST = encode_host("10.0.0.1", 10911)


def make(root: Path) -> tuple[Sending, BrokerConfig]:
    config = BrokerConfig(store_path_root_dir=root, broker_ip1="10.0.0.1")
    return Sending(config, HOST, lambda: 1_700_000_000_000, UTC), config


def test_the_brokers_own_properties_follow_its_configuration(tmp_path: Path) -> None:
    """What may change at run time is taken over by configuring again."""
    sending, config = make(tmp_path)
    assert decode_properties(sending.own_properties) == {
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    config.trace_on = False
    sending.configure(config)
    assert decode_properties(sending.own_properties)["TRACE_ON"] == sending.trace == "false"
    assert sending.id_prefix == "0A00000100002A9F"


def test_a_born_host_is_kept_as_long_as_its_connection(tmp_path: Path) -> None:
    """Computed once; nothing is left when the peer goes."""
    sending, _ = make(tmp_path)
    peer = FakeConnection("10.0.0.2:40000")
    host = sending.born_host(peer.as_connection)
    assert host == encode_host("10.0.0.2", 40000)
    assert sending.born_host(peer.as_connection) is host
    assert len(peer.close_callbacks) == 1
    peer.end()
    assert sending.born_hosts == {}


def test_peers_of_every_kind_have_a_host(tmp_path: Path) -> None:
    """IPv6 in brackets, IPv4 seen through IPv6, and none at all."""
    sending, _ = make(tmp_path)
    for text, host in (
        ("[2001:db8::1]:7", encode_host("2001:db8::1", 7)),
        ("[::ffff:10.0.0.3]:8", encode_host("10.0.0.3", 8)),
        ("unknown", NO_HOST),
    ):
        assert sending.born_host(FakeConnection(text).as_connection) == host


def test_unique_ids_are_unique_and_name_the_broker(tmp_path: Path) -> None:
    """For messages whose producers gave none."""
    sending, _ = make(tmp_path)
    ids = {sending.next_unique_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(len(text) == 32 and text.startswith("0A000001") for text in ids)
