"""The clients of a broker: who produces, who consumes, in which groups, over which connection.

Clients say so in their heartbeats. A client is forgotten when it says so, when its connection ends
or when it has been silent for two minutes; the other members of its groups are told at once, and
share out the queues anew.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol

from roketto.broker.consumer_group import ConsumerGroup, Member
from roketto.protocol.bodies.heartbeat import ConsumerData, MessageModel, SubscriptionData
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.pushes import NotifyConsumerIdsChangedRequest
from roketto.protocol.limits import FILE_NAME_BYTES_MAX, TAG_EXPRESSION_BYTES_MAX
from roketto.remoting.connection import Connection

__all__ = ["Clients"]

log = logging.getLogger(__name__)

CLIENTS_MAX: Final = 100_000
"""Connections with a heartbeat; a broker has at most as many connections."""

GROUPS_PER_CLIENT_MAX: Final = 1_000
"""Producer and consumer groups of one connection; programs have a handful, proxies hundreds."""

SUBSCRIPTIONS_PER_GROUP_MAX: Final = 10_000
"""Topics of one group; programs have a handful, bridges thousands."""

NAME_CHARS_MAX: Final = 255
"""A client id or the name of a producer group: address, process and some more."""


class ClientConfig(Protocol):
    """What is configured about clients."""

    channel_expired_timeout: int
    notify_consumer_ids_changed_enable: bool


@dataclass(slots=True)
class _Ties:
    """The groups that one connection is a member of, in order."""

    consumers: dict[str, None] = field(default_factory=dict)
    producers: dict[str, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.consumers) + len(self.producers)


class Clients:
    """Groups -> connections, and back. ``now_s`` is a clock that never goes back.

    ``on_group_change`` is called with a consumer group whose members or topics are others now,
    after its members have been told; ``on_group_gone`` when the last of them has left.
    """

    def __init__(self, config: ClientConfig, now_s: Callable[[], float]) -> None:
        self._config = config
        self._now_s = now_s
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Member]] = {}
        self._producer_of_id: dict[str, Connection] = {}
        self._ties: dict[Connection, _Ties] = {}
        self.on_group_change: Callable[[str], None] = _ignore
        self.on_group_gone: Callable[[str], None] = _ignore

    # --- who is there -----------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many connections have a client."""
        return len(self._ties)

    @property
    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """The consumer groups that are online, by name."""
        return self._consumers

    @property
    def inconsistencies(self) -> dict[str, str]:
        """Groups whose members disagree about what they consume, and how."""
        groups = self._consumers.values()
        return {g.name: g.disagreement for g in groups if g.disagreement is not None}

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """The group, None if nobody of it is online."""
        return self._consumers.get(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """How a group subscribes to a topic, None if it is not online or does not."""
        found = self._consumers.get(group)
        return None if found is None else found.subscription(topic)

    def client_ids(self, group: str) -> list[str]:
        """The ids of the clients of a consumer group, each once."""
        found = self._consumers.get(group)
        return [] if found is None else found.client_ids

    def groups_subscribed_to(self, topic: str) -> list[str]:
        """The consumer groups online that subscribe to a topic."""
        return [g.name for g in self._consumers.values() if topic in g.subscriptions]

    def producer(self, client_id: str) -> Connection | None:
        """The connection of a producing client."""
        return self._producer_of_id.get(client_id)

    def producers(self, group: str) -> list[Member]:
        """The members of a producer group."""
        return list(self._producers.get(group, {}).values())

    def all_producers(self) -> dict[str, list[Member]]:
        """Every producer group with its members."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def silent_ms(self, member: Member) -> int:
        """How long ago the last heartbeat of a member was."""
        return max(0, int((self._now_s() - member.seen_s) * 1000))

    def producer_connections(self, group: str) -> list[Connection]:
        """The connections of a producer group."""
        return list(self._producers.get(group, {}))

    # --- heartbeats -------------------------------------------------------------------------------

    def check_heartbeat(
        self,
        connection: Connection,
        client_id: str,
        consumers: Iterable[ConsumerData],
        producers: Iterable[str],
    ) -> None:
        """Refuse, with a RequestError, a heartbeat that would fill this table."""
        _check_length("client id", client_id, NAME_CHARS_MAX)
        if connection not in self._ties and len(self._ties) >= CLIENTS_MAX:
            _refuse(f"{len(self._ties)} clients are connected, at most {CLIENTS_MAX} are taken")
        ties = self._ties.get(connection) or _Ties()
        names = [*producers, *(data.group_name for data in consumers)]
        new = {name for name in names if name not in ties.consumers and name not in ties.producers}
        if len(ties) + len(new) > GROUPS_PER_CLIENT_MAX:
            _refuse(f"{len(ties) + len(new)} groups of one client, {GROUPS_PER_CLIENT_MAX} at most")
        for name in names:
            _check_length("group", name, NAME_CHARS_MAX)
        for data in consumers:
            _check_subscriptions(data)

    def register_consumer(
        self, data: ConsumerData, member: Member, *, without_sub: bool, should_notify: bool
    ) -> bool:
        """Note a member of a consumer group; whether the group has changed by it.

        ``without_sub`` leaves out the subscriptions, because they are what they were.
        """
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        is_new = group.update_member(data, member)
        if is_new:
            self._tie(member.connection).consumers[group.name] = None
            log.info("%.255r joins consumer group %s", member.client_id, group.name)
        changed = not without_sub and group.update_subscriptions(data, member.connection)
        if is_new or changed:
            self._tell(group, should_notify=should_notify)
        return is_new or changed

    def register_producer(self, name: str, member: Member) -> None:
        """Note a member of a producer group."""
        members = self._producers.setdefault(name, {})
        known = members.get(member.connection)
        if known is None:
            members[member.connection] = member
            self._tie(member.connection).producers[name] = None
        else:
            known.seen_s = member.seen_s
            known.client_id = member.client_id
        self._producer_of_id[member.client_id] = member.connection

    def member(self, connection: Connection, client_id: str, request: Command) -> Member:
        """The client that has sent this request, seen now."""
        return Member(client_id, connection, request.language, request.version, self._now_s())

    # --- farewells --------------------------------------------------------------------------------

    def unregister_consumer(
        self, name: str, connection: Connection, *, should_notify: bool
    ) -> None:
        """A client leaves a consumer group."""
        ties = self._ties.get(connection)
        if ties is not None and name in ties.consumers:
            self._leave_consumers(name, connection, should_notify=should_notify)

    def unregister_producer(self, name: str, connection: Connection) -> None:
        """A client leaves a producer group."""
        ties = self._ties.get(connection)
        if ties is not None and name in ties.producers:
            self._leave_producers(name, connection)

    def forget(self, connection: Connection) -> None:
        """A connection has ended: its client leaves all groups."""
        ties = self._ties.get(connection)
        if ties is None:
            return
        for name in list(ties.producers):
            self._leave_producers(name, connection)
        for name in list(ties.consumers):
            self._leave_consumers(name, connection, should_notify=True)
        self._ties.pop(connection, None)

    def expire(self) -> None:
        """Let go of clients whose heartbeats have ceased; to be called every few seconds.

        A connection is closed when nothing keeps it: one that still consumes in another group, or
        produces, stays.
        """
        seen_least_s = self._now_s() - self._config.channel_expired_timeout / 1000
        silent: dict[Connection, None] = {}
        for name, group in list(self._consumers.items()):
            for member in group.members:
                if member.seen_s < seen_least_s:
                    log.warning("%.255r of consumer group %s is silent", member.client_id, name)
                    silent[member.connection] = None
                    self._leave_consumers(name, member.connection, should_notify=True)
        for name, members in list(self._producers.items()):
            for member in list(members.values()):
                if member.seen_s < seen_least_s:
                    silent[member.connection] = None
                    self._leave_producers(name, member.connection)
        for connection in silent:
            if not len(self._ties[connection]):
                connection.close(f"no heartbeat for {self._config.channel_expired_timeout} ms")

    # --- how --------------------------------------------------------------------------------------

    def _tie(self, connection: Connection) -> _Ties:
        ties = self._ties.get(connection)
        if ties is None:
            ties = self._ties[connection] = _Ties()
            connection.add_close_callback(self.forget)
        return ties

    def _leave_consumers(self, name: str, connection: Connection, *, should_notify: bool) -> None:
        self._ties[connection].consumers.pop(name, None)
        group = self._consumers.get(name)
        member = None if group is None else group.remove(connection)
        if group is None or member is None:
            return
        log.info("%.255r leaves consumer group %s", member.client_id, name)
        if not group.members:
            del self._consumers[name]
            self.on_group_gone(name)
        self._tell(group, should_notify=should_notify)

    def _leave_producers(self, name: str, connection: Connection) -> None:
        self._ties[connection].producers.pop(name, None)
        members = self._producers.get(name, {})
        member = members.pop(connection, None)
        if member is not None and self._producer_of_id.get(member.client_id) is connection:
            del self._producer_of_id[member.client_id]
        if not members:
            self._producers.pop(name, None)

    def _tell(self, group: ConsumerGroup, *, should_notify: bool) -> None:
        """Let every member share out the queues anew; who broadcasts shares nothing."""
        is_broadcast = group.message_model is MessageModel.BROADCASTING
        if should_notify and self._config.notify_consumer_ids_changed_enable and not is_broadcast:
            ext = encode_header(NotifyConsumerIdsChangedRequest(consumer_group=group.name))
            for member in group.members:
                member.connection.send_one_way(
                    Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, dict(ext))
                )
        self.on_group_change(group.name)


def _ignore(_group: str) -> None:
    """Nobody listens."""


def _check_subscriptions(data: ConsumerData) -> None:
    count = len(data.subscription_data_set)
    if count > SUBSCRIPTIONS_PER_GROUP_MAX:
        _refuse(
            f"group {data.group_name} subscribes to {count} topics, at most "
            f"{SUBSCRIPTIONS_PER_GROUP_MAX} are taken; use several groups"
        )
    for subscription in data.subscription_data_set:
        _check_length("topic", subscription.topic, FILE_NAME_BYTES_MAX)
        _check_length("expression", subscription.sub_string or "", TAG_EXPRESSION_BYTES_MAX)
        _check_length("expression type", subscription.expression_type, NAME_CHARS_MAX)


def _check_length(kind: str, text: str, chars_max: int) -> None:
    if len(text) > chars_max:
        _refuse(
            f"{kind} {text[:64]!a}... has {len(text)} characters, at most {chars_max} are taken"
        )


def _refuse(reason: str) -> NoReturn:
    raise RequestError(ResponseCode.SYSTEM_ERROR, f"the heartbeat is refused: {reason}")
