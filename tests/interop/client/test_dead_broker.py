"""A broker that a name server still knows and nobody reaches: our clients go on without it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from integration.admin.admin_rig import until_routed
from interop.client.members import Listener, consumer
from interop.client.sites import Site, queue_of
from interop.peer.ports import lease_ports
from roketto.admin.api import Admin
from roketto.broker.config import BrokerConfig
from roketto.broker.registration import Registration
from roketto.client.errors import SendFailedError, UnreachableError
from roketto.client.hooks import SendContext
from roketto.client.message import Message, MessageQueue
from roketto.client.producer import Producer
from roketto.client.pull import PullConsumer
from roketto.client.send_settings import SendSettings
from roketto.protocol.bodies.topics import TopicConfig
from unit.broker.topic_source import MemoryTopics

TOPIC: Final = "PyTwoBrokers"
DEAD: Final = "broker-x"


@pytest.fixture
async def topic(site: Site, tmp_path: Path) -> AsyncIterator[str]:
    """A topic of two queues, and two more on a broker that does not run."""
    await site.topic(TOPIC, 2)
    lease = lease_ports()
    config = BrokerConfig(
        broker_name=DEAD, broker_cluster_name="Elsewhere", namesrv_addr=site.names,
        store_path_root_dir=tmp_path,
    )  # fmt: skip
    topics = MemoryTopics()
    topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    registration = Registration(config, topics, f"127.0.0.1:{lease.first}")
    await registration.start()
    try:
        yield TOPIC
    finally:
        await registration.stop()
        lease.release()
        async with Admin(site.names) as admin:  # a name server of 5.5.0 takes its time to forget it
            await until_routed(admin, TOPIC, brokers=1)


class Failures:
    """A hook that counts what could not be sent at once."""

    def __init__(self) -> None:
        self.brokers: list[str] = []

    def before(self, context: SendContext) -> None:
        """Nothing has failed yet."""

    def after(self, context: SendContext) -> None:
        if context.error is not None:
            self.brokers.append(context.queue.broker_name)


@pytest.mark.parametrize("avoids", [False, True], ids=["retries", "avoids"])
async def test_sends_go_to_another_broker(site: Site, topic: str, avoids: bool) -> None:
    """All arrive; who avoids brokers that fail tries the dead one once, the others again."""
    failures = Failures()
    sending = SendSettings(avoids_slow_brokers=avoids)
    async with Producer("pyTwoBrokers", site.names, sending=sending) as producer:
        producer.hooks.add(failures)
        sent = [await producer.send(Message(topic, f"{n}".encode())) for n in range(8)]
        with pytest.raises(SendFailedError) as failed:
            await producer.send(Message(topic, b"lost"), queue=MessageQueue(DEAD, 0, topic))
    assert {one.queue.broker_name for one in sent} == {"broker-a"}
    assert set(failures.brokers) == {DEAD}
    assert len(failures.brokers) <= 2 if avoids else len(failures.brokers) > 3
    (error,) = failed.value.attempts
    assert isinstance(error, UnreachableError)
    assert not failed.value.may_be_stored
    async with PullConsumer("pyTwoBrokers", site.names) as puller:
        for one in sent:
            (stored,) = (await puller.pull(one.queue, one.queue_offset, 1, block=True)).messages
            assert stored.message_id == one.message_id


async def test_a_consumer_gets_what_the_living_broker_has(site: Site, topic: str) -> None:
    """It shares queues, pulls, commits and takes leave, whatever the dead one does not answer."""
    listener = Listener("ours")
    async with (
        Producer("pyOneOfTwo", site.names) as producer,
        consumer(site, "pyOneOfTwo", listener, [topic]),
    ):
        bodies = [f"for one {n}" for n in range(4)]
        for n, body in enumerate(bodies):
            await producer.send(Message(topic, body.encode()), queue=queue_of(topic, n % 2))
        await listener.until(lambda: set(bodies) <= set(listener.bodies), "all of the living one")
