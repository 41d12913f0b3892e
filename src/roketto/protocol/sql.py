"""SQL92 filters: compile the text of a subscription once, then match messages against it.

    wanted = compile_filter("price BETWEEN 10 AND 20 AND region = 'eu'")
    wanted.matches({"price": "15", "region": "eu"})  # True

The language and its results are those of RocketMQ's broker, oddities included, because consumers
were written against them; sql_parse has the grammar and sql_nodes the meaning. Only the bounds are
ours: a text above FILTER_BYTES_MAX, or nested deeper than FILTER_DEPTH_MAX, is refused.
"""

from dataclasses import dataclass, field

from roketto.protocol.sql_nodes import Condition, Properties, Truth
from roketto.protocol.sql_numbers import EvaluationError
from roketto.protocol.sql_parse import parse

__all__ = ["EvaluationError", "SqlFilter", "compile_filter"]


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A compiled filter: immutable, safe to share, equal to any other of the same text."""

    text: str
    _condition: Condition = field(repr=False, compare=False)

    def matches(self, properties: Properties) -> bool:
        """Tell whether a message with these properties is wanted; never raises."""
        try:
            return self._condition.evaluate(properties) is True
        except EvaluationError:
            return False

    def evaluate(self, properties: Properties) -> Truth:
        """Return true, false or null (None), or raise the EvaluationError that says why neither."""
        return self._condition.evaluate(properties)


def compile_filter(text: str) -> SqlFilter:
    """Compile a SQL92 expression; raise FilterError with place and reason if it is none."""
    return SqlFilter(text, parse(text))
