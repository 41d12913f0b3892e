"""A JVM that answers one line of input after another, so that not every question starts a JVM."""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .errors import PeerFailedError, PeerLateError
from .process import LOG_NAME, environment, prepare_home

_READ_BYTES: Final = 65536


class JvmShell:
    """Writes lines to a program and reads its answers; its standard error goes to its log.

    The JVM starts with the first line and lives until `close`, or until its standard input
    closes with this process.
    """

    def __init__(self, name: str, command: Sequence[str], home: Path) -> None:
        prepare_home(home)
        self.name = name
        self._command = command
        self._home = home
        self._popen: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def write_line(self, line: str) -> None:
        """Say one line, to a new JVM if there is none."""
        assert "\n" not in line
        popen = self._popen or self._start()
        assert popen.stdin is not None
        data = memoryview(line.encode() + b"\n")
        while data:
            data = data[popen.stdin.write(data) :]

    def read_line(self, deadline_s: float) -> str:
        """Give the next line of the answer; `deadline_s` is of the monotonic clock."""
        while b"\n" not in self._buffer:
            self._read_more(deadline_s)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def read(self, size: int, deadline_s: float) -> bytes:
        """Give the next `size` bytes of the answer."""
        while len(self._buffer) < size:
            self._read_more(deadline_s)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def wait(self) -> int:
        """Wait for a JVM that is about to end and give its exit code."""
        assert self._popen is not None
        popen, self._popen = self._popen, None
        assert popen.stdin is not None
        assert popen.stdout is not None
        with popen.stdin, popen.stdout:
            return popen.wait()

    def kill(self) -> int:
        """End the JVM as kill -9 does; the status says whether it was that which ended it."""
        assert self._popen is not None, f"{self.name} does not run"
        self._popen.kill()
        return self.wait()

    def close(self) -> None:
        """End the JVM, if there is one."""
        if self._popen is not None:
            self.kill()

    def log_tail(self, chars: int = 2000) -> str:
        return (self._home / LOG_NAME).read_text(errors="replace")[-chars:]

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

    def _read_more(self, deadline_s: float) -> None:
        assert self._popen is not None
        stdout = self._popen.stdout
        assert stdout is not None
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not select.select([stdout], [], [], left_s)[0]:
            raise PeerLateError(f"{self.name} did not answer in time")
        data = os.read(stdout.fileno(), _READ_BYTES)
        if not data:
            raise PeerFailedError(
                f"{self.name} ended without an answer; its log ends:\n{self.log_tail()}"
            )
        self._buffer += data
