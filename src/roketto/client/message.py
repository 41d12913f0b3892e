"""Messages: what a producer sends, and where it went."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from msgspec import Struct

from roketto.client.errors import IllegalMessageError
from roketto.client.sendable import check_sendable
from roketto.protocol import property_names as names
from roketto.protocol.bodies.route import MessageQueue

__all__ = ["Message", "MessageQueue", "SendResult", "SendStatus"]

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Java's maxMessageSize, of producers and brokers; before compression."""

MESSAGE_ID_CHARS_MAX: Final = 255
"""Our own have 32 or 56; whoever keeps ids in a table knows what to expect."""

_NO_KEYS: Final = ()
"""There is only one empty tuple."""

_OWN: Final = names.RESERVED | {names.SHARDING_KEY, names.TRANSACTION_ID}
"""Properties that a message has fields for, or that the system sets: users do not set them."""


@dataclass(slots=True)
class Message:
    """What is to be sent.

    Message("Orders", b"...", tags="new", keys=["order-17"], properties={"country": "CH"})

    ``keys`` find it again. ``sharding_key`` keeps messages with the same one in order, in one
    queue. At most one of ``delay_level``, ``delay_ms`` and ``deliver_at_ms`` says when it is
    delivered. ``priority`` is for topics that have one.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | Iterable[str] = _NO_KEYS
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
    delay_level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0
    priority: int | None = None
    flag: int = 0
    """A number for the application itself."""
    wait_for_store: bool = True
    """Whether the answer waits for the disk and the slaves, where brokers do that."""
    message_id: str | None = None
    """Its id (property UNIQ_KEY); producers give it one unless it has been given one. Whoever sends
    a message again with the id that it had lets brokers and consumers tell that it is the same."""

    @property
    def is_delayed(self) -> bool:
        """Whether it is not to be delivered at once."""
        return bool(self.delay_level or self.delay_ms or self.deliver_at_ms)

    def deliver_at(self, when: datetime) -> "Message":
        """Let it be delivered at a time; a datetime without a zone is of this machine's."""
        self.deliver_at_ms = int(when.timestamp() * 1000)
        return self

    def to_properties(self) -> dict[str, str]:
        """All properties that go with it; IllegalMessageError if one cannot."""
        found = dict(self.properties)
        for name, value in found.items():
            _check_property(name, value)
        if self.tags:
            found[names.TAGS] = _checked_text(names.TAGS, self.tags)
        if self.keys is not _NO_KEYS and (keys := self._joined_keys()):
            found[names.KEYS] = _checked_text(names.KEYS, keys)
        if self.sharding_key is not None:
            found[names.SHARDING_KEY] = _checked_text(names.SHARDING_KEY, self.sharding_key)
        if self.message_id is not None:
            found[names.UNIQ_KEY] = self._checked_id(self.message_id)
        if self.is_delayed:
            self._add_time(found)
        if self.priority is not None:
            found[names.PRIORITY] = str(self.priority)
        found[names.WAIT] = "true" if self.wait_for_store else "false"
        return found

    def _joined_keys(self) -> str:
        """Its keys with blanks between them; a text is taken for such a list, as in Java."""
        if isinstance(self.keys, str):
            return self.keys
        keys = tuple(self.keys)
        if not all(isinstance(key, str) for key in keys):
            raise IllegalMessageError(
                f"the keys of a message for {self.topic} are {keys!r:.200}; each takes a text"
            )
        joined = " ".join(keys)
        if keys and joined.count(" ") >= len(keys):
            raise IllegalMessageError(
                f"a key of a message for {self.topic} has a blank, which separates keys, in"
                f" {keys!r:.200}; leave it out"
            )
        return joined

    def _checked_id(self, message_id: str) -> str:
        is_plain = message_id.isascii() and message_id.isprintable() and " " not in message_id
        if not (is_plain and 0 < len(message_id) <= MESSAGE_ID_CHARS_MAX):
            raise IllegalMessageError(
                f"the id of a message for {self.topic} is {message_id[:64]!r}, {len(message_id)}"
                f" characters; it takes 1 to {MESSAGE_ID_CHARS_MAX} of ASCII without spaces"
            )
        return message_id

    def _add_time(self, found: dict[str, str]) -> None:
        given = [
            name for name in ("delay_level", "delay_ms", "deliver_at_ms") if getattr(self, name)
        ]
        if len(given) > 1:
            raise IllegalMessageError(
                f"a message for {self.topic} has {' and '.join(given)}; give one of them"
            )
        if (amount := getattr(self, given[0])) < 0:
            raise IllegalMessageError(
                f"a message for {self.topic} has {given[0]} {amount}; it takes 0 or more"
            )
        if self.delay_level:
            found[names.DELAY] = str(self.delay_level)
        elif self.delay_ms:
            found[names.TIMER_DELAY_MS] = str(self.delay_ms)
        else:
            found[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)

    def checked_body(self, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """Its body; IllegalMessageError unless a broker would take it."""
        body = self.body
        if type(body) is bytes and 0 < len(body) <= bytes_max:
            return body
        self.check(bytes_max)
        return bytes(body)

    def check(self, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        """IllegalMessageError unless a broker would take it."""
        check_sendable(self.topic)
        if not isinstance(self.body, bytes | bytearray | memoryview):
            raise IllegalMessageError(
                f"the body of a message for {self.topic} is {type(self.body).__name__}; it takes"
                " bytes: encode it"
            )
        if not 0 < len(self.body) <= body_bytes_max:
            raise IllegalMessageError(
                f"the body of a message for {self.topic} has {len(self.body)} bytes; it takes 1 to"
                f" {body_bytes_max}"
            )


def _check_property(name: str, value: str) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise IllegalMessageError(f"property {name!r:.64} is {value!r:.64}; both take a text")
    if name in _OWN:
        raise IllegalMessageError(
            f"property {name} is the client's own; use the field of Message that is for it"
        )
    if not name or not value:
        raise IllegalMessageError(f"property {name!r:.64} is {value!r:.64}; neither may be empty")
    if name == names.INNER_MULTI_DISPATCH and "/" in value:
        raise IllegalMessageError(f"property {name} is {value!r:.64}; its queues take no slash")
    _checked_text(name, name)
    _checked_text(name, value)


def _checked_text(name: str, value: str) -> str:
    if "\x01" in value or "\x02" in value:
        raise IllegalMessageError(
            f"property {name[:64]!r} has a character 0x01 or 0x02, which end properties; encode it"
        )
    return value


class SendStatus(Enum):
    """How safe a message is that was stored; all but SEND_OK may be lost if its broker dies now."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class SendResult(Struct, frozen=True):
    """Where a message went."""

    status: SendStatus
    message_id: str
    """The id that the producer gave it; consumers see it, and queries find it."""
    queue: MessageQueue
    queue_offset: int
    offset_id: str = ""
    """The broker's own id: where it lies in its log."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """With this a delayed message can be taken back."""
    region_id: str = "DefaultRegion"
    is_traced: bool = True

    @property
    def is_ok(self) -> bool:
        return self.status is SendStatus.SEND_OK
