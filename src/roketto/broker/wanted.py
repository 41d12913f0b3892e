"""What a subscription wants, ready for the store: tag codes, or a look at the properties."""

from collections.abc import Callable
from typing import Final

from roketto.protocol.bodies.heartbeat import SubscriptionData
from roketto.protocol.errors import FilterError
from roketto.protocol.limits import FILTER_BYTES_MAX
from roketto.protocol.properties import decode_properties
from roketto.protocol.property_names import RETRY_TOPIC
from roketto.protocol.sql import SqlFilter
from roketto.protocol.tags import ALL_TAGS, parse_tags

FilterOfTopic = Callable[[str], SqlFilter | None]
"""The SQL filter that a group has on a topic; None if it has none there."""

_DECODING_UNITS: Final = 100
"""Work for each byte of properties before an expression is asked. An expression may look at all of
them with each of its operators, of which it has the more the longer it is."""


class Wanted:
    """Which messages go to a consumer; this one wants those with certain tags.

    ``codes`` are compared in the queue's units, None lets all pass; ``needs_properties`` says
    whether ``matches`` has to be asked as well.
    """

    codes: frozenset[int] | None
    needs_properties: bool

    def __init__(self, codes: frozenset[int] | None) -> None:
        self.codes = codes
        self.needs_properties = False

    def matches(self, properties_raw: bytes | memoryview) -> bool:
        """Whether a message with these properties is wanted."""
        return True

    def work_of(self, properties_raw: bytes | memoryview) -> int:
        """What it costs at worst to ask ``matches``, in units of a quarter of a nanosecond."""
        return 0


class WantedBySql(Wanted):
    """Wants what an SQL92 expression is true of."""

    def __init__(self, sql: SqlFilter) -> None:
        super().__init__(None)
        self.needs_properties = True
        self.sql: SqlFilter = sql
        self._units_per_byte: int = _DECODING_UNITS + len(sql.text)

    def work_of(self, properties_raw: bytes | memoryview) -> int:
        return len(properties_raw) * self._units_per_byte

    def matches(self, properties_raw: bytes | memoryview) -> bool:
        return self.sql.matches(decode_properties(properties_raw))


class WantedAgain(Wanted):
    """Wants from a retry topic what the group's filter on the topic before it lets through.

    As in Java, a message whose topic has no filter of the group is wanted.
    """

    def __init__(self, filter_of_topic: FilterOfTopic) -> None:
        super().__init__(None)
        self.needs_properties = True
        self._filter_of_topic: FilterOfTopic = filter_of_topic

    def work_of(self, properties_raw: bytes | memoryview) -> int:
        return len(properties_raw) * (_DECODING_UNITS + FILTER_BYTES_MAX)

    def matches(self, properties_raw: bytes | memoryview) -> bool:
        properties = decode_properties(properties_raw)
        sql = self._filter_of_topic(properties.get(RETRY_TOPIC, ""))
        return sql is None or sql.matches(properties)


ALL: Final = Wanted(None)


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression of this type is a list of tags."""
    return not expression_type or expression_type == "TAG"


def wanted_tags(expression: str | None) -> Wanted:
    """What a tag expression wants; FilterError if it is none."""
    tags = parse_tags(expression)
    return ALL if tags.expression == ALL_TAGS else Wanted(tags.codes)


def wanted_by_heartbeat(subscription: SubscriptionData) -> Wanted:
    """What a subscription to tags wants that came with a heartbeat.

    The expression is hashed here: clients in other languages send wrong codes with it. Where
    there is no expression to hash, the codes count.
    """
    if subscription.class_filter_mode:
        return ALL
    if not subscription.sub_string and subscription.code_set:
        return Wanted(frozenset(subscription.code_set))
    try:
        return wanted_tags(subscription.sub_string)
    except FilterError:
        return Wanted(frozenset(subscription.code_set))
