"""Java's client: RocketMQ's own benchmark programs, warmed up, one of each at each broker."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from broker_frames import java_command
from broker_rig import fill
from broker_servers import Server
from client_marks import Figures, Mark, make_figures, measure_for, take_mark
from client_process import ClientFailedError
from client_sizes import BODY_BYTES, QUEUES, Sizes
from interop.peer import PLAIN, JavaProcess
from interop.peer.process import Jvm, prepare_home
from interop.peer.programs import load_runtime
from load import LoadError
from roketto.protocol.codes import RequestCode
from roketto.protocol.headers.base import decode_header, encode_header
from roketto.protocol.headers.offsets import (
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
)

THREADS: Final = 64
JAVA_HEAP_MB: Final = 1024
"""As the script has it that comes with these programs."""

_SEND_TOPIC: Final = "ClientJavaSend"
_CONSUME_TOPIC: Final = "ClientJavaConsume"
_GROUP: Final = "ClientJavaConsumer"
_PACKAGE: Final = "org.apache.rocketmq.example.benchmark"
_POLL_S: Final = 0.02
_DRAIN_S: Final = 1.0
"""What is left of a backlog after its measured part is gone by then."""
_FIRST_TIMEOUT_S: Final = 90.0
"""A consumer of 5.5.0 may wait for its second heartbeat, half a minute after the first."""


class JavaPrograms:
    """Starts them, and ends all of them on `close`."""

    def __init__(self, version: str) -> None:
        self._runtime = load_runtime(version).with_examples()
        self._stack = ExitStack()
        folder = TemporaryDirectory(prefix="roketto-bench-", ignore_cleanup_errors=True)
        self._base = Path(self._stack.enter_context(folder))
        self._homes = 0

    def start(self, program: str, *arguments: str) -> JavaProcess:
        self._homes += 1
        home = self._base / f"{self._homes}-{program}"
        prepare_home(home)
        jvm = Jvm(JAVA_HEAP_MB, PLAIN)
        command = self._runtime.leashed(jvm, home, f"{_PACKAGE}.{program}", arguments)
        process = JavaProcess(f"Java's {program}", command, home)
        self._stack.callback(process.kill)
        return process

    def close(self) -> None:
        self._stack.close()


class JavaProducer:
    """Java's Producer with 64 threads at each broker; all but one stand still."""

    def __init__(self, programs: JavaPrograms, sizes: Sizes) -> None:
        self._programs = programs
        self._sizes = sizes
        self._processes: dict[str, JavaProcess] = {}

    def warm_up(self, server: Server) -> None:
        """Start it, let it send for a while, and stand still."""
        server.create_topic(_SEND_TOPIC, QUEUES)
        words = ["-n", server.name_server, "-t", _SEND_TOPIC]
        words += ["-w", str(THREADS), "-s", str(BODY_BYTES)]
        self._processes[server.kind] = process = self._programs.start("Producer", *words)
        deadline_s = time.monotonic() + _FIRST_TIMEOUT_S
        while not sum(server.queue_ends(_SEND_TOPIC, QUEUES)):
            if time.monotonic() > deadline_s or not process.running:
                raise ClientFailedError(str(process.failed("has sent nothing")))
            time.sleep(_POLL_S)
        time.sleep(self._sizes.java_warm_up_s)
        os.kill(process.pid, signal.SIGSTOP)

    def send(self, server: Server) -> Figures:
        """One turn, counted by the broker."""
        process = self._processes[server.kind]
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(self._sizes.java_ramp_s)
        mark = partial(self._mark, process, server)
        first, last = measure_for(self._sizes.round_s, mark)
        figures = make_figures(first, last, process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        return figures

    def _mark(self, process: JavaProcess, server: Server) -> Mark:
        return take_mark(process.pid, server, sum(server.queue_ends(_SEND_TOPIC, QUEUES)))


class JavaConsumer:
    """Java's Consumer at each broker, which waits for messages when it is not its turn.

    It says how far it is with each pull, so that the broker knows what was consumed. Its backlog
    is filled while it stands still.
    """

    def __init__(self, programs: JavaPrograms, sizes: Sizes) -> None:
        self._programs = programs
        self._sizes = sizes
        self._processes: dict[str, JavaProcess] = {}

    def start(self, server: Server) -> None:
        server.create_topic(_CONSUME_TOPIC, QUEUES)
        words = ["-n", server.name_server, "-t", _CONSUME_TOPIC, "-g", _GROUP, "-p", "false"]
        self._processes[server.kind] = self._programs.start("Consumer", *words)

    def warm_up(self, server: Server) -> None:
        self._consume(server, self._sizes.java_warm_up_messages)

    def consume(self, server: Server) -> Figures:
        """One turn: a tenth of the backlog comes before what is measured, and a tenth after it."""
        return self._consume(server, self._sizes.backlog)

    def _consume(self, server: Server, messages: int) -> Figures:
        process = self._processes[server.kind]
        before = sum(server.queue_ends(_CONSUME_TOPIC, QUEUES))
        os.kill(process.pid, signal.SIGSTOP)
        try:
            messages = sum(fill(server, _CONSUME_TOPIC, messages)) - before
        finally:
            os.kill(process.pid, signal.SIGCONT)
        first = self._wait_for(process, server, before + messages // 10)
        last = self._wait_for(process, server, before + messages * 9 // 10)
        figures = make_figures(first, last, process.pid)
        time.sleep(_DRAIN_S)
        return figures

    def _wait_for(self, process: JavaProcess, server: Server, consumed: int) -> Mark:
        deadline_s = time.monotonic() + _FIRST_TIMEOUT_S
        while (seen := sum(consume_offsets(server, _GROUP, _CONSUME_TOPIC))) < consumed:
            if time.monotonic() > deadline_s or not process.running:
                what = f"has consumed {seen} messages, {consumed} were wanted"
                raise ClientFailedError(str(process.failed(what)))
            time.sleep(_POLL_S)
        return take_mark(process.pid, server, seen)


def consume_offsets(server: Server, group: str, topic: str) -> Sequence[int]:
    """How far a group is in each queue, 0 where the broker does not know."""
    return [_consume_offset(server, group, topic, queue) for queue in range(QUEUES)]


def _consume_offset(server: Server, group: str, topic: str, queue: int) -> int:
    header = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=queue)
    request = java_command(RequestCode.QUERY_CONSUMER_OFFSET, encode_header(header))
    try:
        answer = server.ask(request)
    except LoadError:  # nobody has said anything yet
        return 0
    return decode_header(QueryConsumerOffsetResponse, answer.ext).consume_offset
