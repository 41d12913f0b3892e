"""A group of our consumers, whose members come and go while a log is kept of what they do."""

from collections.abc import Sequence
from typing import Final, Self

from checker import GroupHistory, QueueRead
from fault.broker.wire import ask, connected
from fault.client.cluster import Cluster, fresh, name_of, queues_of, until
from fault.client.group_log import TUNING, GroupLog
from fault.client.member import Member, Work
from roketto.client.message import MessageQueue
from roketto.client.push_tuning import PushTuning
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import (
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
)

OWNED_S: Final = 15.0
"""Sooner than the round that comes every 20 s whatever happens: who relies on that is noticed."""


class Group:
    """A group of one kind, and its members.

    async with Group(cluster, CONCURRENT, topic) as group:
        await group.join()
        await group.leave(0)
    """

    def __init__(self, cluster: Cluster, kind: str, topic: str) -> None:
        self.log = GroupLog(kind)
        self.name = fresh(kind)
        self.topic = topic
        self.members: list[Member] = []
        self._cluster = cluster

    async def join(
        self, instance: str | None = None, work: Work | None = None, tuning: PushTuning = TUNING
    ) -> Member:
        member = Member(
            self._cluster, self.log, self.name, self.topic, instance=instance, tuning=tuning,
            work=work,
        )  # fmt: skip
        self.members.append(member)
        await member.start()
        return member

    async def leave(self, number: int = 0) -> None:
        await self.members.pop(number).stop()

    async def until_more(self, count: int) -> None:
        """Wait until so many more messages were seen."""
        goal = self.log.total + count
        await until(f"{count} more are seen by {self.name}", lambda: self.log.total >= goal)

    async def until_at(self, reads: Sequence[QueueRead], wait_s: float | None = None) -> None:
        """Wait until it has seen everything, and its members still run."""
        ends = {read.queue: len(read.found) for read in reads}
        try:
            await until("all are seen", lambda: self.log.has_seen(ends), wait_s)
        except AssertionError as error:
            for member in self.members:
                await member.check()
            raise AssertionError(f"{error} by {self.name}, of {ends}") from None

    async def stored(self) -> dict[str, int]:
        """Where brokers have it; 0 where they have nothing."""
        found = {}
        for broker_name, site in self._cluster.sites.items():
            async with connected(site.address) as connection:
                for queue in queues_of(self.topic, [broker_name]):
                    header = QueryConsumerOffsetRequest(
                        consumer_group=self.name, topic=queue.topic, queue_id=queue.queue_id
                    )
                    code = RequestCode.QUERY_CONSUMER_OFFSET
                    answer = await ask(connection, Command(code, encode_header(header)))
                    stored = 0
                    if answer.code == ResponseCode.SUCCESS:
                        told = decode_header(QueryConsumerOffsetResponse, answer.ext)
                        stored = told.consume_offset
                    found[name_of(queue)] = stored
        return found

    async def end(self, reads: Sequence[QueueRead], wait_s: float | None = None) -> GroupHistory:
        """Wait until all is seen and brokers know it, and let everybody leave."""
        await self.until_at(reads, wait_s)
        ends = {read.queue: len(read.found) for read in reads}

        async def is_stored() -> bool:
            return await self.stored() == ends

        await until(f"brokers know how far {self.name} is", is_stored, wait_s)
        while self.members:
            await self.leave()
        stored = await self.stored()
        assert stored == ends, f"{self.name} is at {stored} for brokers, and was at {ends}"
        return self.log.history(self.name, list(ends))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        while self.members:
            await self.leave()


async def until_owned(
    members: Sequence[Member], queues: Sequence[MessageQueue], wait_s: float | None = None
) -> None:
    """Wait until each queue is one member's, and no queue is nobody's."""

    def is_owned() -> bool:
        owned = [queue for member in members for queue in member.queues]
        return sorted(owned) == sorted(queues)

    try:
        await until("each queue has one owner", is_owned, wait_s or OWNED_S)
    except AssertionError as error:
        shares = {member.instance: sorted(map(name_of, member.queues)) for member in members}
        raise AssertionError(f"{error}: {shares}") from None
