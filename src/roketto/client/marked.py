"""Messages with properties that only clients set: replies, halves of transactions, retries."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from roketto.client.message import Message

__all__ = ["REPLY", "MarkedMessage", "mark"]

REPLY: Final = "reply"
"""The MSG_TYPE of a reply."""


@dataclass(slots=True)
class MarkedMessage(Message):
    """A message with properties that only clients set: of replies, transactions, retries.

    ``marks`` win over what the fields say. ``broker_name`` is where it is sent first, if it can be.
    """

    marks: Mapping[str, str] = field(default_factory=dict)
    broker_name: str = ""

    def to_properties(self) -> dict[str, str]:
        return {**Message.to_properties(self), **self.marks}


def mark(message: Message, marks: Mapping[str, str]) -> MarkedMessage:
    """The same message with marks; those it has already stay."""
    values = {item.name: getattr(message, item.name) for item in fields(Message)}
    if isinstance(message, MarkedMessage):
        return MarkedMessage(
            **values, marks={**message.marks, **marks}, broker_name=message.broker_name
        )
    return MarkedMessage(**values, marks=marks)
