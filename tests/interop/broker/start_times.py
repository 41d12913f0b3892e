"""A time between messages, as consumers are told it to start at: in whole seconds."""

import time
from typing import Final

from interop.broker.clients import Message

GAP_S: Final = 2.0
"""Between messages before the time and messages after it."""


def start_ms(after: Message) -> int:
    """The begin of the second in which the first message after the time was stored."""
    return after.stored_ms // 1000 * 1000


def start_text(after: Message) -> str:
    """The same as consumeTimestamp has it, in local time."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(start_ms(after) // 1000))


def check_gap(before: Message, after: Message) -> None:
    """Whether the time is nearer to the later message: 4.9 takes the nearest, 5.x the next."""
    start = start_ms(after)
    assert start - before.stored_ms > after.stored_ms - start
