"""kill -9 of a broker with an ordered group (F30): all queues go on in order, none skips any.

Locks go with the broker's memory, and offsets to what was saved last. Some members come back as
they were, others with new names, who must not wait for the locks of those who are gone.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from checker import GroupHistory, QueueRead, check
from fault.broker.consumer import Consumer, GroupRecord
from fault.broker.planted import forget_places, planted
from fault.broker.producers import Producers
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, connected, found_in
from patience import LateError
from roketto.broker.locks import LOCK_S
from roketto.store.files import Files
from roketto.store.offset_table import ConsumeOffsetTable

GROUP: Final = "G"
QUEUES: Final = tuple(Queue("T", number) for number in range(4))
BACKLOG: Final = 80
"""Requests before the group comes back: nobody has seen their messages."""
PATIENCE_S: Final = 40.0
assert PATIENCE_S < LOCK_S, "whoever waits for a lock of a member that is gone is noticed"


class Group:
    """An ordered group of a broker that is killed; ``record`` is what it has seen in all lives."""

    def __init__(self, site: Site) -> None:
        self.record = GroupRecord()
        self._site = site
        self._members: list[Consumer] = []

    async def come(self) -> None:
        """One member after the other: the first has all queues for a while."""
        for name in ("stays-0", f"comes-{self._site.kills}", "stays-1"):
            member = Consumer(
                self._site.address, GROUP, name, QUEUES, self.record, is_ordered=True, work_s=0.002
            )
            self._members.append(member)
            await member.start()

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not is_so():
                    await asyncio.sleep(0.05)
                    for member in self._members:
                        await member.check()
        except TimeoutError:
            raise LateError(f"not within {PATIENCE_S:g} s: {what}") from None

    async def until_further(self) -> None:
        """Wait until it has seen more of every queue, which takes a lock of each."""
        before = {queue: self.record.next_offset(queue) for queue in QUEUES}
        await self.until(
            "the group goes on in every queue",
            lambda: all(self.record.next_offset(queue) > before[queue] for queue in QUEUES),
        )

    async def until_saved(self) -> None:
        """Wait until the broker has saved another offset of every queue."""
        before = self.saved()
        await self.until(
            "the offsets of all queues are saved",
            lambda: all(saved > before[queue] for queue, saved in self.saved().items()),
        )

    async def until_busy(self) -> None:
        """Wait until somebody has seen a message that no commit covers."""
        await self.until("a message is in hand", lambda: any(map(self.record.is_in_hand, QUEUES)))

    def saved(self) -> dict[Queue, int]:
        table = ConsumeOffsetTable(Files(), self._site.root / "config")
        table.load()
        return {queue: table.get(queue.topic, GROUP, queue.queue_id) or 0 for queue in QUEUES}

    async def lose_broker(self) -> None:
        """Notice that the broker is gone, with all that was not saved."""
        while self._members:
            await self._members.pop().crash()
        self.record.go_back(self.saved())

    async def leave(self) -> None:
        while self._members:
            await self._members.pop().leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whoever is still there ends."""
        while self._members:
            with suppress(AssertionError):
                await self._members.pop().crash()


async def live(site: Site, producers: Producers, group: Group) -> None:
    """Start the broker, and kill it while the group consumes."""
    async with producers.sending_to(site.start().address):
        await producers.until_more(BACKLOG, PATIENCE_S)
        await group.come()
        await group.until_further()
        await group.until_saved()
        await group.until_busy()
        site.kill()  # nothing has happened since
    await group.lose_broker()


async def live_to_the_end(site: Site, producers: Producers, group: Group) -> list[QueueRead]:
    """The same, but the group sees all there is; what that is."""
    address = site.start().address
    async with producers.sending_to(address):
        await producers.until_more(BACKLOG, PATIENCE_S)
        await group.come()
        await group.until_further()
    async with connected(address) as connection:
        reads = [await found_in(connection, queue) for queue in QUEUES]
    ends = {queue: len(read.found) for queue, read in zip(QUEUES, reads, strict=True)}
    await group.until(
        "the group is at the end",
        lambda: all(group.record.next_offset(queue) >= end for queue, end in ends.items()),
    )
    await group.leave()
    site.stop()
    return reads


async def run_kills(
    folder: Path, kills: int, seed: int, program: Sequence[str] = ("roketto",)
) -> None:
    producers = Producers(QUEUES, seed, pause_s=0.01)
    config = {**LARGE, "flushConsumerOffsetInterval": "300"}
    with Site(folder, config, program=program) as site:
        async with Group(site) as group:
            for _ in range(kills):
                await live(site, producers, group)
            reads = await live_to_the_end(site, producers, group)
    assert site.kills == kills
    record = group.record
    history = GroupHistory(GROUP, [str(queue) for queue in QUEUES], record.events)
    report = check(producers.evidence, reads, groups=[history], faults={"kill -9": site.kills})
    report.raise_if_bad(f"seed {seed}")
    assert not record.disorder, record.disorder[:10]
    text = f"{record.duplicates} seen twice, {record.in_hand} were in hand or not saved"
    assert 0 < record.duplicates <= record.in_hand, text
    print(f"seed {seed}: {report}\n{text}")


async def test_an_ordered_group_goes_on_in_order_after_kills(tmp_path: Path) -> None:
    """Two kills, each while messages are in hand."""
    await run_kills(tmp_path, 2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_an_ordered_group_goes_on_in_order_after_many_more_kills(tmp_path: Path) -> None:
    """The long tier: 50 kills."""
    await run_kills(tmp_path, 50, seed=2)


async def test_a_group_that_goes_on_too_far_after_a_kill_is_noticed(tmp_path: Path) -> None:
    """Planted: the messages that came while the group was away are passed over."""
    with pytest.raises(AssertionError, match=r"\bunseen [1-9]"):
        await run_kills(tmp_path, 1, seed=3, program=planted(forget_places))
