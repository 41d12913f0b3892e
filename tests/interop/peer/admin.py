"""The peer's mqadmin, many commands in one JVM (`java/AdminShell.java`)."""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import PeerFailedError
from .process import LOG_NAME, Jvm, environment, prepare_home
from .programs import Runtime

_SEPARATOR: Final = "\x1f"
_READ_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class AdminOutput:
    """What one mqadmin command wrote, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int


class AdminShell:
    """Runs mqadmin commands; its JVM starts with the first and lives until `close`.

    A command that ends the JVM, as mqadmin does on bad options, is answered like any other, and
    the next command starts a new one.
    """

    def __init__(self, runtime: Runtime, home: Path, jvm: Jvm) -> None:
        prepare_home(home)
        self._home = home
        self._command = runtime.command(jvm, home, "AdminShell", [])
        self._popen: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(self, arguments: Sequence[str], timeout_s: float) -> AdminOutput:
        """Run `mqadmin arguments` and give what it wrote."""
        assert not any(_SEPARATOR in argument or "\n" in argument for argument in arguments)
        popen = self._popen or self._start()
        deadline = time.monotonic() + timeout_s
        try:
            return self._exchange(popen, _SEPARATOR.join(arguments), deadline)
        except BaseException:
            self.close()  # an answer that comes late must not be taken for the next command's
            raise

    def close(self) -> None:
        """End the JVM."""
        if self._popen is not None:
            self._popen.kill()
            self._reap(self._popen)

    def _start(self) -> subprocess.Popen[bytes]:
        self._buffer = b""
        with (self._home / LOG_NAME).open("ab") as log:
            self._popen = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                cwd=self._home,
                env=environment(self._home),
                start_new_session=True,
            )
        return self._popen

    def _exchange(self, popen: subprocess.Popen[bytes], line: str, deadline: float) -> AdminOutput:
        assert popen.stdin is not None
        popen.stdin.write(line.encode() + b"\n")
        while b"\n" not in self._buffer:
            self._read_more(popen, line, deadline)
        header, _, self._buffer = self._buffer.partition(b"\n")
        state, out_bytes, err_bytes = header.decode().split(" ")
        out_end = int(out_bytes)
        err_end = out_end + int(err_bytes)
        while len(self._buffer) < err_end:
            self._read_more(popen, line, deadline)
        stdout = self._buffer[:out_end].decode()
        stderr = self._buffer[out_end:err_end].decode()
        self._buffer = self._buffer[err_end:]
        exit_code = self._reap(popen) if state == "exit" else 0
        return AdminOutput(stdout, stderr, exit_code)

    def _read_more(self, popen: subprocess.Popen[bytes], line: str, deadline: float) -> None:
        assert popen.stdout is not None
        what = f"mqadmin {line.replace(_SEPARATOR, ' ')}"
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([popen.stdout], [], [], left_s)[0]:
            raise PeerFailedError(f"{what} did not end in time")
        data = os.read(popen.stdout.fileno(), _READ_BYTES)
        if not data:
            log = (self._home / LOG_NAME).read_text(errors="replace")
            raise PeerFailedError(
                f"{what} ended the JVM without an answer; its log ends:\n{log[-2000:]}"
            )
        self._buffer += data

    def _reap(self, popen: subprocess.Popen[bytes]) -> int:
        self._popen = None
        assert popen.stdin is not None
        assert popen.stdout is not None
        with popen.stdin, popen.stdout:
            return popen.wait()
