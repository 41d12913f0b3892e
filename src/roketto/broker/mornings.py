"""What the totals of a broker were at the last two midnights; pure.

mqadmin makes of them how many messages came and went yesterday and today. As in Java they are
counted from the start of the broker: before its first midnight both are 0.
"""

from datetime import datetime, time, timedelta, tzinfo

__all__ = ["Mornings"]


class Mornings:
    """The totals of puts and gets at midnight, in the time zone of the machine.

    mornings = Mornings(wall_ms())
    mornings.look(wall_ms(), puts, gets)       # every second
    """

    __slots__ = ("_next_ms", "_zone", "get_today", "get_yesterday", "put_today", "put_yesterday")

    def __init__(self, now_ms: int, zone: tzinfo | None = None) -> None:
        self.put_yesterday: int = 0
        self.put_today: int = 0
        self.get_yesterday: int = 0
        self.get_today: int = 0
        self._zone: tzinfo | None = zone
        self._next_ms: int = _next_midnight_ms(now_ms, zone)

    def look(self, now_ms: int, puts: int, gets: int) -> None:
        """Take note of the totals if a new day has begun."""
        if now_ms < self._next_ms:
            return
        self._next_ms = _next_midnight_ms(now_ms, self._zone)
        self.put_yesterday, self.put_today = self.put_today, puts
        self.get_yesterday, self.get_today = self.get_today, gets


def _next_midnight_ms(now_ms: int, zone: tzinfo | None) -> int:
    """When the next day begins: days of 23 or 25 hours end in time."""
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    return int(datetime.combine(today + timedelta(days=1), time.min, zone).timestamp() * 1000)
