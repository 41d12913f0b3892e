"""Messages that are worth nothing after a time: when that is, and which of them a consumer gets.

A topic has such messages if an operator gave it the attribute ``message.ttl.ms``: how many
milliseconds its messages live; 0, only those that say it themselves, in their property TTL. They
live from when they can be consumed: that is when the broker has stored them, or delivered or
committed them. What is older is passed by, as what a filter does not want: offsets move on, and
nobody is told. It stays in the log.

A message that a consumer gives back lives no longer for that: the copy in its retry topic has the
time of its end in a property. Dead letters do not end.

Java's clients set TTL on request messages, and mean it as a note for the reply. So it counts only
where the topic says so.
"""

from collections.abc import Mapping
from typing import Final

from roketto.protocol.bodies.topics import TopicConfig
from roketto.protocol.names import is_retry_topic
from roketto.protocol.properties import get_property
from roketto.protocol.property_names import RETRY_TOPIC, TTL
from roketto.protocol.record import Record
from roketto.protocol.record_layout import peek_properties, peek_store_time_ms

__all__ = ["TTL_MS", "TTL_MS_MAX", "Alive", "alive_in", "mark_end", "ttl_ms_of"]

TTL_MS: Final = "message.ttl.ms"
EXPIRES_MS: Final = "__EXPIRES_MS"
"""Property of retried messages: when they are not delivered any more, in ms since 1970."""

_DIGITS_MAX: Final = 18
"""So many are a Java long for sure: 31 million years."""
TTL_MS_MAX: Final = 10**_DIGITS_MAX - 1


def ttl_ms_of(config: TopicConfig) -> int | None:
    """How long messages of a topic live if they do not say it; 0: for ever; None: nobody looks."""
    text = config.attributes.get(TTL_MS)
    return None if text is None or not _is_number(text) else int(text)


def alive_in(expiring: Mapping[str, int], topic: str, now_ms: int) -> "Alive | None":
    """Who tells what of a topic is alive; None if all is. ``expiring``: topics and their TTLs."""
    if topic in expiring or is_retry_topic(topic):
        return Alive(expiring, topic, now_ms)
    return None


class Alive:
    """Tells of records of one topic, at one time, whether consumers still get them."""

    __slots__ = ("_expiring", "_now_ms", "_topic")

    def __init__(self, expiring: Mapping[str, int], topic: str, now_ms: int) -> None:
        self._expiring: Mapping[str, int] = expiring
        self._topic: str = topic
        self._now_ms: int = now_ms

    def matches_record(self, record: memoryview) -> bool:
        """Whether the time of a record is not over."""
        raw = bytes(peek_properties(record))
        origin = self._topic
        if origin not in self._expiring:  # it is a retry topic
            end_ms = get_property(raw, EXPIRES_MS)
            if end_ms is not None and _is_number(end_ms):
                return self._now_ms < int(end_ms)
            origin = get_property(raw, RETRY_TOPIC) or ""
        ttl_ms = _ttl_ms(self._expiring, origin, raw)
        return not ttl_ms or self._now_ms < peek_store_time_ms(record) + ttl_ms


def mark_end(expiring: Mapping[str, int], original: Record, copy: Record) -> None:
    """Let the copy for a retry topic end with its original, if that ends at all.

    A copy of a copy has the mark already.
    """
    ttl_ms = _ttl_ms(expiring, original.topic, original.properties_raw)
    if ttl_ms:
        copy.set_property(EXPIRES_MS, str(original.store_time_ms + ttl_ms))


def _ttl_ms(expiring: Mapping[str, int], topic: str, raw: bytes) -> int:
    """How long a message of a topic lives from when it was stored; 0: for ever."""
    ttl_ms = expiring.get(topic)
    if ttl_ms is None:
        return 0
    own = get_property(raw, TTL)
    return int(own) if own is not None and _is_number(own) else ttl_ms


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
