"""What others may do with each send: look at it before and after, or forbid it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from roketto.client.errors import ClientError
from roketto.client.message import Message, MessageQueue, SendResult

__all__ = [
    "ForbiddenCheck", "MessageKind", "SendContext", "SendHook", "SendHooks", "SendMode",
]  # fmt: skip

log = logging.getLogger(__name__)


class SendMode(Enum):
    """Whether the answer is awaited."""

    SYNC = "SYNC"
    ONE_WAY = "ONEWAY"


class MessageKind(Enum):
    """Numbered as in trace records."""

    NORMAL = 0
    HALF = 1
    """Of a transaction that is not decided."""
    DELAYED = 3


@dataclass(slots=True, kw_only=True)
class SendContext:
    """One attempt to send; ``result`` or ``error`` is known after it, neither of one-way sends."""

    group: str
    messages: Sequence[Message]
    """As they were given; several of a batch."""
    message_id: str
    """Of a batch, those of all messages with commas between them."""
    topic: str
    """Without the namespace."""
    namespace: str
    properties: Mapping[str, str]
    """All that go with it; of a batch, those of the whole."""
    body_bytes: int
    """As sent: compressed."""
    queue: MessageQueue
    address: str
    client_ip: str
    mode: SendMode
    kind: MessageKind
    begun_ms: int
    """Wall time."""
    latency_ms: float = 0.0
    result: SendResult | None = None
    error: ClientError | None = None


class SendHook(Protocol):
    """Called around each attempt. It must not wait; what it raises is logged."""

    def before(self, context: SendContext) -> None: ...

    def after(self, context: SendContext) -> None: ...


ForbiddenCheck: TypeAlias = Callable[[SendContext], None]
"""Called before each attempt. What it raises is raised by the send, and nothing is sent."""


class SendHooks:
    """Those of one producer. Without any, a send does not even make a context.

    producer.hooks.add(hook)
    producer.hooks.add_check(forbid_on_sundays)
    """

    __slots__ = ("_checks", "_hooks", "is_empty")

    def __init__(self) -> None:
        self._hooks: list[SendHook] = []
        self._checks: list[ForbiddenCheck] = []
        self.is_empty = True

    def add(self, hook: SendHook) -> None:
        self._hooks.append(hook)
        self.is_empty = False

    def remove(self, hook: SendHook) -> None:
        self._hooks.remove(hook)
        self.is_empty = not (self._hooks or self._checks)

    def add_check(self, check: ForbiddenCheck) -> None:
        self._checks.append(check)
        self.is_empty = False

    def before(self, context: SendContext) -> None:
        for check in self._checks:
            check(context)
        for hook in self._hooks:
            try:
                hook.before(context)
            except Exception:
                log.exception("%r failed before a send to %s", hook, context.topic)

    def after(self, context: SendContext) -> None:
        for hook in self._hooks:
            try:
                hook.after(context)
            except Exception:
                log.exception("%r failed after a send to %s", hook, context.topic)
