"""The push consumer in order: queues keep theirs, whoever comes and goes, brokers included."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.client.pull_rig import PullRig, name, queue, until
from integration.client.push_rig import LATER, SUCCESS, Heard, hurry, push, send_until, texts
from interop.peer.ports import lease_ports
from interop.peer.servers import BROKER_PORTS
from roketto.client.errors import ClientError
from roketto.client.listeners import ConsumeContext, ConsumeResult
from roketto.client.positions import Positions
from roketto.client.push import PushConsumer
from roketto.client.push_tuning import PushTuning
from roketto.client.received import ReceivedMessage
from servers import broker, name_server


class Servers:
    """A name server, and a broker that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = lease_ports(BROKER_PORTS)
        self._stack, self._broker = ExitStack(), ExitStack()
        self._stack.callback(self._ports.release)
        self.names = self._stack.enter_context(name_server(folder)).address
        self._stack.callback(self.stop)
        self.address = self.start()

    def start(self) -> str:
        made = broker(self._folder, [self.names], lease=self._ports)
        return self._broker.enter_context(made).address

    def stop(self) -> None:
        self._broker.close()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    made = Servers(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def rig(servers: Servers) -> AsyncIterator[PullRig]:
    async with PullRig(servers.names, servers.address) as made:
        yield made


class InOrder(Heard):
    """Notes who hears what, and whether two hear of one queue at the same time."""

    def __init__(self, pause_s: float = 0.002) -> None:
        super().__init__()
        self.pause_s = pause_s
        self.busy: set[int] = set()
        self.overlaps = 0

    async def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult | None:
        queue_id = context.queue.queue_id
        self.overlaps += queue_id in self.busy
        self.busy.add(queue_id)
        await asyncio.sleep(self.pause_s)
        self.busy.discard(queue_id)
        return await super().__call__(messages, context)

    def first_heard(self, queue_id: int) -> list[int]:
        """The numbers of a queue in the order in which each was heard for the first time."""
        found = [int(one.body) for one in self.messages if one.queue_id == queue_id]
        return list(dict.fromkeys(found))


async def is_shared(topic: str, *members: PushConsumer) -> bool:
    shares = [len([one for one in member.queues if one.topic == topic]) for member in members]
    return all(shares) and sum(shares) == 2


async def test_two_members_keep_the_order_of_each_queue(rig: PullRig) -> None:
    """While one comes and goes: no queue is heard by both at once, and nothing is heard twice."""
    topic, group = await rig.topic(queues=2), name()
    heard = InOrder()
    sent: list[str] = []

    sending = asyncio.create_task(send_until(rig, topic, sent, is_enough := asyncio.Event()))
    async with push(rig, topic, group, listener=heard, in_order=True) as first:
        await until(lambda: is_shared(topic, first))
        async with push(rig, topic, group, listener=heard, in_order=True) as second:
            await until(lambda: is_shared(topic, first, second))
            await heard.more(50)
        await until(lambda: is_shared(topic, first))
        is_enough.set()
        await sending
        await heard.all_of(sent)
    for queue_id in range(2):
        assert heard.first_heard(queue_id) == [int(n) for n in sent if int(n) % 2 == queue_id]
    assert heard.overlaps == 0
    assert len(heard.messages) == len(sent)


async def test_order_survives_the_restart_of_a_broker(rig: PullRig, servers: Servers) -> None:
    """Two members, and a broker that is gone for a moment, with the locks that it had given."""
    topic, group = await rig.topic(queues=2), name()
    for number in range(200):
        await rig.send(topic, [number], number % 2)
    heard = InOrder(pause_s=0.02)
    options = {"listener": heard, "in_order": True, "tuning": PushTuning(cached_count_max=10)}
    async with (
        push(rig, topic, group, **options) as first,
        push(rig, topic, group, **options) as second,
    ):
        await until(lambda: is_shared(topic, first, second))
        await heard.until(lambda: len(heard.messages) > 20)
        await asyncio.to_thread(servers.stop)
        assert len(heard.messages) < 200
        heard.pause_s = 0.001
        await asyncio.to_thread(servers.start)
        await heard.all_of(texts(0, 200), wait_s=20)
        await send_until_it_works(rig, topic)
        await heard.all_of(["1000"])
    for queue_id in range(2):
        first_heard = [number for number in heard.first_heard(queue_id) if number < 1000]
        assert first_heard == list(range(queue_id, 200, 2))


async def send_until_it_works(rig: PullRig, topic: str) -> None:
    async def is_sent() -> bool:
        try:
            await rig.send(topic, [1000])
        except ClientError:
            return False
        return True

    await until(is_sent)


async def test_what_fails_holds_its_queue_until_it_is_given_up(rig: PullRig) -> None:
    """Tried again in place, and a dead letter after as often as was said; others go on."""
    topic, group = await rig.topic(queues=2), name()
    await rig.send(topic, ["0", "bad", "1"], 0)
    await rig.send(topic, ["other"], 1)
    heard = Heard(lambda message: LATER if message.body == b"bad" else SUCCESS)
    tuning = PushTuning(reconsume_max=2, suspend_ms=30)
    options = {"listener": heard, "in_order": True, "tuning": tuning}
    async with push(rig, topic, group, **options) as consumer:
        await heard.all_of(["1", "other"])
        dead = Positions(consumer.client)

        async def is_dead() -> bool:
            return await dead.max_offset(queue(f"%DLQ%{group}")) == 1

        await until(is_dead)
    in_queue = [one for one in heard.messages if one.queue_id == 0]
    assert [one.body for one in in_queue] == [b"0", b"bad", b"bad", b"bad", b"1"]


async def test_a_loop_in_order_gets_a_queue_in_order(rig: PullRig) -> None:
    """What is given back is the next that comes of its queue."""
    topic = await rig.topic()
    await rig.send(topic, range(5))
    seen: list[str] = []
    async with push(rig, topic, in_order=True, tuning=PushTuning(suspend_ms=10)) as consumer:
        async for message in consumer:
            seen.append(message.body.decode())
            if seen == ["0", "1"]:
                message.later()
            if message.body == b"4":
                break
    assert seen == ["0", "1", "1", "2", "3", "4"]
