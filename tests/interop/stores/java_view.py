"""What Java's clients saw of a broker's store: the facts that `StoreClient` prints."""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from interop.peer import Broker, Peer
from roketto.protocol.properties import decode_properties
from roketto.protocol.sysflags import COMPRESSED

# A push consumer looks every 20 s by default whether its topic for retries has come to be.
_CLIENT: Final = {"rocketmq.client.rebalance.waitInterval": "1000"}

Queue = tuple[str, int]


class Message(NamedTuple):
    """One message as Java's client has read it; the body as its digest."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    store_time_ms: int
    born_time_ms: int
    sys_flag: int
    flag: int
    reconsume_times: int
    prepared_log_offset: int
    body_crc: int
    body_digest: str
    properties: dict[str, str]


class Sent(NamedTuple):
    """What a producer was told of a message."""

    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    unique_key: str


class Consumed(NamedTuple):
    """One delivery to a push consumer."""

    topic: str
    queue_id: int
    queue_offset: int
    reconsume_times: int
    unique_key: str


@dataclass(slots=True)
class JavaView:
    """The facts of one run of `StoreClient`."""

    sent: list[Sent] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    """Unique keys of half messages that the broker asked about."""
    offsets: dict[Queue, int] = field(default_factory=dict)
    """How far the group has consumed."""
    queues: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    """First and next offset of every queue."""
    refused: set[Queue] = field(default_factory=set)
    """Queues that the broker keeps from clients."""
    messages: dict[Queue, list[Message]] = field(default_factory=lambda: defaultdict(list))

    def all_messages(self) -> list[Message]:
        return [message for queue in self.messages.values() for message in queue]

    def topic(self, topic: str) -> list[Message]:
        return [message for message in self.all_messages() if message.topic == topic]


def look(
    peer: Peer, name_server: str, broker: Broker, store: Path, steps: Sequence[str]
) -> JavaView:
    """Let Java's clients take `steps` with a broker, and give what they saw."""
    printed = peer.run(
        "StoreClient", name_server, broker.address, broker.name, str(store), *steps,
        properties=_CLIENT, timeout_s=180,
    )  # fmt: skip
    view = JavaView()
    for line in printed.splitlines():
        kind, *fields = line.split("\t")
        _note(view, kind, fields)
    return view


def _note(view: JavaView, kind: str, fields: list[str]) -> None:
    topic, *rest = fields
    match kind:
        case "sent":
            view.sent.append(Sent(topic, int(rest[0]), int(rest[1]), *rest[2:]))
        case "consumed":
            queue_id, queue_offset, times, unique_key = rest
            view.consumed.append(
                Consumed(topic, int(queue_id), int(queue_offset), int(times), unique_key)
            )
        case "checked":
            view.checked.append(topic)
        case "offset":
            view.offsets[topic, int(rest[0])] = int(rest[1])
        case "queue":
            view.queues[topic, int(rest[0])] = (int(rest[1]), int(rest[2]))
        case "refused":
            view.refused.add((topic, int(rest[0])))
        case "message":
            *numbers, digest, properties = rest
            values = (topic, *map(int, numbers), digest, decode_properties(b64decode(properties)))
            message = Message._make(values)
            # Like ours, clients of 5.x clear the flag when they have unpacked the body.
            message = message._replace(sys_flag=message.sys_flag & ~COMPRESSED)
            view.messages[topic, message.queue_id].append(message)
        case _:
            raise AssertionError(f"StoreClient printed {kind} {fields}")
