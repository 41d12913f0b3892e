"""One JVM: started on a leash, watched through its log, stopped by its own process id."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from .errors import PeerFailedError, PeerLateError

QUICK: Final = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dtls.server.mode=disabled",
)  # fmt: skip
"""For tests: the JVM starts in half the time, and never compiles for speed.

No test speaks TLS with the peer. Each of its servers would make itself a certificate at its start,
which takes longer than all else that it does then: two seconds of the processor.
"""

PLAIN: Final[tuple[str, ...]] = ()
"""For benchmarks: the JVM as it comes."""

STOP_TIMEOUT_S: Final = 40.0
"""A broker of 5.5.0 was seen to need 17 s after TERM until its last thread had looked up."""

_LOG_TAIL_LINES: Final = 40
_POLL_S: Final = 0.02
_THREAD_NAME_CHARS: Final = 15
_LEAST_PRIORITY: Final = 19

# RocketMQ reaches into the JDK to free its mapped files and direct buffers.
_OPEN_MODULES: Final = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)

# These would change what the peer does without a trace in the test that runs it.
_FOREIGN_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
_FOREIGN_PREFIXES: Final = ("ROCKETMQ_", "NAMESRV_")

# 4.9 looks for the three named files below its home and does not start without them; 5.x and
# the clients take the one that a property names. Warnings join the process's output in its log.
LOG_NAME: Final = "process.log"
_LOGBACK: Final = f"""<configuration>
  <appender name="log" class="ch.qos.logback.core.FileAppender">
    <file>${{user.home}}/{LOG_NAME}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %level %logger{{0}} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""
_LOGBACK_FILES: Final = ("logback_broker.xml", "logback_namesrv.xml", "logback_tools.xml")


@dataclass(frozen=True, slots=True)
class Jvm:
    """How a JVM is started: the bound of its heap, its flags and its system properties."""

    heap_mb: int
    flags: Sequence[str] = QUICK
    properties: Mapping[str, str] = field(default_factory=dict)

    def options(self, home: Path) -> list[str]:
        logback = str(home / "conf" / _LOGBACK_FILES[0])
        properties = {
            "user.home": str(home),
            "rocketmq.home.dir": str(home),
            "file.encoding": "UTF-8",
            "rmq.logback.configurationFile": logback,
            "logback.configurationFile": logback,
            **self.properties,
        }
        defined = [f"-D{name}={value}" for name, value in properties.items()]
        heap = [f"-Xms{self.heap_mb}m", f"-Xmx{self.heap_mb}m"]
        return [*heap, *self.flags, *_OPEN_MODULES, *defined]


def prepare_home(home: Path) -> None:
    """Make a directory that RocketMQ accepts as ROCKETMQ_HOME."""
    conf = home / "conf"
    conf.mkdir(parents=True)
    for name in _LOGBACK_FILES:
        (conf / name).write_text(_LOGBACK)


def environment(home: Path) -> dict[str, str]:
    """Give the environment of a peer process: ours without what would steer it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN_VARIABLES and not name.startswith(_FOREIGN_PREFIXES)
    }
    return {**kept, "ROCKETMQ_HOME": str(home)}


class JavaProcess:
    """A running JVM. Its output goes to `log`; with `output`, only its standard error does.

    Its standard input is a pipe that this process holds open: the programs end themselves when
    it closes, so that a killed test run leaves no JVM behind.
    """

    def __init__(
        self, name: str, command: Sequence[str], home: Path, output: Path | None = None
    ) -> None:
        self.name = name
        self.log = home / LOG_NAME
        with self.log.open("ab") as stderr, (output or self.log).open("ab") as stdout:
            # A session of its own: Ctrl-C reaches the tests, which then stop it in order.
            self._popen: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                cwd=home,
                env=environment(home),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def calm(self, thread: str) -> None:
        """Let a thread have only what nobody else wants of the processor, where the system can."""
        for task in Path(f"/proc/{self.pid}/task").glob("*"):
            with suppress(OSError):  # it has just ended
                if (task / "comm").read_text().strip() == thread[:_THREAD_NAME_CHARS]:
                    os.setpriority(os.PRIO_PROCESS, int(task.name), _LEAST_PRIORITY)

    def wait_for_output(self, text: str, timeout_s: float) -> None:
        """Return when `text` is in the log; raise with the log's tail if it never comes."""
        deadline = time.monotonic() + timeout_s
        wanted = text.encode()
        while wanted not in self.log.read_bytes():
            if not self.running:
                raise self.failed(f"ended with {self._popen.returncode} before it said {text!r}")
            if time.monotonic() > deadline:
                raise self.late(f"did not say {text!r} within {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end and give the exit code; raise with the log's tail if it never comes."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.late(f"did not end within {timeout_s:.0f} s") from None

    def terminate(self) -> None:
        """Ask it to end; `stop` waits for it."""
        self._popen.terminate()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask it to end, wait, and kill it when it does not; harmless when it has ended."""
        self._popen.terminate()
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._reap()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._popen.kill()
        self._reap()

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def _reap(self) -> None:
        self._popen.wait()
        stdin: IO[bytes] | None = self._popen.stdin
        assert stdin is not None
        stdin.close()

    def failed(self, what: str) -> PeerFailedError:
        """Give the error that says `what` went wrong, with the end of the log."""
        return PeerFailedError(self._told(what))

    def late(self, what: str) -> PeerLateError:
        """Give the error that says `what` did not happen in time, with the end of the log."""
        return PeerLateError(self._told(what))

    def _told(self, what: str) -> str:
        return f"{self.name} (pid {self.pid}) {what}; its output ends:\n{self.log_tail()}"
