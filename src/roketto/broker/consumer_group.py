"""One consumer group that is online: its members, what they subscribe to, and who disagrees.

As in Java, the group has one set of subscriptions, and the last heartbeat decides: a topic that it
does not name is taken out. So members that subscribe differently keep taking each other's topics
away, and each of them misses messages. ``disagreement`` says so in words.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from roketto.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roketto.protocol.tags import ALL_TAGS
from roketto.remoting.connection import Connection

__all__ = ["ConsumerGroup", "Member"]

log = logging.getLogger(__name__)

_SHOWN_CHARS_MAX: Final = 512


class Claims(NamedTuple):
    """What one member says of its group; all members should say the same."""

    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_from_where: ConsumeFromWhere | None
    filters: frozenset[tuple[str, str, str]]
    """Topic, type of expression, expression."""


@dataclass(slots=True, eq=False)
class Member:
    """One client in one group; producers have no claims."""

    client_id: str
    connection: Connection
    language: int
    version: int
    seen_s: float
    claims: Claims | None = None


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The members of a group by connection, and what the last of them to speak wants."""

    name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    fingerprint: int | None = None
    """That of the last heartbeat; clients of 5.1 and later send one, others 0."""
    disagreement: str | None = None
    """What members say differently, for operators; None while they agree."""
    _members: dict[Connection, Member] = field(default_factory=dict)
    _subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        """Who is there, in the order they came."""
        return list(self._members.values())

    @property
    def client_ids(self) -> list[str]:
        """The ids of the members, each once: clients share out queues by them.

        A client that has reconnected may be there twice until its old connection is found dead.
        """
        return list(dict.fromkeys(member.client_id for member in self._members.values()))

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """Topic -> how the group subscribes to it."""
        return self._subscriptions

    def subscription(self, topic: str) -> SubscriptionData | None:
        return self._subscriptions.get(topic)

    def member(self, connection: Connection) -> Member | None:
        return self._members.get(connection)

    def find(self, client_id: str) -> Member | None:
        """The member with an id; of a client that is there twice, the newer connection."""
        for member in reversed(self._members.values()):
            if member.client_id == client_id:
                return member
        return None

    def update_member(self, said: ConsumerData, member: Member) -> bool:
        """Take note of a heartbeat; whether the member is a new one."""
        self._note_change("consume type", self.consume_type, said.consume_type)
        self._note_change("message model", self.message_model, said.message_model)
        self._note_change("first offset", self.consume_from_where, said.consume_from_where)
        self.consume_type = said.consume_type
        self.message_model = said.message_model
        self.consume_from_where = said.consume_from_where
        known = self._members.get(member.connection)
        if known is None:
            self._members[member.connection] = member
            return True
        if known.client_id != member.client_id:
            log.error(
                "group %s: the connection of %.255r now is one of %.255r",
                self.name, known.client_id, member.client_id,
            )  # fmt: skip
            known.client_id = member.client_id
        known.seen_s = member.seen_s
        return False

    def remove(self, connection: Connection) -> Member | None:
        """Take a member out; None if it was not there."""
        member = self._members.pop(connection, None)
        if member is not None:
            self._compare()
        return member

    def update_subscriptions(self, said: ConsumerData, connection: Connection) -> bool:
        """Subscribe as a member says, and to nothing else; whether the topics have changed.

        Of two versions of a subscription the newer is kept: a client counts them up when it
        rebalances, and pulls with the new one are refused until its heartbeat comes.
        """
        changed = False
        wanted = {}
        for subscription in said.subscription_data_set:
            topic = subscription.topic
            wanted[topic] = subscription
            old = self._subscriptions.get(topic)
            if old is None or subscription.sub_version > old.sub_version:
                changed |= old is None
                self._subscriptions[topic] = subscription
        for topic in self._subscriptions.keys() - wanted.keys():
            log.warning("group %s no longer subscribes to %.255r", self.name, topic)
            del self._subscriptions[topic]
            changed = True
        self._claim(said, wanted.values(), connection)
        return changed

    def _claim(
        self, said: ConsumerData, wanted: Iterable[SubscriptionData], connection: Connection
    ) -> None:
        claims = Claims(
            said.consume_type,
            said.message_model,
            said.consume_from_where,
            frozenset((w.topic, w.expression_type, w.sub_string or ALL_TAGS) for w in wanted),
        )
        member = self._members[connection]
        if member.claims != claims:
            member.claims = claims
            self._compare()

    def _compare(self) -> None:
        """Find out whether members disagree; say so in the log once, and once when it is over."""
        before = self.disagreement
        self.disagreement = _describe(self._members.values())
        if self.disagreement is None:
            if before is not None:
                log.info("group %s: its members agree again", self.name)
        elif self.disagreement != before:
            log.warning(
                "group %s: its members disagree, so that some of them miss messages: %s; "
                "start all members of a group with the same subscriptions",
                self.name, self.disagreement,
            )  # fmt: skip

    def _note_change(self, what: str, before: object, after: object) -> None:
        if self._members and before != after:
            log.warning("group %s: its %s was %s and is %s now", self.name, what, before, after)


def _describe(members: Iterable[Member]) -> str | None:
    """What the first two members that disagree say; None if all agree."""
    first: Member | None = None
    for member in members:
        if member.claims is None:
            continue
        if first is None or first.claims is None:
            first = member
        elif member.claims != first.claims:
            return f"{_show(first, first.claims)}, but {_show(member, member.claims)}"
    return None


def _show(member: Member, claims: Claims) -> str:
    how = [value.name for value in claims[:3] if value is not None]
    filters = [f"{topic} {expression}" for topic, _, expression in sorted(claims.filters)]
    text = f"{member.client_id} wants {', '.join(filters) or 'nothing'} ({', '.join(how)})"
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}..."
