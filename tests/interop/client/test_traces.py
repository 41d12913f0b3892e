"""Java's mqadmin reads what our producers and consumers have written down about messages."""

import re

from interop.client.members import Listener
from interop.client.sites import Site, aside
from interop.client.waiting import until_equal
from roketto.client.client import Client
from roketto.client.message import Message
from roketto.client.positions import FromWhere
from roketto.client.producer import Producer
from roketto.client.push import PushConsumer
from roketto.client.settings import ClientSettings
from roketto.client.trace import ListenerTracer, TraceDispatcher, TraceRole, tracing


async def traces(site: Site, message_id: str) -> list[str]:
    """Kind, group and outcome of each trace of a message."""
    text = await aside(site.mqadmin, "queryMsgTraceById", "-i", message_id)
    found = re.findall(r"^(Pub|Sub) +(\S+) .* (\S+) *$", text, re.MULTILINE)
    return sorted(" ".join(row) for row in found)


async def test_java_reads_who_sent_and_who_consumed_our_message(site: Site) -> None:
    """Once by a producer, twice by a consumer that has failed it at first."""
    topic = await site.topic("PyTraced")
    listener = Listener("ours", fails=1, delay_level=1)
    async with (
        Client(ClientSettings(name_servers=site.names)) as client,
        Producer("pyTracedSends", client=client) as producer,
        tracing(producer),
        TraceDispatcher(client, "pyTracedGets", TraceRole.CONSUME) as dispatcher,
        PushConsumer(
            "pyTracedGets", client=client, topics={topic: "*"}, listener=listener,
            from_where=FromWhere.FIRST, hooks=[ListenerTracer(dispatcher)],
        ),
    ):  # fmt: skip
        sent = await producer.send(Message(topic, b"fail", keys=["订单", "k"], tags="Tag"))
        await listener.received(2)
    expected = ["Pub pyTracedSends success", "Sub pyTracedGets failed", "Sub pyTracedGets success"]
    await until_equal(lambda: traces(site, sent.message_id), expected, "the traces")
