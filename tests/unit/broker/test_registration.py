"""A broker without name servers runs; addresses are read once each."""

from pathlib import Path

import pytest

from roketto.broker.config import BrokerConfig
from roketto.broker.registration import Registration, split_addresses
from roketto.protocol.bodies.topics import TopicConfig
from unit.broker.topic_source import MemoryTopics


@pytest.mark.parametrize(
    ("text", "addresses"),
    [("", []), (" ; ", []), ("a:1", ["a:1"]), ("a:1; b:2;a:1;", ["a:1", "b:2"])],
)
def test_each_address_is_taken_once(text: str, addresses: list[str]) -> None:
    assert split_addresses(text) == addresses


async def test_a_broker_without_name_servers_says_so_and_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = BrokerConfig(namesrv_addr="", store_path_root_dir=tmp_path)
    registration = Registration(config, MemoryTopics(), "10.0.0.1:10911")
    await registration.start()
    registration.announce(TopicConfig(topic_name="T"))
    assert registration.standings == {}
    await registration.stop()
    assert "only clients that know 10.0.0.1:10911 find it" in caplog.text
