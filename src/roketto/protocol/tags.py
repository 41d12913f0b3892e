"""Tag expressions: which tags a consumer wants, as the client sends and the broker applies them.

The broker compares hash codes only, because that is what a queue entry holds. Two tags may share
a code; the client compares the tag itself and drops the strangers.
"""

from collections.abc import Iterable
from typing import Final

from roketto.protocol.errors import FilterError
from roketto.protocol.javahash import java_hash
from roketto.protocol.limits import TAG_EXPRESSION_BYTES_MAX

ALL_TAGS: Final = "*"

_SEPARATOR: Final = "||"
# What Java's String.trim takes off; no-break and ideographic blanks belong to the tag.
_BLANKS: Final = "".join(map(chr, range(0x21)))


class TagFilter:
    """A parsed tag expression.

    >>> wanted = parse_tags("TagA || TagB")
    >>> wanted.matches_code(tag_code("TagA")), wanted.matches_tag("TagC")
    (True, False)
    """

    __slots__ = ("codes", "expression", "tags")

    def __init__(self, expression: str, tags: frozenset[str]) -> None:
        self.expression: str = expression
        self.tags: frozenset[str] = tags
        self.codes: frozenset[int] = frozenset([java_hash(tag) for tag in tags])

    def matches_code(self, code: int) -> bool:
        """The broker's question: may a message with this tag code be wanted?"""
        return self.expression == ALL_TAGS or code in self.codes

    def matches_tag(self, tag: str | None) -> bool:
        """The client's question: is a message with this tag (None: without one) wanted?"""
        return not self.tags or tag in self.tags


def parse_tags(expression: str | None) -> TagFilter:
    """Parse ``a || b``; None, the empty text and ``*`` mean every message.

    Two oddities are Java's, and both ends of a mixed cluster must agree on them: the expression is
    kept as it was written, and one of nothing but blanks between its bars (`` || ``) names no tag,
    so that a broker finds no message for it. Bars alone (``||``) are refused.
    """
    if not expression or expression == ALL_TAGS:
        return TagFilter(ALL_TAGS, frozenset())
    if len(expression) > TAG_EXPRESSION_BYTES_MAX:
        raise FilterError(
            f"tag expression {expression[:64]!r}... has {len(expression)} characters, more than"
            f" {TAG_EXPRESSION_BYTES_MAX}; subscribe to * or use a SQL92 filter"
        )
    pieces = expression.split(_SEPARATOR)
    if not any(pieces):
        raise FilterError(
            f"tag expression {expression[:64]!r} has bars but no tag; write TagA || TagB, or *"
        )
    tags = [piece.strip(_BLANKS) for piece in pieces]
    return TagFilter(expression, frozenset([tag for tag in tags if tag]))


def join_tags(tags: Iterable[str]) -> str:
    """The expression that wants these tags; no tags at all means every message."""
    return f" {_SEPARATOR} ".join(tags) or ALL_TAGS


def tag_code(tag: str | None) -> int:
    """The code a queue entry carries for a message with this tag; 0 without one."""
    return java_hash(tag) if tag else 0
