"""Our producer sends in every way it has; what it is told is what Java's consumers find."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from interop.broker.clients import Finder, shown_body
from interop.broker.clients import Message as JavaMessage
from interop.client.sites import Site, aside, queue_of
from roketto.client.errors import IllegalMessageError
from roketto.client.hooks import SendContext
from roketto.client.message import Message, SendResult
from roketto.client.producer import Producer
from roketto.client.send_settings import BatchSettings, Compression, SendSettings
from roketto.client.settings import ClientSettings, Credentials
from roketto.protocol.tags import tag_code

QUEUES = 4
"""Of a topic that a producer creates by sending to it."""


def check_stored(site: Site, sent: Sequence[SendResult], stored: Sequence[JavaMessage]) -> None:
    """Each message is where its producer was told, under the ids that it was told."""
    assert all(one.is_ok and one.queue.broker_name == "broker-a" for one in sent)
    told = {(one.message_id, one.queue.queue_id, one.queue_offset, one.offset_id) for one in sent}
    assert len(told) == len(sent)
    assert told == {
        (one.id, one.queue, one.offset, site.cluster.main.offset_id(one.log_offset))
        for one in stored
    }


async def test_sends_are_answered_with_ids_queue_and_offset(site: Site) -> None:
    """A topic that is not there comes to be; queues take turns, and each counts from 0."""
    messages = [
        Message("PySync", f"sync {n}".encode(), tags="Tag", keys=[f"key{n}", "all"], flag=n)
        for n in range(12)
    ]
    async with Producer("pySync", site.names) as producer:
        sent = [await producer.send(message) for message in messages]
    for queue in range(QUEUES):
        assert [one.queue_offset for one in sent if one.queue.queue_id == queue] == [0, 1, 2]
    assert {(one.region_id, one.is_traced) for one in sent} == {("DefaultRegion", True)}
    stored = await aside(site.java.drain, "PySync", 12)
    check_stored(site, sent, stored)
    by_id = {one.id: one for one in stored}
    for n, one in enumerate(sent):
        message = by_id[one.message_id]
        assert (message.body, message.flag) == (f"sync {n}", n)
        assert message.user_properties == {"TAGS": "Tag", "KEYS": f"key{n} all"}
        assert (message.sys_flag & ~0x30, message.times) == (0, 0)
        assert 0 < message.born_ms <= message.stored_ms


async def test_many_sends_at_once_get_their_own_results(site: Site) -> None:
    async with Producer("pyAsync", site.names) as producer:
        sent = await asyncio.gather(
            *(producer.send(Message("PyAsync", f"{n}".encode())) for n in range(40))
        )
    stored = await aside(site.java.drain, "PyAsync", 40)
    check_stored(site, sent, stored)
    by_id = {one.id: one.body for one in stored}
    assert [by_id[one.message_id] for one in sent] == [f"{n}" for n in range(40)]


async def test_one_way_messages_are_stored_without_answers(site: Site) -> None:
    topic = await site.topic("PyOneWay", QUEUES)
    async with Producer("pyOneWay", site.names) as producer:
        for n in range(20):
            await producer.send_one_way(Message(topic, f"{n}".encode()))
        stored = await aside(site.java.drain, topic, 20)
    assert sorted(int(one.body) for one in stored) == list(range(20))


async def test_a_batch_is_stored_as_single_messages_in_order(site: Site) -> None:
    """One answer for all; the messages lie side by side in one queue, each with its own id."""
    topic = await site.topic("PyBatch", QUEUES)
    messages = [
        Message(topic, f"批 {n}".encode(), tags=f"T{n % 3}", keys=f"k{n}", properties={"n": f"{n}"})
        for n in range(10)
    ]
    async with Producer("pyBatch", site.names) as producer:
        sent = await producer.send_batch(messages)
    stored = await aside(site.java.drain, topic, 10)
    assert [(one.queue, one.offset) for one in stored] == [
        (sent.queue.queue_id, n) for n in range(10)
    ]
    assert [one.body for one in stored] == [f"批 {n}" for n in range(10)]
    assert [one.user_properties for one in stored] == [
        {"TAGS": f"T{n % 3}", "KEYS": f"k{n}", "n": f"{n}"} for n in range(10)
    ]
    assert [one.id for one in stored] == sent.message_id.split(",")
    assert [site.cluster.main.offset_id(one.log_offset) for one in stored] == (
        sent.offset_id.split(",")
    )


class Attempts:
    """A hook that counts the messages of each request."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def before(self, context: SendContext) -> None:
        self.sizes.append(len(context.messages))

    def after(self, context: SendContext) -> None:
        """It has been counted."""


async def test_sends_that_come_together_make_batches_by_themselves(site: Site) -> None:
    """Few requests, but each message has its own id and place."""
    topic = await site.topic("PyAutoBatch", QUEUES)
    attempts = Attempts()
    sending = SendSettings(batches=BatchSettings(delay_ms=20))
    async with Producer("pyAutoBatch", site.names, sending=sending) as producer:
        producer.hooks.add(attempts)
        sent = await asyncio.gather(
            *(producer.send(Message(topic, f"{n}".encode(), keys=f"k{n}")) for n in range(30))
        )
    assert sum(attempts.sizes) == 30
    assert len(attempts.sizes) <= 3
    stored = await aside(site.java.drain, topic, 30)
    check_stored(site, sent, stored)
    by_id = {one.id: (one.body, one.properties["KEYS"]) for one in stored}
    assert [by_id[one.message_id] for one in sent] == [(f"{n}", f"k{n}") for n in range(30)]


async def test_sharding_keys_and_javas_selector_choose_the_same_queues(site: Site) -> None:
    """Messages of an order are in one queue, in the order of sending, whoever has sent them."""
    topic = await site.topic("PySharded", QUEUES)
    orders = ["order-17", "order-4", "Bestellung ä", "订单", ""]
    async with Producer("pySharded", site.names) as producer:
        for n in range(4):
            for order in orders:
                body = f"{order}/{n}"
                if n % 2:
                    await producer.send(Message(topic, body.encode(), sharding_key=order))
                else:
                    one = {"body": body, "hash": order}
                    await aside(site.java.send, topic, [one], "selector")
    in_order = defaultdict(list)
    for stored in await aside(site.java.drain, topic, 20):
        in_order[stored.body.rpartition("/")[0]].append((stored.queue, stored.body))
    for order in orders:
        queue = abs(tag_code(order)) % QUEUES
        assert in_order[order] == [(queue, f"{order}/{n}") for n in range(4)]


async def test_a_queue_can_be_chosen_for_a_message(site: Site) -> None:
    topic = await site.topic("PyChosen", 3)
    async with Producer("pyChosen", site.names) as producer:
        sent = [
            await producer.send(Message(topic, b"chosen"), queue=queue_of(topic, n))
            for n in (2, 0, 2, 1, 2)
        ]
    assert [(one.queue.queue_id, one.queue_offset) for one in sent] == [
        (2, 0), (0, 0), (2, 1), (1, 0), (2, 2),
    ]  # fmt: skip
    check_stored(site, sent, await aside(site.java.drain, topic, 5))


@pytest.mark.parametrize(
    ("codec", "bits"),
    [(Compression.ZLIB, 0x300), (Compression.LZ4, 0x100), (Compression.ZSTD, 0x200)],
)
async def test_java_unpacks_what_we_have_packed(site: Site, codec: Compression, bits: int) -> None:
    """Bodies over 4 KiB, stored as they were packed, whichever codec it was."""
    topic = await site.topic(f"PyPacked{codec.name}")
    letters = "".join(random.Random(7).choices("0123456789abcdef", k=1_000_000))
    bodies = ["a body that repeats itself; " * 10_000, letters, "消息" * 2_000, "short"]
    async with Producer(
        "pyPacked", site.names, sending=SendSettings(compression=codec)
    ) as producer:
        sent = [await producer.send(Message(topic, body.encode())) for body in bodies]
    stored = await aside(site.java.drain, topic, 4)
    check_stored(site, sent, stored)
    assert [one.body for one in stored] == [shown_body(body) for body in bodies]
    for one, body in zip(stored[:3], bodies, strict=False):
        assert one.size < len(body.encode()), "it was not stored compressed"
        assert one.sys_flag & 0x700 == bits  # that it is compressed, clients forget
    assert stored[3].sys_flag & 0x701 == 0


async def test_properties_of_every_kind_reach_java(site: Site) -> None:
    """Tags, keys and properties in Chinese, with blanks and emoji, long ones; empty ones not."""
    topic = await site.topic("PyProperties")
    properties = {
        "城市": "北京市", "mixed 键": "Grüße, 你好 🚀", "blank": " ", "long": "x" * 8_000,
        "number": "-42",
    }  # fmt: skip
    messages = [
        Message(topic, "消息 body".encode(), "标签", ["键一", "key2", "键三"], properties, flag=-7),
        Message(topic, b"no properties"),
        Message(topic, b"empty tags and keys", tags="", keys=""),
        Message(topic, b"does not wait", wait_for_store=False),
    ]
    async with Producer("pyProperties", site.names) as producer:
        for message in messages:
            await producer.send(message)
        with pytest.raises(IllegalMessageError, match="neither may be empty"):
            await producer.send(Message(topic, b"refused, as by Java", properties={"empty": ""}))
    stored = await aside(site.java.drain, topic, 4)
    assert [one.body.encode() for one in stored] == [one.body for one in messages]
    assert stored[0].flag == -7
    assert stored[0].user_properties == {"TAGS": "标签", "KEYS": "键一 key2 键三", **properties}
    assert [one.user_properties for one in stored[1:]] == [{}, {}, {}]
    if not site.is_old:  # 4.9 does not keep it
        assert [one.properties["WAIT"] for one in stored] == ["true", "true", "true", "false"]


async def test_java_finds_our_messages_by_ids_and_keys(site: Site) -> None:
    """By the id that the producer gave, by that of the broker, and by each of several keys."""
    topic = await site.topic("PyFound")
    async with Producer("pyFound", site.names) as producer:
        sent = await producer.send(Message(topic, b"found", keys=["order-1", "客户"]))
    await aside(site.java.drain, topic, 1)
    finder = Finder(site.java)
    for message_id in (sent.message_id, sent.offset_id):
        assert (await aside(finder.view, topic, message_id)).body == "found"
    for key in ("order-1", "客户"):
        assert [one.id for one in await aside(finder.by_key, topic, key)] == [sent.message_id]


async def test_namespaces_are_part_of_the_names_that_java_sees(site: Site) -> None:
    """Our users do not see them, neither in results nor in messages."""
    await site.topic("space%PyNamed")
    settings = ClientSettings(name_servers=site.names, namespace="space")
    async with Producer("pyNamed", settings=settings) as producer:
        sent = await producer.send(Message("PyNamed", b"named"))
    assert sent.queue.topic == "PyNamed"
    (stored,) = await aside(site.java.drain, "space%PyNamed", 1)
    assert (stored.id, stored.properties["INSTANCE_ID"]) == (sent.message_id, "space")


async def test_signed_requests_are_accepted_where_nobody_checks(site: Site) -> None:
    topic = await site.topic("PySigned")
    settings = ClientSettings(
        name_servers=site.names, credentials=Credentials("AccessKey", "SecretKey")
    )
    async with Producer("pySigned", settings=settings) as producer:
        sent = [await producer.send(Message(topic, b"signed")) for _ in range(2)]
    check_stored(site, sent, await aside(site.java.drain, topic, 2))
