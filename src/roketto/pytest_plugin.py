"""Fixtures for pytest: a broker for all tests of a session, or one for each that wants its own.

def test_an_order_is_announced(rocketmq):
    rocketmq.create_topic("Orders")
    Shop(name_servers=rocketmq.name_server).sell("tea")
    assert [message.body for message in rocketmq.messages("Orders")] == [b"tea"]

pytest finds this module by itself where Roketto is installed, and imports it in every run: what
takes time is imported when a test wants a broker.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from roketto.testing import Broker, ConfigValue

__all__ = ["rocketmq", "rocketmq_broker", "rocketmq_config"]


@pytest.fixture(scope="session")
def rocketmq_config() -> "Mapping[str, ConfigValue]":
    """Keys of a broker's file for both fixtures; override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def rocketmq(rocketmq_config: "Mapping[str, ConfigValue]") -> "Iterator[Broker]":
    """A broker that all tests share; use topics and groups of your own in each."""
    from roketto.testing import Broker

    with Broker(rocketmq_config) as broker:
        yield broker


@pytest.fixture
def rocketmq_broker(rocketmq_config: "Mapping[str, ConfigValue]") -> "Iterator[Broker]":
    """A broker of one test, which may stop it and start it again."""
    from roketto.testing import Broker

    with Broker(rocketmq_config) as broker:
        yield broker
