"""A Spark session in a process of its own: started, given jobs, held still, stopped by its id."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

CORES: Final = 2

_PROGRAM: Final = Path(__file__).with_name("spark_session.py")
_JOB_TIMEOUT_S: Final = 420.0
_STOP_TIMEOUT_S: Final = 30.0
_LOG_TAIL_CHARS: Final = 3000
_STOPPED_S: Final = "86400s"


class SparkJobError(Exception):
    """A Spark session did not start, or did not do what it was told; the text says what."""


class SparkProcess:
    """One session; `start_spark` makes it. Jobs are those of `spark_session.py`.

    with start_spark("roketto", sys.executable, folder, {}) as spark:
        spark.do("make_rows", rows=1_000, files=8, path="/tmp/rows")
    """

    def __init__(self, name: str, popen: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    def do(self, job: str, **words: Any) -> Any:
        """Give it a job and wait for what comes of it."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        try:
            self._popen.stdin.write(json.dumps({"do": job, **words}) + "\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            raise self._failed(job, "it has ended before") from None
        if not select.select([self._popen.stdout], [], [], _JOB_TIMEOUT_S)[0]:
            raise self._failed(job, f"no answer within {_JOB_TIMEOUT_S:.0f} s")
        line = self._popen.stdout.readline()
        if not line:
            raise self._failed(job, "it has ended")
        answered = json.loads(line)
        if "error" in answered:
            raise SparkJobError(f"{self.name}: {job}: {answered['error']}")
        return answered["answer"]

    def _failed(self, job: str, why: str) -> SparkJobError:
        said = self.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
        return SparkJobError(f"{self.name}: {job}: {why}; its output ends:\n{said}")

    def stop(self) -> None:
        """End the session; its JVM and its workers end with it."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        below = tree(self.pid)
        with suppress(BrokenPipeError):
            self._popen.stdin.close()
        try:
            self._popen.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for pid in reversed(below):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._popen.wait()
        self._popen.stdout.close()


@contextmanager
def start_spark(
    name: str,
    python: Path | str,
    folder: Path,
    config: Mapping[str, str],
    environment: Mapping[str, str],
) -> Iterator[SparkProcess]:
    """Run a session of that Python until the block ends, with its files below ``folder``."""
    folder.mkdir(parents=True)
    log = folder / "spark.log"
    command = [str(python), str(_PROGRAM), json.dumps({**settings(folder), **config})]
    with log.open("wb") as stderr:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            env={**environment, "PYSPARK_PYTHON": str(python)}, cwd=folder, text=True,
        )  # fmt: skip
    process = SparkProcess(name, popen, log)
    try:
        yield process
    finally:
        process.stop()


def settings(folder: Path) -> dict[str, str]:
    """What both sides have: two cores, no pages to look at, and patience while they stand still."""
    return {
        "spark.master": f"local[{CORES}]",
        "spark.app.name": "roketto-bench",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.network.timeout": _STOPPED_S,
    }


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def hold_still(pid: int) -> None:
    """Stop a process and all below it, and what they start meanwhile."""
    held: set[int] = set()
    deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    while more := set(tree(pid)) - held:
        for one in more:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        held |= more
        if time.monotonic() > deadline_s:
            raise SparkJobError(f"process {pid} starts others faster than they can be stopped")


def go_on(pid: int) -> None:
    for one in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGCONT)
