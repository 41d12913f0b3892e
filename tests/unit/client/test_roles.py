"""What there is of producers and consumers can be what its client takes it for."""

from roketto.client.lite_pull import LitePullConsumer
from roketto.client.producer import Producer
from roketto.client.pull import PullConsumer
from roketto.client.push import PushConsumer
from roketto.client.roles import ConsumerRole, ProducerRole
from roketto.client.transaction import TransactionProducer
from roketto.protocol.bodies.heartbeat import ConsumeType
from unit.client.core_rig import TOPIC, Rig
from unit.client.roles_rig import NotingConsumer, NotingProducer


async def test_every_producer_has_the_role_of_one() -> None:
    """The types are checked by mypy; here they are made, with the group as brokers know it."""
    client = Rig(lambda address, command: command.answer(), "ns").client
    producers: list[ProducerRole] = [
        Producer("one", client=client),
        TransactionProducer("two", client=client),
        NotingProducer("ns%three"),
    ]
    assert [producer.group for producer in producers] == ["ns%one", "ns%two", "ns%three"]


async def test_every_consumer_has_the_role_of_one() -> None:
    client = Rig(lambda address, command: command.answer(), "ns").client
    consumers: list[ConsumerRole] = [
        PushConsumer("one", client=client, topics={TOPIC: "*"}),
        LitePullConsumer("two", client=client),
        PullConsumer("three", client=client),
        NotingConsumer("ns%four"),
    ]
    described = [consumer.describe() for consumer in consumers]
    assert [data.group_name for data in described] == ["ns%one", "ns%two", "ns%three", "ns%four"]
    assert described[0].consume_type is ConsumeType.CONSUME_PASSIVELY
    assert described[1].consume_type is ConsumeType.CONSUME_ACTIVELY
    assert {data.topic for data in described[0].subscription_data_set} >= {f"ns%{TOPIC}"}
