"""A server's memory of answers by the bytes of the request, asked before anything is decoded."""

from typing import Protocol

from roketto.protocol.command import Command


class Memo(Protocol):
    """For servers that hear the same question over and over; most have none."""

    def recall(self, frame: bytes) -> bytes | None:
        """Return the whole frame that answers this whole frame, or None to have it handled."""

    def remember(self, frame: bytes, request: Command, answer: Command) -> None:
        """Look at an answer that a handler has given at once, and keep it if it will do again."""
