"""Messages one after the other: ``async for message in consumer``, without a listener.

Who asks for the next message has consumed the one before. A message whose turn of the loop did not
come to its end, because the body raised or left the loop, is given back as by a listener that
answers LATER. ``message.ack()`` and ``message.later()`` say it earlier; the first word counts.
"""

import asyncio
from collections.abc import AsyncIterator

from roketto.client.listeners import ConsumeContext, ConsumeResult, NotBegunError
from roketto.client.received import ReceivedMessage

__all__ = ["Iteration", "OpenMessage"]


class OpenMessage(ReceivedMessage):
    """A message that somebody has to say something of."""

    __slots__ = ("_context", "_said")

    def __init__(
        self,
        message: ReceivedMessage,
        context: ConsumeContext,
        said: asyncio.Future[ConsumeResult],
    ) -> None:
        super().__init__(message.record, message.broker_name, message.topic, message.max_offset)
        self.reconsume_times = message.reconsume_times
        self._context = context
        self._said = said

    @property
    def is_settled(self) -> bool:
        """Whether something was said of it, or it is too late to."""
        return self._said.done()

    def ack(self) -> None:
        """It is consumed."""
        if not self._said.done():
            self._said.set_result(ConsumeResult.SUCCESS)

    def later(self, delay_level: int = 0) -> None:
        """It is wanted again; ``delay_level`` as in ConsumeContext."""
        if not self._said.done():
            self._context.delay_level = delay_level
            self._said.set_result(ConsumeResult.LATER)

    def leave(self) -> None:
        """Nobody has got it: neither of both."""
        if not self._said.done():
            self._said.set_exception(NotBegunError())


class Iteration:
    """The listener of a consumer without one, and the turns of those who iterate over it.

    As much is consumed at the same time as is asked for. So no message is begun, and its time runs,
    before somebody wants it. Several tasks may iterate.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[OpenMessage | None] = asyncio.Queue()
        self._turns = asyncio.Semaphore(0)
        self._asked = 0
        """Who waits for a message now."""
        self._granted = 0
        """Turns that have not brought a message yet; more than asked if somebody has given up."""
        self._is_closed = False

    # --- for the consumption ----------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until somebody asks for a message."""
        await self._turns.acquire()

    def release(self, *, is_used: bool) -> None:
        """Whoever has asked still does, unless a message was handed over."""
        if not is_used:
            self._turns.release()

    async def listen(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> ConsumeResult:
        """Hand a message over, and wait for what is said of it."""
        said: asyncio.Future[ConsumeResult] = asyncio.get_running_loop().create_future()
        opened = OpenMessage(messages[0], context, said)
        if self._is_closed:
            raise NotBegunError
        self._ready.put_nowait(opened)
        return await said

    # --- for those who iterate --------------------------------------------------------------------

    async def messages(self) -> AsyncIterator[OpenMessage]:
        """All messages until the consumer stops."""
        while (message := await self._next()) is not None:
            try:
                yield message
            except BaseException:
                message.later()
                raise
            message.ack()

    async def _next(self) -> OpenMessage | None:
        self._asked += 1
        try:
            while not self._is_closed:
                if self._asked > self._granted:
                    self._granted += 1
                    self._turns.release()
                message = await self._ready.get()
                self._granted = max(0, self._granted - 1)
                if message is not None and not message.is_settled:
                    return message
            return None
        finally:
            self._asked -= 1

    def close(self) -> None:
        """No message comes any more; those that nobody has got yet stay where they are."""
        self._is_closed = True
        while not self._ready.empty():
            message = self._ready.get_nowait()
            if message is not None:
                message.leave()
        for _ in range(self._asked):
            self._ready.put_nowait(None)
