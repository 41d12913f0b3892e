"""What one name server has to be told, and when; pure.

================  ================================================  ==========================
the name server   what it is told                                   when
================  ================================================  ==========================
does not know us  all topics                                        at once, then ever later
knows us          all topics, or whether its version is ours        every 30 s
knows us          the topics that changed, or all                   at once
================  ================================================  ==========================

Whatever fails makes it one that does not know us: then it is certain that nothing is missed.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["Agenda", "Deed", "Work"]

_RETRY_FIRST_S: Final = 1.0
_RETRY_MAX_S: Final = 5.0
"""How long a name server that came back has to wait for us, at most."""


class Deed(Enum):
    """What to send."""

    WHOLE = "the whole table"
    CHANGED = "the topics that changed"
    QUESTION = "whether the version is ours"


@dataclass(frozen=True, slots=True)
class Work:
    """The next thing to do; ``topics`` if only some are told."""

    deed: Deed
    topics: tuple[str, ...] = ()


class Agenda:
    """One name server. ``take`` says what to do; then comes how it went.

    Times are of a clock that never goes back. One thing is under way at a time; what is announced
    in the meantime is done together afterwards.
    """

    __slots__ = ("_changed", "_delay_s", "_is_whole_due", "_taken_s", "due_s", "is_known")

    def __init__(self, now_s: float) -> None:
        self.is_known = False
        """Whether the name server knows us, by the connection that is open."""
        self.due_s = now_s
        """When to look again if nothing is announced before."""
        self._is_whole_due = False
        self._changed: dict[str, None] = {}
        self._delay_s = 0.0
        self._taken_s = now_s

    def announce(self, topic: str | None) -> None:
        """A topic is new or has changed; None: anything may have, or a topic is gone."""
        if topic is None:
            self._is_whole_due = True
        elif not self._is_whole_due:
            self._changed[topic] = None

    def take(self, now_s: float, *, is_forced: bool) -> Work | None:
        """What is to be done now, if anything; ``is_forced`` is Java's forceRegister."""
        work = self._choose(now_s, is_forced)
        if work is not None:
            self._taken_s = now_s
            if work.deed is not Deed.QUESTION:
                self._changed.clear()
                self._is_whole_due = False
        return work

    def _choose(self, now_s: float, is_forced: bool) -> Work | None:
        is_due = now_s >= self.due_s
        if not self.is_known:
            return Work(Deed.WHOLE) if is_due else None
        if self._is_whole_due:
            return Work(Deed.WHOLE)
        if self._changed:
            return Work(Deed.CHANGED, tuple(self._changed))
        if is_due:
            return Work(Deed.WHOLE if is_forced else Deed.QUESTION)
        return None

    def succeed(self, work: Work, now_s: float, period_s: float) -> None:
        self.is_known = True
        self._delay_s = 0.0
        if work.deed is not Deed.CHANGED:
            self.due_s = now_s + period_s

    def fail(self, now_s: float) -> None:
        """No answer: it is down, slow or cut off; it is tried again soon."""
        self._postpone(now_s, _RETRY_MAX_S)

    def refuse(self, now_s: float, period_s: float) -> None:
        """It said no to the whole table; there is no hurry to hear that again."""
        self._postpone(now_s, period_s)

    def retry(self, now_s: float) -> None:
        """It said no to something else; now it is told everything."""
        self.is_known = False
        self.due_s = now_s

    def lose(self, now_s: float) -> None:
        """The connection has ended, and so it forgets us; not more than once a second."""
        if self.is_known:
            self.is_known = False
            self.due_s = max(now_s, self._taken_s + _RETRY_FIRST_S)

    def _postpone(self, now_s: float, delay_max_s: float) -> None:
        self.is_known = False
        self._delay_s = min(max(self._delay_s * 2, _RETRY_FIRST_S), delay_max_s)
        self.due_s = now_s + self._delay_s
