"""Which queue a message goes to: the next one, the one of a key, or any; pure.

The numbers are those of Java's clients, so that two producers of a topic, one of them in Java, send
messages of one key to one queue.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from roketto.client.message import Message, MessageQueue
from roketto.protocol.javahash import java_hash

__all__ = [
    "Availability", "HashSelector", "RandomSelector", "RoundRobin", "Selector", "hash_of_key",
]  # fmt: skip

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, object], MessageQueue]
"""Given all queues of the topic, the message and the ``arg`` of the send; returns one of them."""

_POSITIVE: Final = 0x7FFF_FFFF
_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1


class Availability(Protocol):
    """What is known of brokers that were slow or did not answer; see faults.py."""

    def is_available(self, broker_name: str) -> bool: ...

    def is_reachable(self, broker_name: str) -> bool: ...


class RoundRobin:
    """One queue after the other, beginning anywhere; one per topic.

    turn = RoundRobin()
    queue = turn.next(queues)
    queue = turn.next(queues, avoid="broker-a")     # the last attempt failed there
    """

    __slots__ = ("_at",)

    def __init__(self, start: int | None = None) -> None:
        self._at = random.randint(_INT_MIN, _INT_MAX) if start is None else start

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, arg: object
    ) -> MessageQueue:
        return self.next(queues)

    def next(
        self,
        queues: Sequence[MessageQueue],
        avoid: str | None = None,
        faults: Availability | None = None,
    ) -> MessageQueue:
        """The next queue, if there is one on a broker that is not to be avoided and not at fault.

        At least it is not at fault for not answering; and where all brokers are, it is just the
        next one.
        """
        if avoid is None and faults is None:
            return self._step(queues)
        if faults is not None:
            if avoid is not None:
                self._at = random.randint(0, _INT_MAX)  # not all who fail go to the same one
            for is_good in (faults.is_available, faults.is_reachable):
                for _ in queues:
                    queue = self._step(queues)
                    if queue.broker_name != avoid and is_good(queue.broker_name):
                        return queue
        else:
            for _ in queues:
                queue = self._step(queues)
                if queue.broker_name != avoid:
                    return queue
        return self._step(queues)

    def _step(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        self._at = at = (self._at + 1) & _POSITIVE
        return queues[at % len(queues)]


class HashSelector:
    """The queue of a key, which is the text of ``arg``; the same as long as queues are the same."""

    __slots__ = ()

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, arg: object
    ) -> MessageQueue:
        return queues[hash_of_key(str(arg), len(queues))]


class RandomSelector:
    """Any queue, each as likely as the others."""

    __slots__ = ()

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, arg: object
    ) -> MessageQueue:
        return random.choice(queues)


def hash_of_key(key: str, count: int) -> int:
    """Which of ``count`` queues a key has, as Java computes it.

    >>> hash_of_key("order-17", 4)
    3
    """
    return abs(java_hash(key)) % count
