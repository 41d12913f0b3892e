"""Questions that a broker passes on to clients, for somebody who waits: so many at a time."""

from typing import Final

from roketto.broker.consumer_group import Member
from roketto.protocol.codes import ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.errors import RequestError

__all__ = ["Relays"]

RELAYS_MAX: Final = 256
"""Questions without an answer, of all operators. Each may hold a message of some megabytes."""


class Relays:
    """Counts the questions that wait.

    relays = Relays()
    answer = await relays.ask(member, command, 10_000)     # RemotingError; RequestError: too many
    """

    def __init__(self, relays_max: int = RELAYS_MAX) -> None:
        self._relays_max = relays_max
        self._count = 0

    def __len__(self) -> int:
        """How many questions wait for their answers."""
        return self._count

    async def ask(self, member: Member, command: Command, timeout_ms: int) -> Command:
        """Ask a client, and give its answer."""
        if self._count >= self._relays_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{self._count} questions to clients wait for their answers, which is the most; try"
                " again later",
            )
        self._count += 1
        try:
            return await member.connection.request(command, timeout_ms)
        finally:
            self._count -= 1
