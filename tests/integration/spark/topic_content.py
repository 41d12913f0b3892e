"""All messages of a topic, read by our client."""

from roketto.client.client import Client
from roketto.client.errors import ClientError
from roketto.client.positions import Positions
from roketto.client.pulling import PullRequest, pull
from roketto.client.received import ReceivedMessage
from roketto.client.settings import ClientSettings
from roketto.client.subscription import make_subscription
from roketto.remoting.loop import run


def read_topic(names: str, topic: str) -> list[ReceivedMessage]:
    """Queue by queue, each in its order."""
    return run(_read(names, topic))


async def _read(names: str, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with Client(ClientSettings(name_servers=names)) as client:
        route = await client.routes.get(topic)
        positions = Positions(client)
        for queue in sorted(route.subscribe_queues):
            offset, end = await positions.min_offset(queue), await positions.max_offset(queue)
            while offset < end:
                pulled = await pull(
                    client,
                    PullRequest(
                        queue, "spark-test-reader", make_subscription(topic), offset,
                        bytes_max=4 * 1024 * 1024, sends_expression=True,
                    ),
                )  # fmt: skip
                if pulled.next_offset <= offset:
                    raise ClientError(f"{queue} stands still at {offset}: {pulled.status}")
                found += pulled.messages
                offset = pulled.next_offset
    return found
