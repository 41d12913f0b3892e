"""Topics with attributes, made over the wire: quicker than by mqadmin, and with any attribute."""

import asyncio

from fault.broker.wire import ask, connected
from interop.broker.cluster import Cluster
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.topics import CreateTopicRequest


def set_attributes(cluster: Cluster, topic: str, queues: int, attributes: str) -> Command:
    """What the broker says to somebody who gives a topic these attributes."""
    header = CreateTopicRequest(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
        perm=6, topic_filter_type="SINGLE_TAG", attributes=attributes,
    )  # fmt: skip
    request = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, encode_header(header))

    async def make() -> Command:
        async with connected(cluster.main.address) as connection:
            return await ask(connection, request)

    return asyncio.run(make())
