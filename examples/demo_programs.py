"""The programs that the demo starts: what they say is shown, and all of them are ended with it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
_KEPT_LINES = 1_000
_END_S = 10.0


class DemoError(Exception):
    """A step did not end as it should."""


class Program:
    """A Python program in a process group of its own; its lines are shown with its name.

    program = Program("shop", ["examples/order_stream.py", "--orders", "100"])
    program.wait_for("acknowledged", timeout_s=30)
    program.stop(timeout_s=10)
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._more = threading.Condition()
        self._popen = subprocess.Popen(
            [sys.executable, "-u", *command], cwd=ROOT, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.pid = self._popen.pid
        self._errors: deque[str] = deque(maxlen=_KEPT_LINES)
        self._readers = [
            threading.Thread(target=self._show, daemon=True),
            threading.Thread(target=self._keep, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _show(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            print(f"    {self._name:9} {line.rstrip()}", flush=True)
            with self._more:
                self._lines.append(line)
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def _keep(self) -> None:
        """What it logs is shown only if it fails."""
        assert self._popen.stderr is not None
        self._errors.extend(self._popen.stderr)

    def wait_for(self, text: str, timeout_s: float) -> None:
        """Wait until a line has this text; DemoError if it ends before, or does not say it."""
        deadline_s = time.monotonic() + timeout_s
        with self._more:
            while not any(text in line for line in self._lines):
                if self._popen.poll() is not None:
                    raise self._failed("ended")
                if time.monotonic() > deadline_s:
                    raise self._failed(f"has not said {text!r} after {timeout_s:.0f} s")
                self._more.wait(0.2)

    def wait(self, timeout_s: float) -> None:
        """Wait for its end, which has to be a good one."""
        try:
            code = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._failed(f"has not ended after {timeout_s:.0f} s") from None
        for reader in self._readers:
            reader.join(_END_S)
        if code:
            raise self._failed(f"ended with {code}")

    def stop(self, timeout_s: float) -> None:
        """Ask it to end, as an operator does."""
        self._popen.send_signal(signal.SIGTERM)
        self.wait(timeout_s)

    def kill(self) -> int:
        """End it and all that it has started, without warning; the signal that ended it."""
        if self._popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        return -self._popen.wait(_END_S)

    def _failed(self, what: str) -> DemoError:
        return DemoError(f"the program {self._name} {what}: {''.join(self._errors)[-2000:]}")


class Programs:
    """Those that run; leaving the block ends what is left of them."""

    def __init__(self) -> None:
        self._started: list[Program] = []

    def start(self, name: str, command: Sequence[str]) -> Program:
        program = Program(name, command)
        self._started.append(program)
        return program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._started:
            program.kill()
