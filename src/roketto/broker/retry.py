"""Whether and when a message that could not be consumed comes again: pure decisions.

Two ways lead to a retry topic, and they count differently, as in Java. A consumer that gives a
message back (36) says so before the next try: with ``max`` tries behind it, the message is dead. A
client that sends it to ``%RETRY%<group>`` itself has counted the next try already.
"""

from typing import Final, NamedTuple

from roketto.protocol.bodies.groups import SubscriptionGroupConfig
from roketto.protocol.names import RETRY_PREFIX
from roketto.protocol.versions import V3_4_9

FIRST_LEVEL: Final = 3
"""The delay level of the first retry where the consumer leaves it to the broker: 10 s."""

_POP_SEPARATOR: Final = "+"


class Retry(NamedTuple):
    """What becomes of a message that was given back: a delay level, or the dead letters."""

    is_dead: bool
    delay_level: int


def retries_max(group: SubscriptionGroupConfig, client_version: int, asked: int | None) -> int:
    """How often a message is consumed again; clients from 3.4.9 on decide that themselves."""
    if asked is not None and client_version >= V3_4_9:
        return asked
    return group.retry_max_times


def decide_send_back(reconsume_times: int, times_max: int, delay_level: int) -> Retry:
    """For a message given back after ``reconsume_times`` retries: a level below 0 means dead."""
    if reconsume_times >= times_max or delay_level < 0:
        return Retry(True, 0)
    return Retry(False, delay_level or FIRST_LEVEL + reconsume_times)


def is_dead_on_send(reconsume_times: int, times_max: int, *, is_orderly: bool) -> bool:
    """For a message that a client sends to a retry topic.

    A group with queue locks consumes in order, and tries again where it is; what such a client
    sends here, it has given up.
    """
    return is_orderly or reconsume_times > times_max


def group_of_retry_topic(topic: str) -> str:
    """The group of ``%RETRY%<group>`` or, with pop, of ``%RETRY%<group>+<topic>``."""
    name = topic.removeprefix(RETRY_PREFIX)
    group, separator, rest = name.partition(_POP_SEPARATOR)
    return group if separator and _POP_SEPARATOR not in rest else name
