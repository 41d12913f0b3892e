"""Consumers of Java and of ours in one group: they share the queues as if they were the same."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

from interop.broker.clients import Finder
from interop.broker.clients import PushConsumer as JavaConsumer
from interop.client.members import Got, Listener, consumer, own_queues, shown
from interop.client.sites import Site, aside, queue_of, with_old_clients
from interop.client.waiting import until
from interop.peer import ClientError
from roketto.client.allocation import Averagely
from roketto.client.message import Message
from roketto.client.producer import Producer
from roketto.client.push import PushConsumer
from roketto.protocol.bodies.heartbeat import MessageModel

_SHARED_S: Final = 90.0
"""Whoever has missed that another one left looks again after 20 s, and a lock that was not given
back ends after 60."""


class Group:
    """Members of both kinds, by their names, and all that they have got together."""

    def __init__(self, site: Site, name: str, topic: str, queues: int, **options: Any) -> None:
        self.site = site
        self.name = name
        self.topic = topic
        self.queues = queues
        self.listeners: dict[str, Listener] = {}
        self.ours: dict[str, PushConsumer] = {}
        self.java: dict[str, JavaConsumer] = {}
        self._everyone: list[JavaConsumer] = []
        self._options = options

    async def join(self, name: str, **options: Any) -> None:
        """Add a member; its name begins with "java" or with "ours"."""
        if name.startswith("java"):
            options = {"orderly": self._options.get("in_order", False), **options}
            joined = await aside(
                self.site.java.push, f"{self.name}-{name}", self.topic, group=self.name, **options
            )
            self.java[name] = joined
            self._everyone.append(joined)
            return
        self.listeners[name] = listener = Listener(name, **options)
        self.ours[name] = made = consumer(
            self.site, self.name, listener, [self.topic], **self._options
        )
        await made.start()

    async def leave(self, name: str) -> None:
        if name.startswith("java"):
            await aside(self.java.pop(name).stop)
        else:
            await self.ours.pop(name).stop()

    async def close(self) -> None:
        for name in [*self.ours, *self.java]:
            await self.leave(name)

    async def shares(self) -> dict[str, set[int]]:
        """The queues that each member has now."""
        found = {name: own_queues(member, self.topic) for name, member in self.ours.items()}
        for name, java in self.java.items():
            found[name] = {int(queue.partition(":")[2]) for queue in await aside(java.queues)}
        return found

    async def until_shared(self) -> dict[str, set[int]]:
        """Wait until members have what the allocation says, by the ids that brokers know."""
        found: dict[str, set[int]] = {}

        async def is_shared() -> bool:
            expected = await self._allocated()
            found.clear()
            found.update(await self.shares())
            return found == expected

        what = f"{[*self.ours, *self.java]} to share {self.queues} queues"
        await until(is_shared, what, _SHARED_S)
        return found

    async def _allocated(self) -> dict[str, set[int]]:
        try:
            ids: list[str] = await aside(Finder(self.site.java).do, "ids", group=self.name)
        except ClientError:  # name servers do not know the topic of its retries yet
            return {}
        queues = [queue_of(self.topic, number) for number in range(self.queues)]
        found: dict[str, set[int]] = {}
        for one in ids:
            allocated = Averagely().allocate(self.name, one, queues, sorted(ids))
            found[self._member(one)] = {queue.queue_id for queue in allocated}
        return found

    def _member(self, client_id: str) -> str:
        """Whose client it is; itself if it is nobody's who is still here."""
        for name, ours in self.ours.items():
            if ours.client.id == client_id:
                return name
        for name, java in self.java.items():
            if f"@{java.name}-" in client_id:
                return name
        return client_id

    async def got(self) -> list[Got]:
        """What all have got, also those that have left, in the order of time."""
        found = [one for listener in self.listeners.values() for one in listener.got]
        if self._everyone:
            java = await aside(self.site.java.received, self._everyone, 0)
            found += [self._renamed(one) for one in shown(java)]
        return sorted(found, key=lambda one: one.at_ms)

    def _renamed(self, one: Got) -> Got:
        who = one.who.removeprefix(f"{self.name}-")
        return Got(who, one.topic, one.queue, one.offset, one.body, one.times, one.at_ms)

    async def until_all_get_some(self) -> None:
        """Wait until each member has got a message from now on; somebody has to send them."""
        seen = len(await self.got())

        async def is_so() -> bool:
            later = (await self.got())[seen:]
            return {one.who for one in later} >= {*self.ours, *self.java}

        await until(is_so, "messages for each member")

    async def until_got(self, bodies: Collection[str]) -> list[Got]:
        """Wait until somebody has got each of these."""
        found: list[Got] = []

        async def is_got() -> bool:
            found[:] = await self.got()
            return {one.body for one in found} >= set(bodies)

        await until(is_got, f"{len(bodies)} messages")
        return found


@asynccontextmanager
async def grouped(
    site: Site, name: str, topic: str, queues: int, **options: Any
) -> AsyncIterator[tuple[Group, Producer]]:
    """A group that has a topic of its own, and who sends to it."""
    await site.topic(topic, queues)
    group = Group(site, name, topic, queues, **options)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer(f"{name}-sends", site.names))
        stack.push_async_callback(group.close)
        yield group, producer


async def send_round(group: Group, producer: Producer, name: str) -> list[str]:
    """Two messages to each queue."""
    bodies = [f"{name}/{queue}/{n}" for n in range(2) for queue in range(group.queues)]
    for body in bodies:
        queue = queue_of(group.topic, int(body.split("/")[1]))
        await producer.send(Message(group.topic, body.encode()), queue=queue)
    return bodies


async def check_round(group: Group, producer: Producer, name: str) -> None:
    """They come once, to the one that has their queue."""
    owners = {
        queue: who for who, queues in (await group.until_shared()).items() for queue in queues
    }
    bodies = await send_round(group, producer, name)
    got = [one for one in await group.until_got(bodies) if one.body.startswith(f"{name}/")]
    assert Counter(one.body for one in got) == Counter(bodies)
    assert {one.body: one.who for one in got} == {
        body: owners[int(body.split("/")[1])] for body in bodies
    }


@with_old_clients
async def test_members_of_both_kinds_share_the_queues_of_a_group(site: Site) -> None:
    """As the allocation says, with whoever is there; what is sent meanwhile is not lost."""
    meanwhile: list[str] = []
    async with grouped(site, "pyMixed", "PyMixed", 8) as (group, producer):
        for change in ("+ours-0", "+java-0", "+ours-1", "-ours-0", "-java-0"):
            await (group.join if change[0] == "+" else group.leave)(change[1:])
            meanwhile += await send_round(group, producer, f"while {change}")
            await check_round(group, producer, change)
        await group.until_got(meanwhile)


@with_old_clients
async def test_order_is_kept_while_members_of_both_kinds_come_and_go(site: Site) -> None:
    """Messages come all the time; each queue has one consumer after the other, and goes on."""
    async with grouped(site, "pyMixedOrder", "PyMixedOrder", 4, in_order=True) as (group, producer):
        sent: Counter[int] = Counter()
        is_enough = asyncio.Event()

        async def send() -> None:
            for number in count():
                if is_enough.is_set():
                    return
                queue = queue_of(group.topic, number % 4)
                body = f"{number % 4}/{sent[number % 4]}"
                await producer.send(Message(group.topic, body.encode()), queue=queue)
                sent[number % 4] += 1
                await asyncio.sleep(0.005)

        sending = asyncio.create_task(send())
        for change in ("+java-0", "+ours-0", "-java-0", "+java-1", "-ours-0"):
            await (group.join if change[0] == "+" else group.leave)(change[1:])
            await group.until_shared()
            await group.until_all_get_some()
        is_enough.set()
        await sending
        got = await group.until_got([f"{queue}/{n}" for queue in sent for n in range(sent[queue])])
    assert {one.who for one in got} == {"java-0", "java-1", "ours-0"}
    for queue, end in sent.items():
        check_order([one for one in got if one.queue == queue], end)


def check_order(got: list[Got], end: int) -> None:
    """From the first message to the last; whoever takes over may begin before, and not behind."""
    assert [one.body.split("/")[1] for one in got] == [str(one.offset) for one in got]
    assert (got[0].offset, got[-1].offset) == (0, end - 1)
    for one, later in pairwise(got):
        if one.who == later.who:
            assert later.offset == one.offset + 1, (one, later)
        else:
            assert later.offset <= one.offset + 1, (one, later)
    repeated = len(got) - end
    assert repeated <= 4, f"{repeated} of {end} messages came twice"


async def test_what_one_kind_fails_the_other_may_get_again(site: Site) -> None:
    """A group has one queue of retries: what all fail comes again to the one that has it."""
    async with grouped(site, "pyMixedRetry", "PyMixedRetry", 4) as (group, producer):
        await group.join("ours-0", fails=1, delay_level=1)
        await group.join("java-0", fails=1, delayLevel=1)
        await group.until_shared()
        bodies = [f"fail/{queue}/{n}" for n in range(2) for queue in range(4)]
        for body in bodies:
            queue = queue_of(group.topic, int(body.split("/")[1]))
            await producer.send(Message(group.topic, body.encode()), queue=queue)

        async def is_done() -> bool:
            return sum(one.times == 1 for one in await group.got()) >= 8

        await until(is_done, "all to come again")
        got = await group.got()
    assert {one.topic for one in got} == {group.topic}
    tries = defaultdict(list)
    for one in got:
        tries[one.body].append((one.times, one.who))
    for body in bodies:
        assert [times for times, _ in tries[body]] == [0, 1], body
    assert {who for tried in tries.values() for times, who in tried if times == 0} == {
        "ours-0", "java-0",
    }  # fmt: skip
    assert len({who for tried in tries.values() for times, who in tried if times == 1}) == 1


async def test_broadcasting_gives_both_kinds_every_message(site: Site, tmp_path: Path) -> None:
    topic = await site.topic("PyMixedAll", 2)
    await aside(site.java.send, topic, [f"before {n}" for n in range(6)])
    listener = Listener("ours")
    ours = consumer(
        site, "pyMixedAll", listener, [topic],
        model=MessageModel.BROADCASTING, offsets_folder=tmp_path,
    )  # fmt: skip
    options = {"group": "pyMixedAll", "broadcasting": True}
    with await aside(site.java.push, "pyMixedAll", topic, **options) as java:
        async with ours, Producer("pyMixedAll", site.names) as producer:
            for n in range(6):
                await producer.send(Message(topic, f"after {n}".encode()))
            await listener.received(12)
            got = await aside(java.received, 12)
    expected = [f"{when} {n}" for when in ("after", "before") for n in range(6)]
    assert sorted(listener.bodies) == sorted(one.body for one in got) == expected
