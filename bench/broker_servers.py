"""The brokers under test: ours and Java's, started alike, each with a name server of its own."""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from broker_frames import create_topic, heartbeat, max_offset
from interop.peer import PLAIN, Peer
from load import ConnectionEndedError, call, process_cpu_s
from roketto.protocol.command import Command, encode_command
from roketto.protocol.headers.base import decode_header
from roketto.protocol.headers.offsets import GetMaxOffsetResponse
from servers import broker, name_server

ROKETTO: Final = "roketto"
JAVA: Final = "java"

JAVA_HEAP_MB: Final = 1024
"""Its script asks for 8 GiB. What a larger heap does for its rates has not been measured."""

_IDLE_S: Final = 60.0
"""Brokers close a connection that is idle for two minutes."""
_DISPATCH_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05

STORE: Final = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}
"""Files of the default sizes, which the tests' brokers do not have."""

_JAVA_ONLY: Final = {"timerWheelEnable": "false"}
"""It would sync 40 MB all the time, also while the other broker is measured."""


class BrokerFailedError(Exception):
    """A broker did not start or did not do what was asked of it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in MB: a process's own, and that of files it has mapped."""

    own_mb: float
    file_mb: float


@dataclass(slots=True)
class Server:
    """A running broker; ``kind`` says whose."""

    kind: str
    address: str
    name_server: str
    pid: int
    start_s: float
    _connection: socket.socket | None = field(default=None, init=False)
    _asked_s: float = field(default=0.0, init=False)

    def ask(self, request: Command) -> Command:
        """One request over a connection that stays open until `close`, or until nobody asks."""
        now_s = time.monotonic()
        if self._connection is None or now_s - self._asked_s > _IDLE_S:
            self._connect()
        self._asked_s = now_s
        try:
            return self._call(request)
        except (ConnectionEndedError, ConnectionResetError, BrokenPipeError):
            # Brokers close the connection of a consumer that sent no heartbeat for two minutes.
            self._connect()
            return self._call(request)

    def _connect(self) -> None:
        self.close()
        host, _, port = self.address.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=30)

    def _call(self, request: Command) -> Command:
        assert self._connection is not None
        return call(self._connection, encode_command(request))[0]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Be a consumer of these topics as long as the connection lasts, two minutes at most."""
        self.ask(heartbeat(topics))

    def create_topic(self, topic: str, queues: int, attributes: str | None = None) -> None:
        self.ask(create_topic(topic, queues, attributes))

    def queue_ends(self, topic: str, queues: int) -> list[int]:
        """The offset that the next message of each queue will get."""
        answers = [self.ask(max_offset(topic, queue)) for queue in range(queues)]
        return [decode_header(GetMaxOffsetResponse, answer.ext).queue_offset for answer in answers]

    def await_messages(self, topic: str, queues: int, wanted: int) -> list[int]:
        """Wait until the queues have exactly so many messages: what was acknowledged is there."""
        deadline_s = time.monotonic() + _DISPATCH_TIMEOUT_S
        while sum(ends := self.queue_ends(topic, queues)) != wanted:
            if time.monotonic() > deadline_s or sum(ends) > wanted:
                raise BrokerFailedError(
                    f"{self.kind}: the queues of {topic} have {sum(ends)} messages, "
                    f"{wanted} were acknowledged"
                )
            time.sleep(_POLL_S)
        return ends

    def pids(self) -> list[int]:
        """The process and all below it."""
        found = [self.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                    found += map(int, children.read_text().split())
        return found

    def cpu_s(self) -> float:
        """CPU seconds that it has used so far."""
        return sum(process_cpu_s(pid) for pid in self.pids())

    def memory(self) -> Memory:
        own_kb = file_kb = 0
        for pid in self.pids():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "RssAnon":
                    own_kb += int(value.split()[0])
                elif name in ("RssFile", "RssShmem"):
                    file_kb += int(value.split()[0])
        return Memory(own_kb / 1024, file_kb / 1024)


@contextmanager
def start_broker(kind: str, java: Peer, config: Mapping[str, str]) -> Iterator[Server]:
    """Run a broker and its name server, with stores of their own, until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="roketto-bench-")))
        known_by = stack.enter_context(name_server(folder)).address
        starter = _start_java if kind == JAVA else _start_roketto
        server = stack.enter_context(starter(java, folder, known_by, {**STORE, **config}))
        stack.callback(server.close)
        yield server


@contextmanager
def _start_java(
    java: Peer, folder: Path, known_by: str, config: Mapping[str, str]
) -> Iterator[Server]:
    started_s = time.perf_counter()
    store = {
        "storePathRootDir": str(folder / "store"),
        "storePathCommitLog": str(folder / "store" / "commitlog"),
    }
    theirs = java.broker(
        [known_by], {**store, **_JAVA_ONLY, **config}, heap_mb=JAVA_HEAP_MB, wait_registered=False
    )
    taken_s = time.perf_counter() - started_s
    try:
        yield Server(JAVA, theirs.address, known_by, theirs.process.pid, taken_s)
    finally:
        theirs.kill()  # its store goes with it; in order it would take seconds


@contextmanager
def _start_roketto(
    java: Peer, folder: Path, known_by: str, config: Mapping[str, str]
) -> Iterator[Server]:
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(broker(folder, [known_by], config))
        except AssertionError as reason:
            raise BrokerFailedError(str(reason)) from None
        stack.callback(ours.popen.kill)  # like Java's
        yield Server(ROKETTO, ours.address, known_by, ours.popen.pid, ours.start_s)


def open_peer(version: str) -> Peer:
    """Java's programs with the flags that its users run them with."""
    return Peer(version, flags=PLAIN)
