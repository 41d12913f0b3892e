"""Which timer messages are taken: those whose time is not over, nor too far, nor too crowded."""

import random
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from roketto.broker.config import BrokerConfig
from roketto.broker.timer_rules import asks_for_time, deliver_ms, slot_of, wait
from roketto.clock import wall_ms
from roketto.protocol import property_names as names
from roketto.protocol.headers.base import I32_MAX
from roketto.protocol.record import Record
from roketto.store.put_status import PutRefusedError, PutStatus
from roketto.store.timer_wheel import TimerWheel

__all__ = ["TimerGate"]

_ZERO: Final = 0x30
_DIGITS_MAX: Final = 15
"""More milliseconds are no time that anybody waits for."""


class TimerGate:
    """Every message that has no delay level passes it on its way into the store."""

    def __init__(
        self,
        wheel: TimerWheel,
        config: BrokerConfig,
        *,
        clock_ms: Callable[[], int] = wall_ms,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._wheel = wheel
        self._config = config
        self._clock_ms = clock_ms
        # The usual clock is called by its name, which compiled code does without a look at it.
        self._is_wall_clock = clock_ms is wall_ms
        self._chance = chance

    def transform(self, record: Record) -> None:
        """Let a message wait that asks for a time of its own; others stay as they are."""
        if asks_for_time(record):
            slot_ms = self._slot_of(record)
            if slot_ms is not None:
                self._refuse_crowd(slot_ms)
                wait(record, slot_ms)

    def quick_slot(self, name: str, text: bytes) -> int:
        """The slot of a message that has one of TIMERS and nothing else to look at.

        -1 if it has to be looked at closely: it is due at once, refused, or perhaps so.
        """
        config = self._config
        said = _number(text)
        if (
            said < 0
            or not config.timer_wheel_enable
            or config.timer_congest_num_each_slot < I32_MAX
        ):
            return -1
        now_ms = wall_ms() if self._is_wall_clock else self._clock_ms()
        deliver: int = said
        if name == names.TIMER_DELAY_SEC:
            deliver = now_ms + deliver * 1000
        elif name == names.TIMER_DELAY_MS:
            deliver += now_ms
        if not 0 < deliver - now_ms <= config.timer_max_delay_sec * 1000:
            return -1
        return slot_of(deliver, self._wheel.precision_ms)

    def check(self, record: Record) -> None:
        """PutRefusedError if a message asks for a time that it cannot have."""
        if asks_for_time(record):
            self._slot_of(record)

    def _slot_of(self, record: Record) -> int | None:
        """The slot of a timer message, None if it is due at once."""
        if not self._config.timer_wheel_enable:
            raise PutRefusedError(
                PutStatus.WHEEL_TIMER_NOT_ENABLE,
                "accurate timer message is not enabled, timerWheelEnable is false; use a delay"
                " level (property DELAY) or another broker",
            )
        now_ms = self._clock_ms()
        deliver = deliver_ms(record, now_ms)
        if deliver <= now_ms:
            if record.get_property(names.TIMER_DEL_UNIQKEY) is None:
                return None
            reason = f"what it recalls was due at {deliver}, {now_ms - deliver} ms ago"
        else:
            max_ms = self._config.timer_max_delay_sec * 1000
            if deliver - now_ms <= max_ms:
                return slot_of(deliver, self._wheel.precision_ms)
            reason = (
                "the delay time should not be bigger than the max delay"
                f" {max_ms}ms (timerMaxDelaySec): it is {deliver - now_ms}ms"
            )
        raise PutRefusedError(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, f"timer message illegal, {reason}")

    def _refuse_crowd(self, slot_ms: int) -> None:
        """PutRefusedError if a slot has too many messages; between once and twice, by chance."""
        bound = self._config.timer_congest_num_each_slot
        if bound >= I32_MAX:
            return
        count = self._wheel.slot(slot_ms).messages
        if count > bound and self._chance() * bound < count - bound:
            raise PutRefusedError(
                PutStatus.WHEEL_TIMER_FLOW_CONTROL,
                f"timer message is under flow control, {count} messages are due in the slot of"
                f" {slot_ms}: more than {bound} are taken by chance, {2 * bound} never"
                " (timerCongestNumEachSlot); choose another time",
            )


def _number(text: bytes) -> i64:
    """What some digits say; -1 if there is anything else, nothing, or too much."""
    if not 0 < len(text) <= _DIGITS_MAX:
        return -1
    number: i64 = 0
    for at in range(len(text)):
        digit: i64 = text[at] - _ZERO
        if not 0 <= digit <= 9:
            return -1
        number = number * 10 + digit
    return number
