"""The peer's mqadmin, many commands in one JVM (`java/AdminShell.java`)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import PeerFailedError
from .process import Jvm
from .programs import Runtime
from .shell import JvmShell

ADMIN_CLASS: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
_SEPARATOR: Final = "\x1f"


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
        self._shell = JvmShell("mqadmin", runtime.command(jvm, home, "AdminShell", []), home)

    def run(self, arguments: Sequence[str], timeout_s: float) -> AdminOutput:
        """Run `mqadmin arguments` and give what it wrote."""
        assert not any(_SEPARATOR in argument for argument in arguments)
        deadline_s = time.monotonic() + timeout_s
        try:
            return self._exchange(_SEPARATOR.join(arguments), deadline_s)
        except PeerFailedError as failure:
            self.close()  # an answer that comes late must not be taken for the next command's
            raise PeerFailedError(f"mqadmin {' '.join(arguments)}: {failure}") from failure
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the JVM."""
        self._shell.close()

    def _exchange(self, line: str, deadline_s: float) -> AdminOutput:
        self._shell.write_line(line)
        state, out_bytes, err_bytes = self._shell.read_line(deadline_s).split(" ")
        stdout = self._shell.read(int(out_bytes), deadline_s).decode()
        stderr = self._shell.read(int(err_bytes), deadline_s).decode()
        exit_code = self._shell.wait() if state == "exit" else 0
        return AdminOutput(stdout, stderr, exit_code)
