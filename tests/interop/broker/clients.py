"""Java's clients as Python objects: what to tell them, and what they saw."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from interop.peer import ClientError, ClientShell
from patience import in_time

WAIT_S: Final = 20.0
"""How long anything may take that is only waited for; nothing here takes more than a few."""

_POLL_S: Final = 0.02

DRAIN_GROUP: Final = "Drain"
SHOWN_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Sent:
    """What a producer was told; `None` for what it is not told about one-way messages."""

    status: str
    id: str
    offset_id: str
    topic: str
    broker: str
    queue: int
    offset: int
    region: str
    traced: bool
    recall_handle: str = ""
    """Of messages that wait for a time, from brokers and to clients of 5.5."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a consumer was given; `consumer` and `at_ms` only where a listener noted them."""

    topic: str
    broker: str
    queue: int
    offset: int
    log_offset: int
    body: str
    id: str
    flag: int
    sys_flag: int
    size: int
    times: int
    born_ms: int
    stored_ms: int
    properties: dict[str, str]
    consumer: str = ""
    at_ms: int = 0

    @property
    def user_properties(self) -> dict[str, str]:
        """Without what clients and brokers add on the way."""
        return {key: value for key, value in self.properties.items() if key not in _ADDED}


_ADDED: Final = {
    "UNIQ_KEY", "CLUSTER", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "WAIT",
    "CONSUME_START_TIME", "__CRC32#",
}  # fmt: skip
"""The last is there if the broker has enabledAppendPropCRC, as ours has unless told otherwise."""

_NAMES: Final = {
    "logOffset": "log_offset",
    "sysFlag": "sys_flag",
    "born": "born_ms",
    "stored": "stored_ms",
    "at": "at_ms",
    "offsetId": "offset_id",
    "recallHandle": "recall_handle",
}


def _python_names(fields: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in fields.items()}


def messages_of(answer: list[dict[str, Any]]) -> list[Message]:
    return [Message(**_python_names(fields)) for fields in answer]


def shown_body(body: str) -> str:
    """A body as `Message.body` has it: a long one is its size and its digest."""
    data = body.encode()
    if len(data) <= SHOWN_BYTES_MAX:
        return body
    return f"{len(data)}:{hashlib.sha256(data).hexdigest()}"


def is_unknown_topic(error: ClientError) -> bool:
    """Whether a puller was told that there is no such topic (yet)."""
    return "Can not find Message Queue for this topic" in error.text


def eventually(condition: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
    """Wait until it is so."""
    deadline_s = time.monotonic() + wait_s
    while not condition():
        in_time(deadline_s, f"waited {wait_s:.0f} s in vain for {what}")
        time.sleep(_POLL_S)


def eventually_equal(read: Callable[[], object], expected: object, what: str) -> None:
    """Wait until what is read is what is expected; show the last that was read if it never is."""
    deadline_s = time.monotonic() + WAIT_S
    while (last := read()) != expected:
        in_time(
            deadline_s,
            f"waited {WAIT_S:.0f} s in vain for {what} to be {expected}; the last was {last}",
        )
        time.sleep(_POLL_S)


class Clients:
    """Producers, pullers and consumers of one version, all in one JVM."""

    def __init__(self, shell: ClientShell) -> None:
        self.shell = shell

    def make_topic(self, topic: str, queues: int, addresses: Sequence[str]) -> None:
        """Make a topic on these brokers and wait for its route."""
        self.shell.do("topic", topic=topic, queues=queues, addresses=list(addresses))

    def send(
        self,
        topic: str,
        messages: Sequence[Mapping[str, Any] | str],
        how: str = "sync",
        **options: Any,
    ) -> list[Sent]:
        """Send messages, given as `java/MessageText.java` reads them or by their bodies alone."""
        asked = [
            {"topic": topic, **({"body": one} if isinstance(one, str) else one)} for one in messages
        ]
        answer = self.shell.do("send", how=how, messages=asked, **options)
        return [Sent(**_python_names(fields)) for fields in answer if fields is not None]

    def request(self, topic: str, body: str, how: str = "sync", wait_s: float = WAIT_S) -> Message:
        """Send a request and give the reply."""
        message = {"topic": topic, "body": body}
        answer = self.shell.do("request", how=how, message=message, timeout_s=wait_s)
        return messages_of([answer])[0]

    def recall(self, topic: str, handle: str) -> str:
        """Take back a message that waits; its id."""
        return str(self.shell.do("recall", topic=topic, handle=handle))

    def drain(self, topic: str, count: int) -> list[Message]:
        """All that a topic holds, queue by queue, each in the order of its offsets.

        Waits until there are `count` messages: brokers answer a sender before they have told the
        name server of a new topic, and before they have entered the message into its queue.
        """
        found: list[Message] = []

        def are_there() -> bool:
            try:
                answer = self.shell.do("drain", group=DRAIN_GROUP, topic=topic)
            except ClientError as error:
                if not is_unknown_topic(error):
                    raise
                return False
            found[:] = messages_of(answer)
            return len(found) >= count

        eventually(are_there, f"{count} messages of {topic}")
        return found

    def bounds(self, topic: str, timestamp_ms: int = 0) -> dict[str, list[int]]:
        """Of each queue the smallest and largest offset, and that of the time."""
        bounds: dict[str, list[int]] = self.shell.do(
            "bounds", group=DRAIN_GROUP, topic=topic, timestamp=timestamp_ms
        )
        return bounds

    def push(self, name: str, topic: str, **options: Any) -> "PushConsumer":
        """Start a push consumer; its group is of the same name unless `group` says another."""
        return PushConsumer(self.shell, name, topic, options)

    def received(self, consumers: Sequence["PushConsumer"], count: int) -> list[Message]:
        """What these got together, in the order of its coming, when it is `count` messages."""
        names = [consumer.name for consumer in consumers]
        answer = self.shell.do("received", names=names, count=count, timeout_s=WAIT_S)
        return messages_of(answer)

    def lite(self, name: str, topic: str, **options: Any) -> "LiteConsumer":
        """Start a lite pull consumer; its group is of the same name unless `group` says so."""
        return LiteConsumer(self.shell, name, topic, options)


class PushConsumer:
    """A DefaultMQPushConsumer; `java/PushCommands.java` says what its options are."""

    def __init__(
        self, shell: ClientShell, name: str, topic: str, options: Mapping[str, Any]
    ) -> None:
        self.name = name
        self.topic = topic
        self._shell = shell
        self._running = True
        settings = {"group": name, "tags": "*", "from": "FIRST_OFFSET", **options}
        shell.do("consume", name=name, topic=topic, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._running:
            self.stop()

    def received(self, count: int, wait_s: float = WAIT_S) -> list[Message]:
        """What it got until there were `count` messages, or the time was over."""
        answer = self._shell.do("received", names=[self.name], count=count, timeout_s=wait_s)
        return messages_of(answer)

    def release(self) -> None:
        """Let its listener go on with the messages that it holds."""
        self._shell.do("release", name=self.name)

    def queues(self) -> list[str]:
        """The queues that it has now, as "broker:id"."""
        queues: list[str] = self._shell.do("queues", name=self.name, topic=self.topic)
        return queues

    def offsets(self, topic: str | None = None) -> dict[str, int]:
        """What it has consumed of each of its queues, written to the broker and read from it."""
        offsets: dict[str, int] = self._shell.do(
            "offsets", name=self.name, topic=topic or self.topic
        )
        return offsets

    def stop(self) -> list[Message]:
        """Shut it down; give all that it has received."""
        self._running = False
        return messages_of(self._shell.do("stop", name=self.name))


class LiteConsumer:
    """A DefaultLitePullConsumer; `java/LiteCommands.java` says what its options are."""

    def __init__(
        self, shell: ClientShell, name: str, topic: str, options: Mapping[str, Any]
    ) -> None:
        self._shell = shell
        self._name = name
        self._topic = topic
        shell.do("lite", name=name, topic=topic, **{"group": name, "tags": "*", **options})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shell.do("liteStop", name=self._name)

    def poll(self, count: int, wait_s: float = WAIT_S) -> list[Message]:
        """Poll until there are `count` messages, or the time is over."""
        return messages_of(self._shell.do("poll", name=self._name, count=count, timeout_s=wait_s))

    def seek(self, broker: str, queue: int, offset: int) -> None:
        """Go to an offset; -1 is the begin, -2 the end."""
        self._shell.do(
            "seek", name=self._name, topic=self._topic, broker=broker, queue=queue, offset=offset
        )

    def commit(self) -> dict[str, int]:
        """Commit what was polled; give the group's offsets."""
        offsets: dict[str, int] = self._shell.do("commit", name=self._name)
        return offsets

    def queues(self) -> list[str]:
        queues: list[str] = self._shell.do("liteQueues", name=self._name)
        return queues


class Transacting:
    """A TransactionMQProducer; `java/TransactionCommands.java` says what it can do."""

    def __init__(self, clients: Clients, name: str, group: str = "") -> None:
        self.name = name
        self._group = group or name
        self._shell = clients.shell
        self._shell.do("transacting", name=name, group=self._group)

    def send(
        self, topic: str, body: str, ends: str, checked: str = "COMMIT_MESSAGE", **message: Any
    ) -> str:
        """Send one message in a transaction that ends like this; the id of its half message."""
        sent = self._shell.do(
            "transact", message={"topic": topic, "body": body, **message}, ends=ends,
            checked=checked, name=self.name, group=self._group,
        )  # fmt: skip
        assert sent["status"] == "SEND_OK"
        assert sent["state"] == ends
        assert sent["transaction"] in (sent["id"], None)  # Java's broker 4.9 tells none
        return str(sent["id"])

    def checks(self) -> list[str]:
        """The bodies that it was asked about."""
        found: list[str] = self._shell.do("checks", name=self.name)
        return found

    def end(self) -> None:
        self._shell.do("endTransacting", name=self.name)


class Finder:
    """A DefaultMQAdminExt that looks for messages and offsets; see `java/AdminCommands.java`."""

    def __init__(self, clients: Clients) -> None:
        self._shell = clients.shell

    def view(self, topic: str, message_id: str) -> Message:
        """The message with an id of either kind."""
        return messages_of([self._shell.do("view", topic=topic, id=message_id)])[0]

    def by_key(
        self, topic: str, key: str, count: int = 64, begin_ms: int = 0, end_ms: int = 2**63 - 1
    ) -> list[Message]:
        """The messages with a key, stored in this time; none if the client says so by an error."""
        try:
            found = self._shell.do(
                "byKey", topic=topic, key=key, count=count, begin=begin_ms, end=end_ms
            )
        except ClientError as error:
            if error.code != NO_MESSAGE:
                raise
            return []
        assert found["indexed"] > 0
        return messages_of(found["messages"])

    def reset(self, group: str, topic: str, timestamp_ms: int) -> dict[str, int]:
        """Let a group go on at a time; the new offset of each queue."""
        offsets: dict[str, int] = self._shell.do(
            "reset", group=group, topic=topic, timestamp=timestamp_ms, force=True
        )
        return offsets

    def client_id(self, group: str) -> str:
        """The id of the only client of a group, once it is there."""
        found: list[str] = []

        def is_there() -> bool:
            try:
                found[:] = self._shell.do("ids", group=group)
            except ClientError:
                return False
            return bool(found)

        eventually(is_there, f"a client of {group}")
        assert len(found) == 1
        return found[0]

    def do(self, command: str, **arguments: Any) -> Any:
        """Anything else."""
        return self._shell.do(command, **arguments)


NO_MESSAGE: Final = 208
"""The code with which clients say that no broker has found anything."""
