"""Connected clients as operators see them: who is there, how they are, whether they agree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from roketto.admin.errors import GroupOfflineError, PartlyFailedError
from roketto.admin.fleet import Broker, Fleet, ask_all
from roketto.client.calls import expect_success
from roketto.client.errors import ClientError, RefusedError
from roketto.client.received import ReceivedMessage
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.connections import Connection, ConsumerConnection, ProducerConnection
from roketto.protocol.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.headers.base import Header
from roketto.protocol.headers.clients import (
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
)
from roketto.protocol.headers.pushes import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)

__all__ = ["Clients", "SubscriptionConflict", "find_conflicts", "merge_consumers"]

_RELAY_TIMEOUT_MS: Final = 15_000
"""A broker gives a consumer ten seconds to answer."""


@dataclass(frozen=True, slots=True)
class SubscriptionConflict:
    """A topic that the members of a group subscribe to differently: some of its messages are lost
    on some of them.
    """

    topic: str
    expressions: Mapping[str, str | None]
    """Client id -> its expression; None if it does not subscribe."""


class Clients:
    """Made by ``Admin``, as ``admin.clients``.

    for connection in (await admin.clients.consumers("billing")).connection_set:
        print(connection.client_id, connection.client_addr)
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def consumers(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Its members and how they consume; GroupOfflineError if there are none.

        All brokers that know the group are asked, or one. Java asks one at random.
        """
        brokers = (
            await self._fleet.of_group(group)
            if broker is None
            else await self._fleet.masters(broker=broker)
        )
        answers = await self._fleet.ask_each(
            f"list the consumers of group {group}", brokers, lambda one: self._consumers(one, group)
        )
        found = answers.checked(merge_consumers(answers.results.values()))
        if not found.connection_set:
            raise GroupOfflineError(
                f"no consumer of group {group} is connected to {', '.join(map(str, brokers))}"
            )
        return found

    async def _consumers(self, broker: Broker, group: str) -> ConsumerConnection:
        request = GetConsumerConnectionListRequest(consumer_group=group)
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        try:
            return await self._fleet.ask_body(ConsumerConnection, broker.address, code, request)
        except RefusedError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return ConsumerConnection()
            raise

    async def producers(self, group: str, topic: str) -> list[Connection]:
        """The members of a producer group, on the brokers of a topic; GroupOfflineError if none."""
        brokers = await self._fleet.of_topic(topic)
        answers = await self._fleet.ask_each(
            f"list the producers of group {group}", brokers, lambda one: self._producers(one, group)
        )
        found = answers.checked(_merge(answers.results.values()))
        if not found:
            raise GroupOfflineError(
                f"no producer of group {group} is connected to {', '.join(map(str, brokers))}"
            )
        return found

    async def _producers(self, broker: Broker, group: str) -> list[Connection]:
        request = GetProducerConnectionListRequest(producer_group=group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        try:
            found = await self._fleet.ask_body(ProducerConnection, broker.address, code, request)
        except RefusedError as error:
            # There is no code for it, in Java neither.
            if error.code == ResponseCode.SYSTEM_ERROR and "not exist" in error.remark:
                return []
            raise
        return found.connection_set

    # --- how they are -----------------------------------------------------------------------------

    async def running_info(
        self, group: str, client_id: str, *, with_stack: bool = False
    ) -> ConsumerRunningInfo:
        """What a consumer says of itself, by way of a broker that it is connected to.

        Java asks the first broker of the group only.
        """
        request = GetConsumerRunningInfoRequest(
            consumer_group=group, client_id=client_id, jstack_enable=with_stack
        )
        failures: dict[Broker | str, ClientError] = {}
        for broker in await self._fleet.of_group(group):
            try:
                answer = await self._relay(
                    broker.address, RequestCode.GET_CONSUMER_RUNNING_INFO, request
                )
            except ClientError as error:
                failures[broker] = error
                continue
            return decode_body(ConsumerRunningInfo, answer.body)
        raise PartlyFailedError(f"ask {client_id} of group {group}", failures, len(failures), None)

    async def running_infos(
        self, group: str, *, with_stack: bool = False
    ) -> dict[str, ConsumerRunningInfo]:
        """The same of all members of a group, by client id."""
        members = await self.consumers(group)
        ids = [connection.client_id for connection in members.connection_set]
        answers = await ask_all(
            f"ask the consumers of group {group}",
            ids,
            lambda one: self.running_info(group, one, with_stack=with_stack),
        )
        return answers.checked(answers.results)

    async def conflicts(self, group: str) -> list[SubscriptionConflict]:
        """The topics that its members do not all subscribe to in the same way; none is good."""
        return find_conflicts(await self.running_infos(group))

    async def consume(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumeMessageDirectlyResult:
        """Let a consumer have a message now, whatever its offsets; how that went."""
        request = ConsumeMessageDirectlyRequest(
            consumer_group=group,
            client_id=client_id,
            msg_id=message.offset_id,
            topic=message.record.topic,
        )
        broker = await self._fleet.at(message.store_host)
        answer = await self._relay(broker.address, RequestCode.CONSUME_MESSAGE_DIRECTLY, request)
        return decode_body(ConsumeMessageDirectlyResult, answer.body)

    async def _relay(self, address: str, code: int, request: Header) -> Command:
        answer = await self._fleet.calls.ask(address, code, request, timeout_ms=_RELAY_TIMEOUT_MS)
        expect_success(address, answer)
        return answer


# --- pure -----------------------------------------------------------------------------------------


def merge_consumers(tables: Iterable[ConsumerConnection]) -> ConsumerConnection:
    """What several brokers know of a group, in one."""
    tables = [table for table in tables if table.connection_set]
    if not tables:
        return ConsumerConnection()
    first = tables[0]
    return ConsumerConnection(
        connection_set=_merge(table.connection_set for table in tables),
        consume_from_where=first.consume_from_where,
        consume_type=first.consume_type,
        message_model=first.message_model,
        subscription_table={
            topic: said for table in tables for topic, said in table.subscription_table.items()
        },
    )


def _merge(lists: Iterable[Iterable[Connection]]) -> list[Connection]:
    """Each client once: it has a connection to each broker."""
    found: dict[str, Connection] = {}
    for connections in lists:
        for connection in connections:
            found.setdefault(connection.client_id, connection)
    return [found[client_id] for client_id in sorted(found)]


def find_conflicts(infos: Mapping[str, ConsumerRunningInfo]) -> list[SubscriptionConflict]:
    """Compare what the members of a group subscribe to.

    Versions do not count: they are the times at which each has begun. In Java they do, so that it
    reports members that only were started apart.
    """
    topics = sorted({said.topic for info in infos.values() for said in info.subscription_set})
    found: list[SubscriptionConflict] = []
    for topic in topics:
        expressions = {
            client_id: next(
                (_shown(said.expression_type, said.sub_string, said.tags_set)
                 for said in info.subscription_set if said.topic == topic),
                None,
            )
            for client_id, info in sorted(infos.items())
        }  # fmt: skip
        if len(set(expressions.values())) > 1:
            found.append(SubscriptionConflict(topic, expressions))
    return found


def _shown(kind: str, text: str | None, tags: Iterable[str]) -> str:
    """An expression in one spelling: tags sorted, and SQL92 with its name before it."""
    if kind == "TAG":
        return " || ".join(sorted(tags)) or text or "*"
    return f"{kind}: {text}"
