"""Tokens of the SQL92 filter language, read one at a time from the text of a filter.

Reading is lazy because Java's is: nothing behind a complete expression is looked at except the one
token that shows it is complete, so ``a > 3 x #`` is a filter and ``a > 3 #`` is not. The longest
token wins, which has consequences that existing filters may rely on: ``007`` is the three integers
0, 0 and 7, and ``--`` with no line end behind it is two minus signs rather than a comment.
"""

import re
from typing import Final, NamedTuple

from roketto.protocol.errors import FilterError


class Kind:
    """What a token is, in the words of error texts; keywords and symbols stand for themselves.

    Plain strings, because the parser does little but compare kinds, and before Python 3.12 naming
    the member of an Enum takes four times as long.
    """

    END: Final = "the end"
    IDENTIFIER: Final = "a property"
    STRING: Final = "a string"
    INTEGER: Final = "an integer"
    FLOAT: Final = "a number"
    NOT: Final = "NOT"
    AND: Final = "AND"
    OR: Final = "OR"
    BETWEEN: Final = "BETWEEN"
    IN: Final = "IN"
    TRUE: Final = "TRUE"
    FALSE: Final = "FALSE"
    NULL: Final = "NULL"
    IS: Final = "IS"
    CONTAINS: Final = "CONTAINS"
    STARTSWITH: Final = "STARTSWITH"
    ENDSWITH: Final = "ENDSWITH"
    EQUAL: Final = "="
    NOT_EQUAL: Final = "<>"
    GREATER: Final = ">"
    GREATER_EQUAL: Final = ">="
    LESS: Final = "<"
    LESS_EQUAL: Final = "<="
    OPEN: Final = "("
    CLOSE: Final = ")"
    COMMA: Final = ","
    PLUS: Final = "+"
    MINUS: Final = "-"


class Token(NamedTuple):
    """One token: its kind, its text as written, and where in the filter it starts."""

    kind: str
    text: str
    start: int


_KINDS_OF_ANY_TEXT = (Kind.END, Kind.IDENTIFIER, Kind.STRING, Kind.INTEGER, Kind.FLOAT)
_KEYWORDS_AND_SYMBOLS = frozenset(
    kind for name, kind in vars(Kind).items() if name.isupper() and kind not in _KINDS_OF_ANY_TEXT
)

_BLANKS = re.compile(r"[ \t\n\r\f]*+")

# Possessive where one character repeats: a token costs one pass over its characters, matched or
# not (groups are not: Python before 3.11.5 loses its place when one fails half-way). Numbers with
# a point or an exponent stand before integers so that the longer reading is tried first. A minus
# sign before another may open a comment and is left to _read_unusual.
_TOKEN = re.compile(
    r"""
    [ \t\n\r\f]*+
    (?: ([A-Za-z_$][A-Za-z0-9_$]*+)
      | (<>|[<>]=|[=<>(),+]|-(?!-))
      | ('[^']*+(?:''[^']*+)*'(?!'))
      | ((?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?|[0-9]++[eE][+-]?+[0-9]++)
      | (0|[1-9][0-9]*+[lL]?+)
    )
    """,
    re.VERBOSE,
)
_KIND_BY_GROUP = {1: Kind.IDENTIFIER, 3: Kind.STRING, 4: Kind.FLOAT, 5: Kind.INTEGER}
"""The kind of what a group of _TOKEN matched, unless it is a keyword or a symbol."""

_LINE_COMMENT = re.compile(r"--[^\n\r]*+[\n\r]")


class Tokens:
    """The tokens of ``text`` from left to right; ``current`` is the one to decide by."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        # Without this bound every "--" of a text with no line end would search to its end.
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))
        self.current = self._read()

    def advance(self) -> Token:
        """Return the current token and make the one behind it current."""
        token = self.current
        self.current = self._read()
        return token

    def _read(self) -> Token:
        match = _TOKEN.match(self._text, self._index)
        if match is None:
            return self._read_unusual()
        group = match.lastindex
        assert group is not None, "every alternative is a group"
        self._index = match.end()
        text: str = match[group]
        kind = text.upper()
        if kind not in _KEYWORDS_AND_SYMBOLS:
            kind = _KIND_BY_GROUP[group]
        return Token(kind, text, match.start(group))

    def _read_unusual(self) -> Token:
        """Read what the pattern cannot: behind a comment, the first of two minus signs, the end."""
        start = self._index = self._end_of(_BLANKS, self._index)
        if start == len(self._text):
            return Token(Kind.END, "", start)
        if self._skip_comments():
            return self._read()
        if self._text.startswith("-", start):
            self._index += 1
            return Token(Kind.MINUS, "-", start)
        raise self._unreadable(start)

    def _skip_comments(self) -> bool:
        """Move behind all comments that follow; tell whether there were any."""
        text, start, index = self._text, self._index, self._index
        while True:
            if text.startswith("--", index) and index < self._last_line_end:
                index = self._end_of(_LINE_COMMENT, index)
            elif text.startswith("/*", index) and (closing := text.find("*/", index + 2)) >= 0:
                index = closing + 2
            else:
                self._index = index
                return index > start
            index = self._end_of(_BLANKS, index)

    def _end_of(self, pattern: re.Pattern[str], index: int) -> int:
        match = pattern.match(self._text, index)
        assert match is not None, "blanks match everywhere, a comment where a line end follows"
        return match.end()

    def _unreadable(self, index: int) -> FilterError:
        if self._text.startswith("'", index):
            problem = "a string that is never closed; write '' for a quote inside a string"
        elif self._text.startswith("/*", index):
            problem = "a comment that is never closed"
        else:
            problem = f"{self._text[index]!a}, which starts no token"
        return FilterError(f"SQL92 filter, character {index + 1}: found {problem}")
