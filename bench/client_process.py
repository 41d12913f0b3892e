"""A program that is measured: started, listened to, told to stop, and gone at the end."""

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_FOLDER: Final = Path(__file__).parent
_END_TIMEOUT_S: Final = 15.0
_TAIL_LINES: Final = 15


class ClientFailedError(Exception):
    """A client did not do what it was asked for; the text has the end of what it said."""


class ClientProcess:
    """One of our programs in Python, which says a word and a number a line.

    with ClientProcess(["client_ours.py", "send-asyncio", …]) as process:
        process.hear("ready", 10.0)
        process.stop()
        sent = process.hear("acknowledged", 10.0)
    """

    def __init__(
        self,
        words: Sequence[str],
        path: Sequence[str] = (),
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        program, *arguments = words
        self.program = program
        self._name = " ".join(words)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed at its end
        self._popen = subprocess.Popen(
            [sys.executable, *options, str(_FOLDER / program), *arguments],
            env={**_environment(path or sys.path), **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        try:
            self._popen.wait(_END_TIMEOUT_S if error is None else 0.1)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._reader.join()
        assert self._popen.stdout is not None
        self._popen.stdout.close()
        self._stderr.close()

    def hear(self, word: str, timeout_s: float) -> int:
        """Wait for a line with this word; its number. What is said before it is passed over."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                raise self._failed(f"did not say {word!r} within {timeout_s:.0f} s") from None
            if not line:
                raise self._failed(f"ended before it said {word!r}")
            said, _, number = line.partition(" ")
            if said == word:
                return int(number)

    def stop(self) -> None:
        """Let it end what it does; harmless when it has ended, or was told before."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.close()
        except BrokenPipeError:  # it is gone
            return

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _failed(self, what: str) -> ClientFailedError:
        self._stderr.seek(0)
        tail = self._stderr.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return ClientFailedError("\n".join([f"{self._name} {what}", *tail]))


def _environment(path: Sequence[str]) -> Mapping[str, str]:
    """Ours, without what would steer a client elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROCKETMQ_", "NAMESRV_", "PYTHON"))
    }
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}
