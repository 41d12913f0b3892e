"""A consumer that does over the wire what a push consumer does, and what its group has seen.

Heartbeat, list of members, queues shared out averagely, locks if it consumes in order, offsets,
pulls that wait, commits, messages given back: each as its own request, so that a test can end the
consumer between any two of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from checker import Committed, Saw
from fault.appender import value_of
from fault.broker.wire import Queue, ask
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.bodies.connections import GetConsumerListByGroupResponseBody
from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import Header, decode_header, encode_header
from roketto.protocol.headers.clients import (
    GetConsumerListByGroupRequest,
    UnregisterClientRequest,
)
from roketto.protocol.headers.offsets import (
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from roketto.protocol.headers.pull import PullMessageRequest, PullMessageResponse
from roketto.protocol.headers.send import ConsumerSendMsgBackRequest
from roketto.protocol.record import Record, decode_records
from roketto.protocol.sysflags import PULL_SUSPEND
from roketto.remoting.client import connect
from roketto.remoting.connection import Connection, Reply
from roketto.remoting.errors import RemotingError

REBALANCE_S: Final = 0.2
"""How often a member looks whether it has its queues; Java's every 20 s, and when it is told to."""
BATCH: Final = 8
SUSPEND_MS: Final = 1_000
_BROKER: Final = "broker-a"


@dataclass(slots=True)
class GroupRecord:
    """What all members of a group have seen and committed, in order, and how often twice."""

    events: list[Saw | Committed] = field(default_factory=list)
    given_back: set[str] = field(default_factory=set)
    tries: dict[str, list[int]] = field(default_factory=dict)
    """Value -> reconsumeTimes of each time that it was seen."""
    duplicates: int = 0
    in_hand: int = 0
    """Messages that somebody had seen, and not committed, when another one took over."""
    disorder: list[str] = field(default_factory=list)
    """For ordered groups: what was seen that may not have been."""
    _seen: dict[Queue, set[int]] = field(default_factory=dict)
    _next: dict[Queue, int] = field(default_factory=dict)
    _committed: dict[Queue, int] = field(default_factory=dict)
    _committing: list[tuple[Queue, int]] = field(default_factory=list)
    _owner: dict[Queue, "Tenure"] = field(default_factory=dict)

    def next_offset(self, queue: Queue) -> int:
        """Behind the last message of a queue that was seen."""
        return self._next.get(queue, 0)

    def before_query(self, queue: Queue) -> int:
        """The least offset that a query may be answered with, as far as is known before it."""
        under_way = [offset for other, offset in self._committing if other == queue]
        return min([self._committed.get(queue, 0), *under_way])

    def is_in_hand(self, queue: Queue) -> bool:
        """Whether the last message that was seen is one that nobody has begun to commit."""
        under_way = [offset for other, offset in self._committing if other == queue]
        return self.next_offset(queue) > max([self._committed.get(queue, 0), *under_way])

    def begin(self, queue: Queue, member: str, start: int, least: int) -> "Tenure":
        """A member takes a queue over."""
        self.in_hand += max(0, self.next_offset(queue) - min(least, self.before_query(queue)))
        tenure = Tenure(queue, member, start)
        self._owner[queue] = tenure
        return tenure

    def see(self, tenure: "Tenure", record: Record) -> None:
        queue, offset, value = tenure.queue, record.queue_offset, value_of(bytes(record.body))
        self.events.append(Saw(str(queue), offset, value))
        self.tries.setdefault(value, []).append(record.reconsume_times)
        seen = self._seen.setdefault(queue, set())
        self.duplicates += offset in seen
        seen.add(offset)
        if self._owner[queue] is not tenure:
            self.in_hand += 1
            self.disorder.append(f"{tenure.member} saw {queue}@{offset} after another had it")
        elif offset != tenure.offset:
            self.disorder.append(f"{tenure.member} saw {queue}@{offset}, not {tenure.offset}")
        elif offset > self.next_offset(queue):
            self.disorder.append(f"{tenure.member} saw {queue}@{offset} before the one before it")
        tenure.offset = offset + 1
        self._next[queue] = max(self.next_offset(queue), offset + 1)

    def go_back(self, saved: Mapping[Queue, int]) -> None:
        """The broker knows no more commits than these: the others were not saved."""
        self._committed.update(saved)

    async def commit(self, queue: Queue, offset: int, answer: Awaitable[Command]) -> None:
        """Note a commit as one that the broker may have, and then has."""
        under_way = (queue, offset)
        self._committing.append(under_way)
        try:
            code = (await answer).code
        finally:
            self._committing.remove(under_way)
        assert code == 0, f"{queue}: commit of {offset} was answered with {code}"
        self._committed[queue] = offset
        self.events.append(Committed(str(queue), offset))


@dataclass(slots=True, eq=False)
class Tenure:
    """The time in which one member has a queue."""

    queue: Queue
    member: str
    offset: int
    """The next message."""
    task: asyncio.Task[None] | None = None


class Consumer:
    """One member of a group. ``fails`` says of a message whether it is given back, and without
    ``reconsume_times_max`` the broker how often; ``notice_s`` is how long it goes on as before when
    it has been told that its group has changed.

    consumer = Consumer(address, "G", "id", [Queue("T", 0), ...], record)
    await consumer.start()
    await consumer.leave()         # in peace: what it has seen is committed
    consumer.crash()               # with whatever it has in hand
    """

    def __init__(
        self,
        address: str,
        group: str,
        client_id: str,
        queues: Sequence[Queue],
        record: GroupRecord,
        *,
        is_ordered: bool = False,
        fails: Callable[[Record], bool] = lambda record: False,
        reconsume_times_max: int | None = 16,
        work_s: float = 0.0,
        notice_s: float = 0.0,
    ) -> None:
        self.client_id = client_id
        self._address = address
        self._group = group
        self._queues = queues
        self._record = record
        self._is_ordered = is_ordered
        self._fails = fails
        self._reconsume_times_max = reconsume_times_max
        self._work_s = work_s
        self._notice_s = notice_s
        self._tenures: dict[Queue, Tenure] = {}
        self._changed = asyncio.Event()
        self._rebalancing: asyncio.Task[None] | None = None
        self._connection: Connection | None = None

    # --- coming and going -------------------------------------------------------------------------

    async def start(self) -> None:
        self._connection = await connect(self._address, handler=self._take_notice)
        await self._heartbeat()
        self._rebalancing = asyncio.create_task(self._keep_balance())

    async def leave(self) -> None:
        """Finish the message at hand, commit, give locks back, say farewell."""
        assert self._connection is not None
        await _end(self._rebalancing)
        for queue in list(self._tenures):
            await self._give_up(queue)
        header = UnregisterClientRequest(client_id=self.client_id, consumer_group=self._group)
        await self._ask(RequestCode.UNREGISTER_CLIENT, header)
        self._connection.close("the consumer leaves")

    async def crash(self) -> None:
        """Be gone, from one moment to the next."""
        assert self._connection is not None
        self._connection.abort("the consumer has crashed")
        tasks = [self._rebalancing, *(tenure.task for tenure in self._tenures.values())]
        for task in tasks:
            if task is not None:
                task.cancel()
        for task in tasks:
            await _end(task)

    async def check(self) -> None:
        """Raise what has ended one of its tasks."""
        for task in (self._rebalancing, *(tenure.task for tenure in self._tenures.values())):
            if task is not None and task.done():
                await task

    def _take_notice(self, connection: Connection, request: Command) -> Reply:
        """NOTIFY_CONSUMER_IDS_CHANGED, the only request that a broker here has for us."""
        assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, request
        self._changed.set()
        return None

    async def _heartbeat(self) -> None:
        topics = sorted({queue.topic for queue in self._queues})
        data = ConsumerData(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            group_name=self._group,
            message_model=MessageModel.CLUSTERING,
            subscription_data_set=[
                SubscriptionData(topic=topic, sub_string="*", sub_version=1) for topic in topics
            ],
        )
        body = encode_body(HeartbeatData(client_id=self.client_id, consumer_data_set=[data]))
        await self._ask(RequestCode.HEART_BEAT, None, body)

    # --- which queues -----------------------------------------------------------------------------

    async def _keep_balance(self) -> None:
        while True:
            self._changed.clear()
            await self._heartbeat()
            await self._rebalance()
            with suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S):
                    await self._changed.wait()
                await asyncio.sleep(self._notice_s)

    async def _rebalance(self) -> None:
        header = GetConsumerListByGroupRequest(consumer_group=self._group)
        answer = await self._ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        members = decode_body(GetConsumerListByGroupResponseBody, answer.body).consumer_id_list
        mine: set[Queue] = set()
        for topic in sorted({queue.topic for queue in self._queues}):
            queues = [queue for queue in self._queues if queue.topic == topic]
            mine |= set(allocate(self.client_id, sorted(members), sorted(queues)))
        for queue in self._tenures.keys() - mine:
            await self._give_up(queue)
        locked = await self._lock(mine) if self._is_ordered else mine
        for queue in sorted(locked - self._tenures.keys()):
            await self._take_over(queue)

    async def _take_over(self, queue: Queue) -> None:
        least = self._record.before_query(queue)
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        answer = await self._ask(
            RequestCode.QUERY_CONSUMER_OFFSET, header, codes=(0, ResponseCode.QUERY_NOT_FOUND)
        )
        start = 0
        if answer.code == 0:
            start = decode_header(QueryConsumerOffsetResponse, answer.ext).consume_offset
        tenure = self._record.begin(queue, self.client_id, start, least)
        self._tenures[queue] = tenure
        tenure.task = asyncio.create_task(self._consume(tenure))

    async def _give_up(self, queue: Queue) -> None:
        tenure = self._tenures.pop(queue)
        await _end(tenure.task)
        await self._commit(tenure)
        if self._is_ordered:
            body = UnlockBatchRequestBody(self.client_id, self._group, [message_queue(queue)])
            await self._ask(RequestCode.UNLOCK_BATCH_MQ, None, encode_body(body))

    async def _lock(self, queues: set[Queue]) -> set[Queue]:
        wanted = [message_queue(queue) for queue in sorted(queues)]
        body = LockBatchRequestBody(self.client_id, self._group, wanted)
        answer = await self._ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
        held = decode_body(LockBatchResponseBody, answer.body).lock_ok_mq_set
        return {Queue(queue.topic, queue.queue_id) for queue in held}

    # --- their messages ---------------------------------------------------------------------------

    async def _consume(self, tenure: Tenure) -> None:
        while True:
            records = await self._pull(tenure)
            for record in records:
                self._record.see(tenure, record)
                await asyncio.sleep(self._work_s)
                if self._fails(record):
                    await self._give_back(record)
            if records:
                await self._commit(tenure)

    async def _pull(self, tenure: Tenure) -> list[Record]:
        queue = tenure.queue
        header = PullMessageRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
            queue_offset=tenure.offset, max_msg_nums=BATCH, sys_flag=PULL_SUSPEND,
            consume_offset=0, suspend_timeout_ms=SUSPEND_MS, sub_version=1,
        )  # fmt: skip
        answer = await self._ask(RequestCode.PULL_MESSAGE, header, codes=_PULL_CODES)
        if answer.code == 0:
            return list(decode_records(memoryview(answer.body), strict=True))
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            moved = decode_header(PullMessageResponse, answer.ext).next_begin_offset
            assert moved <= tenure.offset, f"{queue}: moved from {tenure.offset} to {moved}"
            tenure.offset = moved
            await asyncio.sleep(REBALANCE_S)
        return []

    async def _commit(self, tenure: Tenure) -> None:
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group, topic=tenure.queue.topic,
            queue_id=tenure.queue.queue_id, consume_offset=tenure.offset,
        )  # fmt: skip
        answer = self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        await self._record.commit(tenure.queue, tenure.offset, answer)

    async def _give_back(self, record: Record) -> None:
        header = ConsumerSendMsgBackRequest(
            log_offset=record.log_offset, group=self._group, delay_level=1,
            origin_topic=record.topic, max_reconsume_times=self._reconsume_times_max,
        )  # fmt: skip
        await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        self._record.given_back.add(value_of(bytes(record.body)))

    async def _ask(
        self,
        code: RequestCode,
        header: Header | None,
        body: bytes = b"",
        codes: Sequence[int] = (0,),
    ) -> Command:
        assert self._connection is not None
        ext = None if header is None else encode_header(header)
        answer = await ask(self._connection, Command(code, ext, body))
        assert answer.code in codes, f"{code.name}: {answer.code} {answer.remark}"
        return answer


_PULL_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def message_queue(queue: Queue) -> MessageQueue:
    return MessageQueue(_BROKER, queue.queue_id, queue.topic)


def allocate(client_id: str, members: Sequence[str], queues: Sequence[Queue]) -> Sequence[Queue]:
    """Which queues a member has: as many as all others or one more, in one piece, as in Java."""
    if client_id not in members:
        return ()
    index = members.index(client_id)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return queues[start : start + share + (index < rest)]


async def _end(task: asyncio.Task[None] | None) -> None:
    """Cancel a task; what it failed with, other than by losing its connection, fails the test."""
    if task is None:
        return
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, BaseException) and not isinstance(
        outcome, asyncio.CancelledError | RemotingError
    ):
        raise outcome
