"""Whether a topic leaves out messages that it has: what an idempotent sink relies on."""

from typing import Final

from roketto.client.calls import read_body
from roketto.client.client import Client
from roketto.protocol.bodies.topics import TopicConfigAndQueueMapping
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.topics import GetTopicConfigRequest
from roketto.spark.sink_options import SinkError

__all__ = ["check_deduplicates"]

_WINDOW: Final = "dedup.window.seconds"
_BY: Final = "dedup.by"


async def check_deduplicates(client: Client, topic: str) -> None:
    """SinkError unless all brokers of a topic leave out what they have stored a moment ago."""
    name = client.wrap(topic)
    route = await client.routes.get(name)
    brokers = sorted({queue.broker_name for queue in route.publish_queues})
    if len(brokers) > 1:
        # Each broker knows what it has stored itself; a repeated row may come to another one.
        raise SinkError(
            f"delivery=idempotent needs a topic on one broker, and {topic} is on"
            f" {', '.join(brokers)}: give it to one of them, or use delivery=transactional"
        )
    for broker_name in brokers:
        address = await client.routes.master_of(broker_name, name)
        answer = await client.calls.ask(
            address, RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequest(topic=name)
        )
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise _missing(topic, name, broker_name, address)
        found = read_body(TopicConfigAndQueueMapping, address, answer).attributes
        window = found.get(_WINDOW, "0")
        if not window.isdecimal() or not int(window):
            raise _missing(topic, name, broker_name, address)
        if found.get(_BY, "UNIQ_KEY") != "UNIQ_KEY":
            raise SinkError(
                f"delivery=idempotent tells messages apart by their ids, and topic {topic} on"
                f" {broker_name} by {found[_BY]}: mqadmin updateTopic -b {address} -t {name} -a"
                f" -{_BY}"
            )


def _missing(topic: str, name: str, broker_name: str, address: str) -> SinkError:
    return SinkError(
        f"delivery=idempotent needs a topic that leaves out what it has stored before, and {topic}"
        f" on {broker_name} does not: mqadmin updateTopic -b {address} -t {name} -a"
        f" +{_WINDOW}=600 (brokers of Roketto only), or use delivery=transactional"
    )
