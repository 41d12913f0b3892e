"""Our client with a bug in it, so that a fault test can be seen to fail; put in by monkeypatch."""

import asyncio

import pytest

from roketto.client.calls import Calls
from roketto.client.client import Client
from roketto.client.delivery import Delivery
from roketto.client.errors import ClientError, UnreachableError
from roketto.client.lite_queue import LiteQueue
from roketto.client.message import MessageQueue, SendResult, SendStatus
from roketto.client.offset_store import BrokerOffsets
from roketto.client.orderly import OrderlyConsumption
from roketto.client.owned_queue import OwnedQueue
from roketto.client.process_queue import ProcessQueue
from roketto.client.push_rounds import PushRounds
from roketto.client.queue_locks import QueueLocks
from roketto.client.received import ReceivedMessage
from roketto.client.route_table import RouteTable
from roketto.client.sending import Outgoing
from roketto.client.targets import Target
from roketto.remoting.errors import RemotingError

Patch = pytest.MonkeyPatch


# --- producers ------------------------------------------------------------------------------------


def acknowledge_early(patch: Patch) -> None:
    """A send is over when its message was handed to the network."""

    async def attempt(
        delivery: Delivery, outgoing: Outgoing, target: Target, queue: MessageQueue, limit_ms: int
    ) -> SendResult:
        address = target.masters[queue.broker_name]
        try:
            await delivery._calls.pool.send_one_way(address, outgoing.command(queue))
        except RemotingError as error:
            raise delivery._calls.unreachable(error) from error
        return _made_up(outgoing, queue)

    patch.setattr(Delivery, "_attempt", attempt)


def take_silence_for_consent(patch: Patch) -> None:
    """A broker that does not answer in time has stored the message."""
    attempt = Delivery._attempt

    async def attempt_anyhow(
        delivery: Delivery, outgoing: Outgoing, target: Target, queue: MessageQueue, limit_ms: int
    ) -> SendResult:
        try:
            return await attempt(delivery, outgoing, target, queue, limit_ms)
        except UnreachableError as error:
            if not error.is_timeout:
                raise
            return _made_up(outgoing, queue)

    patch.setattr(Delivery, "_attempt", attempt_anyhow)


def _made_up(outgoing: Outgoing, queue: MessageQueue) -> SendResult:
    return SendResult(SendStatus.SEND_OK, outgoing.message_id, queue, 0)


def deny_what_was_sent(patch: Patch) -> None:
    """Whatever was not answered is said never to have been sent."""
    unreachable = Calls.unreachable

    def deny(calls: Calls, error: RemotingError) -> UnreachableError:
        found = unreachable(calls, error)
        found.is_sent = False
        return found

    patch.setattr(Calls, "unreachable", deny)


def forget_routes(patch: Patch) -> None:
    """A route that cannot be asked for again is none any more."""

    async def refresh_or_forget(routes: RouteTable, topic: str) -> None:
        try:
            await routes.refresh(topic)
        except ClientError:
            routes._routes.pop(topic, None)

    patch.setattr(RouteTable, "_try_refresh", refresh_or_forget)


# --- consumers ------------------------------------------------------------------------------------


def commit_newest(patch: Patch) -> None:
    """The consume offset is behind the newest message that is here, not at the oldest."""
    remove = ProcessQueue.remove

    def remove_and_skip(queue: ProcessQueue, messages: list[ReceivedMessage]) -> int:
        return max(remove(queue, messages), queue._last_offset + 1)

    patch.setattr(ProcessQueue, "remove", remove_and_skip)


def commit_begun(patch: Patch) -> None:
    """In order: a message is consumed when a listener is given it."""
    consume = OrderlyConsumption._consume

    async def commit_and_consume(
        consumption: OrderlyConsumption, queue: OwnedQueue, messages: list[ReceivedMessage]
    ) -> float:
        consumption._commit(queue)
        return await consume(consumption, queue, messages)

    patch.setattr(OrderlyConsumption, "_consume", commit_and_consume)


def commit_fetched(patch: Patch) -> None:
    """A lite pull consumer commits what it has fetched, and not what it has handed out."""
    patch.setattr(LiteQueue, "consume_offset", property(lambda queue: queue.position))


def commit_handed(patch: Patch) -> None:
    """It commits what it has handed out when it ends, whether that was handled or not."""
    patch.setattr(LiteQueue, "handled_offset", LiteQueue.consume_offset)


def tell_nobody(patch: Patch) -> None:
    """Brokers are not told how far a group is."""

    async def store(
        offsets: BrokerOffsets, queue: MessageQueue, consume_offset: int
    ) -> ClientError | None:
        return None

    patch.setattr(BrokerOffsets, "_store", store)


def stay_unknown(patch: Patch) -> None:
    """A broker that was started again is not told who is here before the next heartbeat is due."""
    patch.setattr(Client, "_greet", lambda client, address: None)


def lock_without_asking(patch: Patch) -> None:
    """In order: every member takes every queue for its own."""

    async def ask(
        locks: QueueLocks, broker_name: str, names: list[MessageQueue]
    ) -> set[MessageQueue]:
        return set(names)

    patch.setattr(QueueLocks, "_ask", ask)


def hear_late(patch: Patch) -> None:
    """Members hear of each other two seconds late, and have their queues that much longer."""
    soon = PushRounds.soon

    def soon_but_late(rounds: PushRounds) -> None:
        asyncio.get_running_loop().call_later(2.0, soon, rounds)

    patch.setattr(PushRounds, "soon", soon_but_late)


def miss_members(patch: Patch) -> None:
    """Nobody looks who is in the group when a broker says that this has changed."""
    patch.setattr(PushRounds, "soon", lambda rounds: None)
