"""Attributes of topics and groups: which there are, and what a request makes of them.

A request changes attributes: ``+key=value`` adds or replaces one, ``-key`` takes one away. What is
stored has neither sign.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

from roketto.broker.dedup_window import BY, BY_KEYS, BY_UNIQUE_KEY, SECONDS, SECONDS_MAX
from roketto.broker.expiry import TTL_MS, TTL_MS_MAX
from roketto.broker.priority import FACTOR, FACTOR_MAX
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError

__all__ = ["GROUP_ATTRIBUTES", "MESSAGE_TYPE", "TOPIC_ATTRIBUTES", "change", "parse_changes"]

_LONG_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = 19
_SHOWN_CHARS_MAX: Final = 64

MESSAGE_TYPE: Final = "message.type"


class Attribute(NamedTuple):
    """One key. ``values`` are those that it may have; without any, it is a number in its bounds."""

    is_changeable: bool
    values: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Values that Java's broker takes as well, for parts of it that this one does not have."""
    low: int = -1
    high: int = _LONG_MAX


TOPIC_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(False, frozenset({"SimpleCQ"}), frozenset({"BatchCQ"})),
    "cleanup.policy": Attribute(False, frozenset({"DELETE"}), frozenset({"COMPACTION"})),
    MESSAGE_TYPE: Attribute(
        True,
        frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY"}),
    ),
    "reserve.time": Attribute(True),
    SECONDS: Attribute(True, low=0, high=SECONDS_MAX),
    BY: Attribute(True, frozenset({BY_UNIQUE_KEY, BY_KEYS})),
    TTL_MS: Attribute(True, low=0, high=TTL_MS_MAX),
}
"""Java's, and behind them ours: a broker of Java's keeps those in its table and does nothing."""

GROUP_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    FACTOR: Attribute(True, low=0, high=FACTOR_MAX),
}
"""Those of 5.5 for light topics are left out: there are none here."""


def parse_changes(text: str | None) -> dict[str, str]:
    """``+a=1,-b`` as ``{"+a": "1", "-b": ""}``; RequestError if it is written otherwise."""
    changes: dict[str, str] = {}
    for item in text.split(",") if text else ():
        key, equals, rest = item.partition("=")
        if equals and "+" not in key:
            _refuse(f"add/alter attribute format is wrong: {_cut(key)}; write +key=value")
        if not equals and "-" not in key:
            _refuse(f"delete attribute format is wrong: {_cut(key)}; write -key")
        value = rest.partition("=")[0]
        if equals and not value:
            _refuse(f"attribute {_cut(key)} has no value; write +key=value")
        if key in changes:
            _refuse(f"key duplication: {_cut(key)}")
        changes[key] = value
    return changes


def change(
    known: Mapping[str, Attribute],
    current: Mapping[str, str] | None,
    changes: Mapping[str, str],
) -> dict[str, str]:
    """The attributes after these changes; ``current`` is None for what is made just now."""
    is_new = current is None
    after = dict(current or {})
    seen = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key or sign not in ("+", "-"):
            _refuse(f"wrong format key: {_cut(signed)}; write +key=value or -key")
        if key in seen:
            _refuse(f"alter duplication key. key: {_cut(key)}")
        seen.add(key)
        if sign == "-" and is_new:
            _refuse(f"only add attribute is supported while creating topic. key: {_cut(key)}")
        if sign == "-" and key not in after:
            _refuse(f"attempt to delete a nonexistent key: {_cut(key)}")
        _check(known, key, value if sign == "+" else None, is_new=is_new)
        if sign == "+":
            after[key] = value
        else:
            del after[key]
    return after


def _check(known: Mapping[str, Attribute], key: str, value: str | None, *, is_new: bool) -> None:
    """Refuse an attribute that there is not, may not change now, or cannot have this value."""
    attribute = known.get(key)
    if attribute is None:
        _refuse(f"unsupported key: {_cut(key)}; known are {', '.join(known) or 'none'}")
    if not is_new and not attribute.is_changeable:
        _refuse(f"attempt to update an unchangeable attribute. key: {_cut(key)}")
    if value is None or value in attribute.values:
        return
    if value in attribute.missing:
        _refuse(f"{key} cannot be {value}: this broker does not have such topics")
    if attribute.values:
        _refuse(f"{key} is {_cut(value)}; value is not in set: {sorted(attribute.values)}")
    if not attribute.low <= _number(value) <= attribute.high:
        _refuse(f"{key} is {_cut(value)}; write an integer of {attribute.low}..{attribute.high}")


def _number(text: str) -> int:
    """The number that a text is; one below all bounds if it is none."""
    if text == "-1":
        return -1
    is_short = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_short else -2


def _cut(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN_CHARS_MAX else f"{text[: _SHOWN_CHARS_MAX - 3]}...")


def _refuse(reason: str) -> NoReturn:
    raise RequestError(ResponseCode.SYSTEM_ERROR, reason)
