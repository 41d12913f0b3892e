"""Rates over the last minute, hour and day, made from plain counters by looking at them; pure.

A ``Meter`` only counts. A ``Windows`` looks at every meter that is in use: every ten seconds for
the minute, every ten minutes for the hour, every hour for the day, as Java's StatsItem does, so
that rates are the same as Java's to the digit. A rate is what was added between the oldest and the
newest look.

A meter that did not change in a whole window is not looked at for that window until it is used
again: thousands of silent queues cost nothing. Of those that are in use only some are looked at in
one step, so that nobody waits while there are many.
"""

from typing import Final, NamedTuple, TypeAlias

__all__ = ["DAY", "HOUR", "MINUTE", "STEP_METERS_MAX", "Figures", "Meter", "Windows"]

MINUTE: Final = 0
HOUR: Final = 1
DAY: Final = 2

_STEPS_S: Final = (10.0, 600.0, 3_600.0)
_LOOKS_MAX: Final = (7, 7, 25)
"""One more than there are steps in the window."""

_EARLY_S: Final = 0.5
"""Whoever ticks every second is never exactly on time; a look may be so much too early."""

STEP_METERS_MAX: Final = 2_000
"""Meters that are looked at before others get their turn: a millisecond or two."""

Look: TypeAlias = tuple[int, int, int]
"""The counters of a meter at one moment: times, count, bytes."""


class Figures(NamedTuple):
    """One window of one meter: what was added, how fast, and how much each time."""

    sum: int
    tps: float
    average: float
    times: int


_NOTHING: Final = Figures(0, 0.0, 0.0, 0)


class Meter:
    """Three counters: how often something was done, to how many messages, of how many bytes.

    Users add to the counters themselves; a meter that is not awake is woken before that.
    """

    __slots__ = ("count", "is_awake", "is_gone", "is_new", "looks", "size", "times")

    def __init__(self) -> None:
        self.times: int = 0
        self.count: int = 0
        self.size: int = 0
        self.is_awake: bool = False
        """Whether every window looks at it."""
        self.is_new: bool = True
        self.is_gone: bool = False
        """Whether it was deleted; the windows let go of it when they see it."""
        self.looks: list[list[Look]] = [[], [], []]
        """By window; the last belongs to the last moment of the window, and so backwards."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing was added for a day: no window looks at it any more."""
        looks = self.looks
        return not (self.is_new or looks[MINUTE] or looks[HOUR] or looks[DAY])


class Windows:
    """The three windows over all meters.

    windows = Windows(monotonic_s())
    if not meter.is_awake:
        windows.wake(meter)
    meter.count += 1
    windows.tick(monotonic_s())            # every second
    while windows.step():                  # there are more than one step looks at
        ...                                # let others have their turn
    windows.figures(meter, MINUTE).tps
    """

    __slots__ = ("_meters", "_moments", "_unseen", "has_silent")

    def __init__(self, now_s: float) -> None:
        self.has_silent: bool = False
        """Whether a meter has been silent for a day; to be set back by whoever looks for it."""
        self._moments: list[list[float]] = [[now_s], [now_s], [now_s]]
        self._meters: list[list[Meter]] = [[], [], []]
        """By window: those that were looked at in its last moment, or woken since."""
        self._unseen: list[list[Meter]] = [[], [], []]
        """Those that are still to be looked at for the last moment."""

    def wake(self, meter: Meter) -> None:
        """Let every window look at ``meter`` from now on; called before something is added."""
        look = (meter.times, meter.count, meter.size)
        for window in range(3):
            looks = meter.looks[window]
            if not looks:
                moments = self._moments[window]
                looks.extend([look] * (1 if meter.is_new else len(moments)))
                self._meters[window].append(meter)
        meter.is_new = False
        meter.is_awake = True

    def tick(self, now_s: float) -> None:
        """Let meters be looked at whose time has come; ``step`` does it."""
        for window in range(3):
            moments = self._moments[window]
            is_due = now_s - moments[-1] >= _STEPS_S[window] - _EARLY_S
            if is_due and not self._unseen[window]:
                moments.append(now_s)
                del moments[: -_LOOKS_MAX[window]]
                self._unseen[window] = self._meters[window]
                self._meters[window] = []

    def step(self) -> bool:
        """Look at some of them; whether there are more."""
        room = STEP_METERS_MAX
        for window in range(3):
            unseen = self._unseen[window]
            if unseen and room:
                taken = unseen[-room:]
                del unseen[-room:]
                room -= len(taken)
                kept = [meter for meter in taken if _look_at(meter, window)]
                if window == DAY and len(kept) < len(taken):
                    self.has_silent = True
                self._meters[window] += kept
        return bool(self._unseen[MINUTE] or self._unseen[HOUR] or self._unseen[DAY])

    def figures(self, meter: Meter, window: int) -> Figures:
        """What ``meter`` counted in a window."""
        return self._figures(meter, window, by_size=False)

    def byte_figures(self, meter: Meter, window: int) -> Figures:
        """The same of its bytes."""
        return self._figures(meter, window, by_size=True)

    def _figures(self, meter: Meter, window: int, *, by_size: bool) -> Figures:
        looks = meter.looks[window]
        if len(looks) < 2:
            return _NOTHING
        moments = self._moments[window]
        taken_s = moments[-1] - moments[-len(looks)]
        first, last = looks[0], looks[-1]
        added = last[2] - first[2] if by_size else last[1] - first[1]
        times = last[0] - first[0]
        return Figures(added, added / taken_s, added / times if times else 0.0, times)


def _look_at(meter: Meter, window: int) -> bool:
    """Keep the counters of this moment; False if the window has no more to do with the meter."""
    if meter.is_gone:
        return False
    looks_max = _LOOKS_MAX[window]
    looks = meter.looks[window]
    last = looks[-1]
    if last[0] == meter.times and last[1] == meter.count and last[2] == meter.size:
        looks.append(last)  # the same object: silence takes no memory
    else:
        looks.append((meter.times, meter.count, meter.size))
    if len(looks) > looks_max:
        del looks[0]
    if len(looks) < looks_max or looks[0] != looks[-1]:
        return True
    looks.clear()
    meter.is_awake = False
    return False
