"""Decisions about half messages, and their commits, which the driver sees to; see half.py."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from roketto.client.calls import expect_success
from roketto.client.client import Client
from roketto.client.errors import BrokerNotFoundError, TopicNotFoundError, UnreachableError
from roketto.client.positions import Positions
from roketto.client.pulling import PullRequest, pull
from roketto.client.subscription import make_subscription
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.query import QueryMessageRequest
from roketto.protocol.headers.topics import CreateTopicRequest
from roketto.protocol.headers.transactions import EndTransactionRequest
from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.protocol.names import DEFAULT_TOPIC
from roketto.protocol.record import decode_records
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from roketto.spark.half import HalfDecision
from roketto.spark.patience import Patience
from roketto.spark.sending import check_stored, send_fields
from roketto.spark.sink_options import SinkError, SinkOptions

__all__ = ["TOPIC_PREFIX", "HalfLedger"]

log = logging.getLogger(__name__)

TOPIC_PREFIX: Final = "ROKETTO_SINK_"
_COMMITS_AT_ONCE: Final = 256
_LOOK_COUNT: Final = 32
_SETTLE_S: Final = 1.0
"""Brokers file messages by their ids a moment after they have stored them."""
_READ_AND_WRITE: Final = 6


class HalfLedger:
    """The decisions of one sink, in a topic of one queue on the broker with the smallest name.

    ledger = HalfLedger(client, options, masters, "orders-sink")
    decision = await ledger.read()
    decision, is_new = await ledger.decide(HalfDecision(7, query_id, halves))
    await ledger.publish(decision, is_fresh=is_new, keeps_order=False)
    """

    def __init__(
        self, client: Client, options: SinkOptions, masters: Mapping[str, str], sink_id: str
    ) -> None:
        self._client = client
        self._masters = masters
        self._topic = client.wrap(TOPIC_PREFIX + sink_id)
        self._group = client.wrap(options.producer_group)
        self._patience = Patience.of(options)
        self._limit_ms = options.connection.request_timeout_ms

    # --- decisions --------------------------------------------------------------------------------

    async def read(self) -> HalfDecision:
        """The last decision."""
        return await self._patience.keep_trying(
            f"read the decisions of topic {self._topic}", lambda _: self._read()
        )

    async def _read(self) -> HalfDecision:
        queue = await self._queue()
        if queue is None:
            return HalfDecision()
        positions = Positions(self._client)
        end = await positions.max_offset(queue)
        if not end:
            return HalfDecision()
        if await positions.min_offset(queue) >= end:
            log.warning(
                "topic %s has had decisions, and retention has removed them all; the sink goes on"
                " as if nothing were decided", self._topic,
            )  # fmt: skip
            return HalfDecision()
        request = PullRequest(
            queue, self._group, make_subscription(self._topic, "*", wall_ms()), end - 1, 1,
            bytes_max=2 * MESSAGE_BYTES_MAX, timeout_ms=self._limit_ms, sends_expression=True,
        )  # fmt: skip
        pulled = await pull(self._client, request)
        if not pulled.messages:
            raise UnreachableError(
                queue.broker_name,
                f"the end of topic {self._topic} cannot be read yet ({pulled.status.name})",
                is_sent=False,
            )
        return HalfDecision.decode(self._topic, pulled.messages[-1].body)

    async def _queue(self) -> MessageQueue | None:
        """Where decisions are; None if there is no such topic yet."""
        try:
            route = await self._client.routes.get(self._topic)
        except TopicNotFoundError:
            return None
        if not route.publish_queues:
            raise BrokerNotFoundError(
                f"the broker that has the decisions of topic {self._topic} is down"
            )
        return min(route.publish_queues)

    async def decide(self, decision: HalfDecision) -> tuple[HalfDecision, bool]:
        """Record a decision; the one that counts, and whether it is this one."""
        recorded = await self.read()
        if recorded.batch_id >= decision.batch_id:
            return recorded, False
        queue = await self._queue() or await self._make_topic()
        body = decision.encode()
        fields = send_fields(self._group, queue, queue.broker_name)

        async def attempt(left_ms: int) -> None:
            address = await self._client.routes.master_of(queue.broker_name, self._topic)
            command = self._client.calls.sign(
                Command(RequestCode.SEND_MESSAGE_V2, dict(fields), body)
            )
            answer = await self._client.calls.send(address, command, min(left_ms, self._limit_ms))
            check_stored(queue, address, answer)

        # Sent twice it says the same twice: the last message is the decision.
        await self._patience.keep_trying(f"decide batch {decision.batch_id}", attempt)
        return decision, True

    async def _make_topic(self) -> MessageQueue:
        broker_name = min(self._masters)
        request = CreateTopicRequest(
            topic=self._topic, default_topic=DEFAULT_TOPIC, read_queue_nums=1, write_queue_nums=1,
            perm=_READ_AND_WRITE, topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        address = self._masters[broker_name]

        async def attempt(_: int) -> MessageQueue:
            answer = await self._client.calls.ask(
                address, RequestCode.UPDATE_AND_CREATE_TOPIC, request
            )
            expect_success(address, answer)
            return MessageQueue(broker_name, 0, self._topic)

        try:
            return await self._patience.keep_trying(f"make topic {self._topic}", attempt)
        except SinkError as error:
            raise SinkError(
                f"{error}; make it yourself: mqadmin updateTopic -b {address} -t {self._topic}"
                " -r 1 -w 1"
            ) from error

    # --- commits ----------------------------------------------------------------------------------

    async def publish(self, decision: HalfDecision, *, is_fresh: bool, keeps_order: bool) -> None:
        """Commit all half messages; unless it is fresh, those that are not delivered yet."""
        if not is_fresh:
            await asyncio.sleep(_SETTLE_S)
        queues = [
            (MessageQueue(broker_name, int(queue_id), topic), halves)
            for broker_name, topics in decision.halves.items()
            for topic, queues in topics.items()
            for queue_id, halves in queues.items()
        ]
        strides = 1 if keeps_order else max(1, _COMMITS_AT_ONCE // max(1, len(queues)))
        tasks = [
            asyncio.get_running_loop().create_task(
                self._commit_in_order(queue, halves[stride::strides], is_fresh)
            )
            for queue, halves in queues
            for stride in range(min(strides, len(halves)))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _commit_in_order(
        self, queue: MessageQueue, halves: list[list[int | str]], is_fresh: bool
    ) -> None:
        for entry in halves:
            await self._commit(queue, entry, is_fresh)

    async def _commit(self, queue: MessageQueue, entry: list[int | str], is_fresh: bool) -> None:
        half_queue_offset, log_offset, message_id = int(entry[0]), int(entry[1]), str(entry[2])
        request = EndTransactionRequest(
            topic=queue.topic,
            producer_group=self._group,
            half_queue_offset=half_queue_offset,
            log_offset=log_offset,
            commit_or_rollback=TRANSACTION_COMMIT,
            # Those of a producer itself are refused when the message is older than its immunity.
            from_transaction_check=True,
            msg_id=message_id,
            transaction_id=message_id,
            target_broker_name=queue.broker_name,
        )
        is_doubtful = not is_fresh

        async def attempt(left_ms: int) -> None:
            nonlocal is_doubtful
            limit_ms = min(left_ms, self._limit_ms)
            address = await self._client.routes.master_of(queue.broker_name, queue.topic)
            if is_doubtful and await self._is_delivered(address, queue, message_id, limit_ms):
                return
            is_doubtful = True
            try:
                answer = await self._client.calls.ask(
                    address, RequestCode.END_TRANSACTION, request, timeout_ms=limit_ms
                )
            except UnreachableError:
                await asyncio.sleep(_SETTLE_S)
                raise
            expect_success(address, answer)

        await self._patience.keep_trying(
            f"commit message {message_id} of topic {queue.topic} on {queue.broker_name}", attempt
        )

    async def _is_delivered(
        self, address: str, queue: MessageQueue, message_id: str, limit_ms: int
    ) -> bool:
        request = QueryMessageRequest(
            topic=queue.topic,
            key=message_id,
            max_num=_LOOK_COUNT,
            begin_timestamp=0,
            end_timestamp=2**63 - 1,
            is_unique_key=True,
        )
        answer = await self._client.calls.ask(
            address, RequestCode.QUERY_MESSAGE, request, timeout_ms=limit_ms
        )
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return False
        expect_success(address, answer)
        return any(
            record.topic == queue.topic and record.get_property(names.UNIQ_KEY) == message_id
            for record in decode_records(answer.body)
        )
