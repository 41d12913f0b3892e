"""Offsets of queues and of groups: where they are, and how an operator moves a group."""

from collections.abc import Mapping
from typing import Final

from roketto.admin.fleet import Answers, Broker, Fleet, brokers_of
from roketto.client.errors import BrokerNotFoundError, ClientError, RefusedError
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.offsets import ResetOffsetBody, RollbackStats
from roketto.protocol.bodies.route import MessageQueue, TopicRouteData
from roketto.protocol.bodies.stats import ConsumeStats, OffsetWrapper, TopicStatsTable
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.headers.base import BoundaryType, decode_header
from roketto.protocol.headers.clients import GetConsumerConnectionListRequest
from roketto.protocol.headers.offsets import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    ResetOffsetRequest,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from roketto.protocol.headers.stats import GetConsumeStatsRequest
from roketto.protocol.headers.topics import GetTopicStatsInfoRequest
from roketto.protocol.properties_text import parse_properties

__all__ = ["END", "Offsets"]

END: Final = -1
"""In place of a time: behind the last message."""

_ALREADY_RESET: Final = "Offset has been previously reset"
"""What a broker remarks when it did not take an offset: consumers have to hear of a reset first."""


class Offsets:
    """Made by ``Admin``, as ``admin.offsets``.

    await admin.offsets.reset("billing", "Orders", time_ms)     # also while it consumes
    await admin.offsets.reset("billing", "Orders", END)         # skip all that waits
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    # --- queues -----------------------------------------------------------------------------------

    async def min(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still there."""
        request = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        address = (await self._master(queue)).address
        answer = await self._fleet.ask(address, RequestCode.GET_MIN_OFFSET, request)
        return decode_header(GetMinOffsetResponse, answer.ext).queue_offset

    async def max(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await self._max(await self._master(queue), queue)

    async def _max(self, broker: Broker, queue: MessageQueue) -> int:
        request = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._fleet.ask(broker.address, RequestCode.GET_MAX_OFFSET, request)
        return decode_header(GetMaxOffsetResponse, answer.ext).queue_offset

    async def search(
        self, queue: MessageQueue, time_ms: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """The first message that was stored at a time or later, or the last before that."""
        return await self._search(await self._master(queue), queue, time_ms, boundary)

    async def _search(
        self, broker: Broker, queue: MessageQueue, time_ms: int, boundary: BoundaryType
    ) -> int:
        request = SearchOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms, boundary_type=boundary
        )
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await self._fleet.ask(broker.address, code, request)
        return decode_header(SearchOffsetResponse, answer.ext).queue_offset

    async def earliest_time_ms(self, queue: MessageQueue) -> int:
        """When its first message was stored; below zero if it has none."""
        request = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id)
        address = (await self._master(queue)).address
        answer = await self._fleet.ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, request)
        return decode_header(GetEarliestMsgStoretimeResponse, answer.ext).timestamp

    async def _master(self, queue: MessageQueue) -> Broker:
        masters = _masters(await self._fleet.route(queue.topic))
        found = masters.get(queue.broker_name)
        if found is None or not found.address:
            raise BrokerNotFoundError(
                f"broker {queue.broker_name} has no master with topic {queue.topic}; there are"
                f" {', '.join(map(str, masters.values())) or 'none'}"
            )
        return found

    # --- groups -----------------------------------------------------------------------------------

    async def get(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group stands in a queue; None if it has never been there."""
        request = QueryConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        address = (await self._master(queue)).address
        try:
            answer = await self._fleet.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, request)
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(QueryConsumerOffsetResponse, answer.ext).consume_offset

    async def set(self, group: str, queue: MessageQueue, consume_offset: int) -> None:
        """Let a group go on at an offset of one queue; mqadmin cannot set 0.

        Members that are online hear of it only from a broker that resets by itself
        (useServerSideResetOffset). To any other mqadmin sends a request that it takes for one to
        begin all queues anew; here it is refused.
        """
        broker = await self._master(queue)
        if not await self._is_online(broker, group):
            await self._commit(broker, group, queue, consume_offset)
        elif await self._resets_itself(broker):
            await self._reset_queue(broker, group, queue, consume_offset)
        else:
            raise ClientError(
                f"group {group} is online, and its consumers would not hear of the offset from"
                f" {broker}, which has useServerSideResetOffset=false or does not know it: stop"
                " them first, or reset by time"
            )

    async def _is_online(self, broker: Broker, group: str) -> bool:
        request = GetConsumerConnectionListRequest(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        try:
            await self._fleet.ask(broker.address, code, request)
        except RefusedError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return False
            raise
        return True

    async def _resets_itself(self, broker: Broker) -> bool:
        answer = await self._fleet.ask(broker.address, RequestCode.GET_BROKER_CONFIG)
        config = parse_properties(bytes(answer.body).decode())
        return config.get("useServerSideResetOffset") == "true"

    async def _commit(
        self, broker: Broker, group: str, queue: MessageQueue, consume_offset: int
    ) -> None:
        request = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            consume_offset=consume_offset,
        )
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        answer = await self._fleet.ask(broker.address, code, request)
        if answer.remark == _ALREADY_RESET:
            await self._reset_queue(broker, group, queue, consume_offset)

    async def _reset_queue(
        self, broker: Broker, group: str, queue: MessageQueue, consume_offset: int
    ) -> None:
        """For brokers that reset by themselves; see ``set``."""
        request = ResetOffsetRequest(
            group=group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=consume_offset
        )
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        await self._fleet.ask(broker.address, code, request)

    async def clone(
        self, source: str, target: str, topic: str | None = None
    ) -> dict[MessageQueue, int]:
        """Give a group the offsets of another one, in one topic or in all of them.

        The other group has to be there. mqadmin clones all topics whatever it is told.
        """

        async def copy(broker: Broker) -> dict[MessageQueue, int]:
            request = GetConsumeStatsRequest(consumer_group=source, topic=topic)
            code = RequestCode.GET_CONSUME_STATS
            stats = await self._fleet.ask_body(ConsumeStats, broker.address, code, request)
            offsets = {queue: at.consumer_offset for queue, at in stats.offset_table.items()}
            for queue, offset in offsets.items():
                await self._commit(broker, target, queue, offset)
            return offsets

        brokers = await self._fleet.of_group(source, topic)
        answers = await self._fleet.ask_each(
            f"clone the offsets of group {source} to {target}", brokers, copy
        )
        return answers.checked(_join(answers))

    # --- by time ----------------------------------------------------------------------------------

    async def reset(
        self, group: str, topic: str, time_ms: int, *, is_forced: bool = True
    ) -> dict[MessageQueue, int]:
        """Let a group go on at a time, or at the ``END``; where it now stands in each queue.

        Members that are online hear of it. Where nobody is, and the broker needs somebody, the
        offsets are written as ``reset_offline`` does. Unless it is forced, no queue goes forward;
        but brokers that reset by themselves (useServerSideResetOffset) do not look at that.
        """
        request = ResetOffsetRequest(
            group=group, topic=topic, timestamp=time_ms, is_force=is_forced, queue_offset=-1
        )
        route = await self._fleet.route(topic)

        async def move(broker: Broker) -> dict[MessageQueue, int]:
            code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
            try:
                answer = await self._fleet.ask(broker.address, code, request)
            except RefusedError as error:
                if not await self._needs_offline(broker, group, error):
                    raise
                written = await self._write(broker, route, group, topic, time_ms, is_forced)
                return {
                    MessageQueue(one.broker_name, one.queue_id, topic): one.rollback_offset
                    for one in written
                }
            return decode_body(ResetOffsetBody, answer.body).offset_table

        answers = await self._fleet.ask_each(
            f"reset group {group} in topic {topic}", list(_masters(route).values()), move
        )
        return answers.checked(_join(answers))

    async def _needs_offline(self, broker: Broker, group: str, error: RefusedError) -> bool:
        """Whether a broker only relays resets, and nobody of the group is there to hear of it.

        Brokers before 5.0 look for offsets first: a group without any "does not exist".
        """
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return True
        if error.code != ResponseCode.SYSTEM_ERROR or "not exist" not in error.remark:
            return False
        return not await self._is_online(broker, group)

    async def reset_offline(
        self, group: str, topic: str, time_ms: int, *, is_forced: bool = True
    ) -> list[RollbackStats]:
        """The same for a group of which nobody is online; nobody would hear of it.

        Unless it is forced, a queue stays where it is rather than go forward.
        """
        route = await self._fleet.route(topic)
        answers = await self._fleet.ask_each(
            f"reset group {group} in topic {topic}",
            list(_masters(route).values()),
            lambda broker: self._write(broker, route, group, topic, time_ms, is_forced),
        )
        return answers.checked([one for found in answers.results.values() for one in found])

    async def _write(
        self,
        broker: Broker,
        route: TopicRouteData,
        group: str,
        topic: str,
        time_ms: int,
        is_forced: bool,
    ) -> list[RollbackStats]:
        moved: list[RollbackStats] = []
        for queue, at in (await self._standing(broker, route, group, topic)).items():
            target = (
                await self._max(broker, queue)
                if time_ms == END
                else await self._search(broker, queue, time_ms, BoundaryType.LOWER)
            )
            one = RollbackStats(
                broker_name=queue.broker_name,
                broker_offset=at.broker_offset,
                consumer_offset=at.consumer_offset,
                queue_id=queue.queue_id,
                rollback_offset=at.consumer_offset,
                timestamp_offset=target,
            )
            if is_forced or target <= at.consumer_offset:
                await self._commit(broker, group, queue, target)
                one.rollback_offset = target
            moved.append(one)
        return moved

    async def _standing(
        self, broker: Broker, route: TopicRouteData, group: str, topic: str
    ) -> Mapping[MessageQueue, OffsetWrapper]:
        """Where a group stands; one that has never consumed stands at the beginning."""
        stats = await self._fleet.ask_body(
            ConsumeStats,
            broker.address,
            RequestCode.GET_CONSUME_STATS,
            GetConsumeStatsRequest(consumer_group=group),
        )
        found = {queue: at for queue, at in stats.offset_table.items() if queue.topic == topic}
        if found:
            return found
        ends = await self._fleet.ask_body(
            TopicStatsTable,
            broker.address,
            RequestCode.GET_TOPIC_STATS_INFO,
            GetTopicStatsInfoRequest(topic=topic),
        )
        counts = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
        return {
            queue: OffsetWrapper(broker_offset=at.max_offset, consumer_offset=at.min_offset)
            for queue, at in ends.offset_table.items()
            if queue.queue_id < counts.get(queue.broker_name, 0)
        }


def _masters(route: TopicRouteData) -> dict[str, Broker]:
    """Broker name -> its master, which may have no address now."""
    return {data.broker_name: brokers_of(data)[0] for data in route.broker_datas}


def _join(answers: Answers[Broker, dict[MessageQueue, int]]) -> dict[MessageQueue, int]:
    return {queue: at for found in answers.results.values() for queue, at in found.items()}
