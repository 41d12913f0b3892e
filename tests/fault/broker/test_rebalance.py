"""Consumers that join, leave and crash mid-message (F30): nothing is skipped, little comes twice.

What a group may see twice is what one of its members had in hand when another took its queue over.
In an ordered group each queue is seen in order, by one member at a time.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

import pytest

from checker import GroupHistory, Saw, check
from fault.broker.consumer import Consumer, GroupRecord
from fault.broker.planted import forget_commits, lock_for_all, planted, skip_one
from fault.broker.producers import Producers
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, connected, found_in
from patience import in_time
from roketto.protocol.names import retry_topic
from roketto.protocol.record import Record

GROUP: Final = "G"
TOPIC: Final = tuple(Queue("T", number) for number in range(8))
RETRY: Final = Queue(retry_topic(GROUP), 0)
MEMBERS_MAX: Final = 5
PATIENCE_S: Final = 180.0
"""A member that crashed, and came back for other queues, leaves locks behind for a minute; one
that did so behind it, for another."""
NOTICE_S: Final = 0.1
"""Ordered members are slow to leave a queue to another one: only its lock keeps them apart. Some
messages come to each queue meanwhile."""


class Group:
    """A group whose members come and go."""

    def __init__(self, site: Site, seed: int, *, is_ordered: bool) -> None:
        self.record = GroupRecord()
        self.random = Random(seed)
        self.changes = dict.fromkeys(("join", "leave", "crash"), 0)
        self._site = site
        self._is_ordered = is_ordered
        self._members: list[Consumer] = []
        self._count = 0
        self.queues = TOPIC if is_ordered else (*TOPIC, RETRY)

    async def change(self) -> None:
        """One member more or less."""
        count = len(self._members)
        kinds = ["join"] * (count < MEMBERS_MAX) + ["leave", "crash"] * (count > 1)
        kind = self.random.choice(kinds)
        if kind != "join":  # in the way that was seen less often, so that both are
            kind = min(("leave", "crash"), key=lambda one: self.changes[one])
        if kind == "join":
            self._count += 1
            await self._join(f"member-{self.random.randrange(100)}-{self._count}")
        else:
            member = self._members.pop(self.random.randrange(count))
            if kind == "leave":
                await member.leave()
            else:
                await member.crash()
                if self._is_ordered:
                    # Its locks hold for a minute; who comes back as the same has them at once.
                    await self._join(member.client_id)
        self.changes[kind] += 1

    async def _join(self, client_id: str) -> None:
        member = Consumer(
            self._site.address, GROUP, client_id, self.queues, self.record,
            is_ordered=self._is_ordered, fails=self._fails, work_s=0.001,
            notice_s=NOTICE_S if self._is_ordered else 0.0,
        )  # fmt: skip
        self._members.append(member)
        await member.start()

    def _fails(self, record: Record) -> bool:
        """Some messages are given back, once."""
        can_fail = not self._is_ordered and record.reconsume_times == 0
        return can_fail and self.random.random() < 0.02

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

    async def until_at(self, ends: dict[Queue, int], patience_s: float) -> None:
        until_s = time.monotonic() + patience_s
        while not self.has_seen(ends):
            in_time(until_s, f"the group is not at the end: {ends}")
            await asyncio.sleep(0.05)
            for member in self._members:
                await member.check()

    def has_seen(self, ends: dict[Queue, int]) -> bool:
        """Whether it is at the end of every queue, and has seen again what it gave back."""
        again = {value for value, tries in self.record.tries.items() if 1 in tries}
        return self.record.given_back <= again and all(
            self.record.next_offset(queue) >= end for queue, end in ends.items()
        )


async def run_changes(
    folder: Path,
    changes: int,
    seed: int,
    *,
    is_ordered: bool,
    program: Sequence[str] = ("roketto",),
    patience_s: float = PATIENCE_S,
) -> None:
    producers = Producers(TOPIC, seed, pause_s=0.02)
    with Site(folder, {**LARGE, "messageDelayLevel": "1s"}, program=program) as site:
        address = site.start().address
        async with Group(site, seed, is_ordered=is_ordered) as group:
            async with producers.sending_to(address):
                await producers.until_more(20, patience_s)
                for _ in range(changes):
                    await group.change()
                    await asyncio.sleep(group.random.random() * 0.3)
            async with connected(address) as connection:
                reads = [await found_in(connection, queue) for queue in TOPIC]
            ends = {queue: len(read.found) for queue, read in zip(TOPIC, reads, strict=True)}
            await group.until_at(ends, patience_s)
            await group.leave()
        site.stop()
    record = group.record
    names = [str(queue) for queue in TOPIC]
    events = [event for event in record.events if event.queue in names]
    report = check(
        producers.evidence, reads, groups=[GroupHistory(GROUP, names, events)],
        faults=group.changes,
    )  # fmt: skip
    report.raise_if_bad(f"seed {seed}")
    seen = sum(isinstance(event, Saw) for event in record.events)
    assert seen > report.ok
    text = f"{seen} seen, {record.duplicates} twice, {record.in_hand} were in hand"
    assert record.duplicates <= record.in_hand, text
    if is_ordered:
        assert not record.disorder, record.disorder[:10]
    assert min(group.changes.values()) > 0, group.changes
    print(f"seed {seed}: {report}\n{text}; {len(record.given_back)} were given back")


@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_members_that_come_and_go_skip_nothing(tmp_path: Path, is_ordered: bool) -> None:
    """20 rebalances."""
    await run_changes(tmp_path, 20, 1, is_ordered=is_ordered)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
async def test_many_more_rebalances_skip_nothing(tmp_path: Path, is_ordered: bool) -> None:
    """The long tier: 500 rebalances."""
    await run_changes(tmp_path, 500, 2, is_ordered=is_ordered)


async def test_commits_that_are_not_kept_are_noticed(tmp_path: Path) -> None:
    """Planted: everything comes again with each member."""
    bug = planted(forget_commits)
    with pytest.raises(AssertionError, match=r"\d+ seen, \d+ twice, \d+ were in hand"):
        await run_changes(tmp_path, 12, 3, is_ordered=False, program=bug)


async def test_a_message_that_is_skipped_is_noticed(tmp_path: Path) -> None:
    """Planted: a group goes on one message too far."""
    bug = planted(skip_one)
    with pytest.raises(AssertionError, match=r"unseen [1-9]|skipped [1-9]|not at the end"):
        await run_changes(tmp_path, 12, 4, is_ordered=False, program=bug, patience_s=5.0)


async def test_locks_that_lock_nobody_out_are_noticed(tmp_path: Path) -> None:
    """Planted: two members of an ordered group have one queue."""
    bug = planted(lock_for_all)
    with pytest.raises(AssertionError, match=r"after another had it|before the one before it"):
        await run_changes(tmp_path, 30, 5, is_ordered=True, program=bug)
