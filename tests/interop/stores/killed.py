"""A copy of the store of a broker that runs, as kill -9 would leave it."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from interop.peer import Broker
from patience import in_time

_WAIT_S: Final = 20.0


def copy_as_killed(broker: Broker, root: Path, copy: Path) -> None:
    """Copy a store between two instructions of its broker.

    Its files are mapped: whatever it has written is in them, and nothing else ever will be.
    """
    copy_of_process(broker.process.pid, root, copy)


def copy_of_process(pid: int, root: Path, copy: Path) -> None:
    """The same of any process."""
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline_s = time.monotonic() + _WAIT_S
        while _state(pid) != "T":
            in_time(deadline_s, "the broker does not stand still")
            time.sleep(0.01)
        shutil.copytree(root, copy)
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
