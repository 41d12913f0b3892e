"""Numbers as Java reads and compares them: what a property's text is worth in a SQL92 filter.

Properties are text. A filter that compares one with a number first reads the text with
``Integer.valueOf``, ``Long.valueOf`` or ``Double.valueOf``, whichever type the other side has.
Consumers depend on what those accept: ``"٣"`` is an integer and ``"3.0"`` is not, ``" 1d "`` and
``"0x1p3"`` are doubles and ``"1_0"`` is not. Python's own ``int`` and ``float`` draw every one of
these lines elsewhere, so a text is matched against the Java form before they see it.
"""

import math
import re
import unicodedata
from functools import lru_cache

INT32_MAX = 2**31 - 1
"""The largest literal that is an ``Integer``; a larger one, up to INT64_MAX, is a ``Long``."""

INT64_MAX = 2**63 - 1

_INT64_DIGITS = len(str(INT64_MAX))
_SHORT_DIGITS = len(str(INT32_MAX)) - 1
"""So many ASCII digits are always an Integer; nearly every number in a message is that short."""

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""What ``String.trim`` removes: every control character and the blank."""

# Possessive where one character repeats: a property may have 32 KiB and must cost one pass. Not on
# groups: Python before 3.11.5 loses its place when a possessive group fails half-way.
_INTEGER = re.compile(r"([+-]?+)(\d++)")
_DECIMAL = re.compile(r"([+-]?+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?)[fFdD]?+")
_HEXADECIMAL = re.compile(
    r"([+-]?+0[xX](?:[0-9a-fA-F]++\.?+[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?+[0-9]++)[fFdD]?+"
)
_NAMED = {
    sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")
}


_DOUBLES_KEPT = 64
"""Texts whose numbers are kept, some megabytes at most: a filter of a thousand comparisons with one
long property must not read it a thousand times."""


class EvaluationError(ValueError):
    """A property that cannot be compared as the filter asks; the message does not match."""


def parse_integer(text: str, value_max: int) -> int:
    """Read ``text`` as a two's complement integer whose largest value is ``value_max``."""
    if len(text) <= _SHORT_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    match = _INTEGER.fullmatch(text)
    # Java looks at UTF-16 units, so the digits beyond the basic plane are none to it.
    if match is None or (not text.isascii() and max(text) > "\uffff"):
        raise EvaluationError(f"{_excerpt(text)} is not an integer")
    digits = match[2]
    if not digits.isascii():
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
    digits = digits.lstrip("0") or "0"
    if len(digits) <= _INT64_DIGITS:
        value = -int(digits) if match[1] == "-" else int(digits)
        if -value_max - 1 <= value <= value_max:
            return value
    raise EvaluationError(f"{_excerpt(text)} is outside {-value_max - 1}..{value_max}")


@lru_cache(_DOUBLES_KEPT)
def parse_double(text: str) -> float:
    """Read ``text`` as ``Double.valueOf`` does; too large is infinite, too small is zero."""
    text = text.strip(_JAVA_BLANKS)
    if (match := _DECIMAL.fullmatch(text)) is not None:
        return float(match[1])
    if (match := _HEXADECIMAL.fullmatch(text)) is not None:
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    if (value := _NAMED.get(text)) is not None:
        return value
    raise EvaluationError(f"{_excerpt(text)} is not a number")


def compare_doubles(left: float, right: float) -> int:
    """Order two doubles as ``Double.compareTo``: -0.0 below 0.0, NaN equal to itself on top."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        if left != 0.0:
            return 0
        return int(math.copysign(1.0, left) - math.copysign(1.0, right))
    return math.isnan(left) - math.isnan(right)


def _excerpt(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
