"""The peer's clients of every kind, many of them in one JVM (`java/ClientShell.java`)."""

import json
import signal
import time
from pathlib import Path
from typing import Any, Final

from .process import Jvm
from .programs import Runtime
from .shell import JvmShell

_MARGIN_S: Final = 30.0
"""What a command may take beyond the time that it was told to wait for something."""


class ClientError(Exception):
    """What a Java client threw: the name of its class, RocketMQ's code if it has one, the text."""

    def __init__(self, kind: str, code: int | None, text: str) -> None:
        super().__init__(f"{kind} {code}: {text}")
        self.kind = kind
        self.code = code
        self.text = text


class ClientShell:
    """Tells clients what to do, one after another; its JVM lives until `close`."""

    def __init__(self, runtime: Runtime, home: Path, jvm: Jvm, name_servers: str) -> None:
        command = runtime.command(jvm, home, "ClientShell", [name_servers])
        self._shell = JvmShell(f"clients {runtime.version}", command, home)

    def do(self, command: str, *, timeout_s: float = 0.0, **arguments: Any) -> Any:
        """Run a command and give its answer; `timeout_s` bounds what it waits for itself.

        Raises ClientError for what the client threw. Arguments that are None are left out.
        """
        asked = {key: value for key, value in arguments.items() if value is not None}
        line = {"do": command, "timeoutMs": int(timeout_s * 1000), **asked}
        deadline_s = time.monotonic() + timeout_s + _MARGIN_S
        try:
            self._shell.write_line(json.dumps(line))
            answer = json.loads(self._shell.read_line(deadline_s))
        except BaseException:
            self.close()  # an answer that comes late must not be taken for the next command's
            raise
        if "error" in answer:
            raise ClientError(answer["error"], answer.get("code"), answer["text"])
        return answer["answer"]

    def kill(self) -> None:
        """kill -9 of the JVM and all clients in it; AssertionError if it had ended before."""
        ended = self._shell.kill()
        assert ended == -signal.SIGKILL, f"it was not the kill that ended the clients: {ended}"

    def close(self) -> None:
        """End the JVM and all clients in it, as a crash would; harmless when it has ended."""
        self._shell.close()
