"""Subscriptions: which messages of a topic a consumer wants, by tags or by SQL92; pure.

Brokers compare hashes of tags, and two tags may have the same one: the client looks again at the
tags themselves. SQL92 is for brokers alone.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from roketto.client.errors import ClientError
from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.errors import FilterError
from roketto.protocol.property_names import TAGS
from roketto.protocol.record import Record
from roketto.protocol.tags import ALL_TAGS, parse_tags

__all__ = ["ALL_TAGS", "SQL92", "TAG", "IllegalSubscriptionError", "Sql", "Subscription",
           "make_subscription"]  # fmt: skip

TAG: Final = "TAG"
SQL92: Final = "SQL92"


class IllegalSubscriptionError(ClientError, ValueError):
    """An expression that no broker would understand; nothing was asked of any."""


class Sql(str):
    """Marks an expression as SQL92: ``consumer.subscribe("Orders", Sql("price > 100"))``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and what is wanted of it; ``make_subscription`` makes one.

    wanted = make_subscription("Orders", "new || paid", wall_ms())
    wanted.wants(record)
    """

    topic: str
    expression: str
    expression_type: str = TAG
    version_ms: int = 0
    """When it was made or renewed: of two, brokers believe the later one."""
    tags: frozenset[str] = field(init=False, compare=False, repr=False)
    """The only tags that are wanted; all messages are if it is empty."""
    _codes: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tags, codes = frozenset[str](), frozenset[int]()
        if self.expression_type == TAG:
            parsed = parse_tags(self.expression)
            tags, codes = parsed.tags, parsed.codes
        object.__setattr__(self, "tags", tags)
        object.__setattr__(self, "_codes", tuple(sorted(codes)))

    def wants(self, record: Record) -> bool:
        """Whether it is for this consumer, as far as the client can tell."""
        return not self.tags or record.get_property(TAGS) in self.tags

    def data(self) -> SubscriptionData:
        """As heartbeats tell it."""
        return SubscriptionData(
            code_set=list(self._codes),
            expression_type=self.expression_type,
            sub_string=self.expression,
            sub_version=self.version_ms,
            tags_set=sorted(self.tags),
            topic=self.topic,
        )

    def renewed(self, version_ms: int) -> "Subscription":
        """The same, later: brokers take it for the newest when queues have moved."""
        return replace(self, version_ms=version_ms)


def make_subscription(
    topic: str, expression: "str | Sql" = ALL_TAGS, version_ms: int = 0
) -> Subscription:
    """``a || b`` wants messages with these tags, ``*`` all, and ``Sql("...")`` what it matches."""
    if isinstance(expression, Sql):
        if not expression.strip():
            raise IllegalSubscriptionError(
                f'the SQL92 filter for {topic} is empty; write one, such as Sql("a > 3"), or *'
            )
        return Subscription(topic, str(expression), SQL92, version_ms)
    try:
        return Subscription(topic, expression or ALL_TAGS, TAG, version_ms)
    except FilterError as error:
        raise IllegalSubscriptionError(f"subscription to {topic}: {error.reason}") from error
