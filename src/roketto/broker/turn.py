"""What one turn of delivering may do before others get theirs."""

from typing import Final

__all__ = ["TURN_BYTES_MAX", "TURN_MESSAGES_MAX", "Turn"]

TURN_MESSAGES_MAX: Final = 64
"""Messages that are delivered before others get their turn: about a millisecond."""
TURN_BYTES_MAX: Final = 1 << 20


class Turn:
    """One turn: what it may still deliver."""

    __slots__ = ("bytes_left", "is_over", "messages_left")

    def __init__(self) -> None:
        self.messages_left: int = TURN_MESSAGES_MAX
        self.bytes_left: int = TURN_BYTES_MAX
        self.is_over: bool = False

    def take(self, size: int) -> None:
        """A message of so many bytes was delivered."""
        self.messages_left -= 1
        self.bytes_left -= size
        self.is_over = self.messages_left <= 0 or self.bytes_left <= 0
