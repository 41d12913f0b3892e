"""What every send needs is at hand: the broker's own properties and ids."""

from datetime import UTC
from pathlib import Path

from roketto.broker.config import BrokerConfig
from roketto.broker.sending import Sending
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import decode_properties

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


def test_unique_ids_are_unique_and_name_the_broker(tmp_path: Path) -> None:
    """For messages whose producers gave none."""
    sending, _ = make(tmp_path)
    ids = {sending.next_unique_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(len(text) == 32 and text.startswith("0A000001") for text in ids)
