"""What both ways of consuming have in common: what they are asked for, and how they end."""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from roketto.client.owned_queue import OwnedQueue
from roketto.client.received import ReceivedMessage

__all__ = ["Consumption", "end_calls"]

log = logging.getLogger(__name__)

_CANCELLED_S: Final = 1.0
"""How long a listener may take to notice that it is cancelled."""


class Consumption(Protocol):
    """Has pulled messages consumed, and commits what was."""

    def start(self) -> None: ...

    def submit(self, queue: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """These were pulled, and are in ``queue.messages``."""

    async def stop(self) -> None:
        """Begin nothing more, and wait a while for what is being consumed."""


async def end_calls(
    group: str,
    idle: Collection[asyncio.Task[None]],
    busy: Collection[asyncio.Task[None]],
    timeout_s: float,
) -> None:
    """End tasks, those that are in a listener when it has ended or its time is over.

    A stop that a listener itself awaits does not wait for that one.
    """
    me = asyncio.current_task()
    for task in idle:
        task.cancel()
    others = {task for task in busy if task is not me}
    if others:
        _, late = await asyncio.wait(others, timeout=timeout_s)
        if late:
            log.warning("%d listeners of group %s take longer than the %g s of a stop; their"
                        " messages come again", len(late), group, timeout_s)  # fmt: skip
        for task in late:
            task.cancel()
    if everybody := others.union(idle):
        _, left = await asyncio.wait(everybody, timeout=_CANCELLED_S)
        if left:
            log.error("%d listeners of group %s do not end when they are cancelled, and go on"
                      " without their consumer", len(left), group)  # fmt: skip
