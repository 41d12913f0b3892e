"""What mqadmin finds in a store: messages of every kind, asked for in each way that it knows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from interop.peer import Broker, Peer
from interop.stores.compare import body_digest
from interop.stores.java_view import Message
from interop.stores.ours import Written

_BODY_PATH: Final = "Message Body Path"
_FIELD: Final = re.compile(r"^([A-Z][A-Za-z ]+): +(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sought:
    """A message that mqadmin is asked for, and all that it has to say of it."""

    kind: str
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    message_id: str
    properties: dict[str, str]
    body_digest: str

    @classmethod
    def written(cls, kind: str, one: Written) -> Self:
        digest = body_digest(one.body.encode())
        return cls(
            kind, one.topic, one.queue_id, one.queue_offset, one.log_offset, one.message_id,
            one.properties, digest,
        )  # fmt: skip

    @classmethod
    def seen(cls, kind: str, message: Message, broker: Broker) -> Self:
        message_id = f"7F000001{broker.port:08X}{message.log_offset:016X}"
        return cls(
            kind, message.topic, message.queue_id, message.queue_offset, message.log_offset,
            message_id, message.properties, message.body_digest,
        )  # fmt: skip

    @property
    def unique_key(self) -> str:
        return self.properties["UNIQ_KEY"]

    @property
    def key(self) -> str:
        return self.properties["KEYS"].split()[0]


class Printed(NamedTuple):
    """What a command printed, and the digest of the body that it left in a file, if it did."""

    text: str
    body_digest: str | None

    @property
    def fields(self) -> dict[str, str]:
        return {name: value.rstrip() for name, value in _FIELD.findall(self.text)}


Found = list[tuple[Sought, dict[str, Printed]]]


def ask_mqadmin(peer: Peer, name_server: str, broker: Broker, every: Iterable[Sought]) -> Found:
    """Ask for each of these messages by key, by the broker's id, by the unique key, by offset."""
    found = []
    for one in every:
        printed = {
            name: _ask(peer, name, arguments, name_server)
            for name, arguments in _commands(peer, broker.name, one).items()
        }
        found.append((one, printed))
    return found


def _commands(peer: Peer, broker: str, one: Sought) -> dict[str, list[str]]:
    topic = ["-t", one.topic]
    topic_for_id = topic if peer.version.startswith("5.") else []
    place = ["-b", broker, "-i", str(one.queue_id), "-o", str(one.queue_offset)]
    return {
        "queryMsgByKey": [*topic, "-k", one.key],
        "queryMsgById": ["-i", one.message_id, *topic_for_id],
        "queryMsgByUniqueKey": ["-i", one.unique_key, *topic],
        "queryMsgByOffset": [*topic, *place],
    }


def _ask(peer: Peer, command: str, arguments: list[str], name_server: str) -> Printed:
    """Run a command; the file in which it leaves the body has the unique key as its name."""
    printed = Printed(peer.mqadmin(command, *arguments, name_server=name_server), None)
    path = printed.fields.get(_BODY_PATH)
    if path is None:
        return printed
    body = Path(path)
    digest = body_digest(body.read_bytes())
    body.unlink()
    return printed._replace(body_digest=digest)


def check_found(found: Found) -> set[str]:
    """Whether mqadmin has told of each message where it is and what is in it; their kinds."""
    for one, printed in found:
        for command, answer in printed.items():
            _check(one, command, answer)
    return {one.kind for one, _ in found}


def _check(one: Sought, command: str, printed: Printed) -> None:
    what = f"{command} for {one}: {printed.text}"
    if command == "queryMsgByKey":
        # 5.5 has a column more, for an index of its own.
        rows = [line.split()[:3] for line in printed.text.splitlines()[1:]]
        assert rows == [[one.unique_key, str(one.queue_id), str(one.queue_offset)]], what
        return
    expected = {
        "Topic": one.topic,
        "Queue ID": str(one.queue_id),
        "Queue Offset": str(one.queue_offset),
        "CommitLog Offset": str(one.log_offset),
        "Tags": f"[{one.properties['TAGS']}]",
        "Keys": f"[{one.properties['KEYS']}]",
    }
    if command != "queryMsgByUniqueKey":  # this one does not print it
        expected["OffsetID"] = one.message_id
    assert printed.fields.items() >= expected.items(), what
    assert printed.body_digest == one.body_digest, what
