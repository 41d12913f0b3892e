"""Spark in processes of their own: other masters, other environments, and what they have seen."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from integration.spark.spark_rig import Rig

PROGRAM = Path(__file__).with_name("roundtrip.py")
ROWS = 1_000
QUEUES = 4
TIMEOUT_S = 280.0
SITE = Path(sysconfig.get_paths()["purelib"])
WORKER = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs")
"""What workers have where nobody has installed anything of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What ``roundtrip.py`` is to do."""

    names: str
    topics: tuple[str, str, str]
    folder: str
    master: str = "local[2]"
    remote: str = ""
    install: bool = False
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What it has seen: rows of all topics, and where tasks ran."""

    rows: list[str]
    viewed: list[tuple[int, int, int]]
    """Of each queue of the first topic: its number, rows, and what these come to."""
    copied: list[str]
    batched: list[str]
    """What ``foreachBatch`` has written."""
    refusal: str
    """What that has said before it was given a ``sinkId``, if it needed one."""
    session: str
    driver: int
    driver_jvm: int | None
    places: list[tuple[int, int, str, int]]
    """Of each task: JVM, worker, where that has our package ("": nowhere), rows."""

    @property
    def jvms(self) -> set[int]:
        return {jvm for jvm, *_ in self.places}

    def check_rows(self) -> None:
        """All rows are there once, in all topics, and tasks have seen each of them."""
        numbers = sorted(map(str, range(ROWS)))
        assert self.rows == numbers
        assert self.copied == self.batched == sorted(f"{number}!" for number in numbers)
        assert {queue for queue, *_ in self.viewed} <= set(range(QUEUES))
        assert sum(rows for _, rows, _ in self.viewed) == ROWS
        assert sum(total for *_, total in self.viewed) == sum(range(ROWS))
        assert sum(rows for *_, rows in self.places) == ROWS


def make_task(rig: Rig, name: str, folder: Path, **more: Any) -> Task:
    """A task with topics of its own."""
    first, second, third = (
        rig.topic(f"{name}{end}", queues=QUEUES) for end in ("In", "Out", "Batches")
    )
    return Task(names=rig.names, topics=(first, second, third), folder=str(folder), **more)


def run_task(
    task: Task, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Seen:
    """Run it to its end; AssertionError with what it said if that is not a good one."""
    said = run_program(
        [python, str(PROGRAM), json.dumps(asdict(task))], Path(task.folder), environment
    )
    seen = json.loads(said.splitlines()[-1])
    return Seen(**{**seen, **{key: list(map(tuple, seen[key])) for key in ("places", "viewed")}})


def run_program(
    command: list[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    fails: bool = False,
) -> str:
    """What a program prints, in an environment without variables of ours or of Spark."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYSPARK_", "SPARK_", "PYTHON", "NAMESRV_", "COVERAGE_"))
    }
    program = command[0] if "python" in command[0] else sys.executable
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**kept, "PYSPARK_PYTHON": program, **(environment or {})}, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, errors = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # Spark's processes with it
            said, errors = process.communicate()
            errors += f"\nit did not end within {TIMEOUT_S} s"
    assert bool(process.returncode) == fails, f"{said[-2000:]}\n{errors[-6000:]}"
    return said + errors if fails else said


def make_environment(folder: Path) -> Path:
    """A new virtual environment with nothing in it; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def site_of(python: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python.parent.parent / "lib" / version / "site-packages"


def bare_python(folder: Path) -> Path:
    """A Python that has what Spark's workers need, and nothing of ours."""
    python = make_environment(folder)
    for name in WORKER:
        (site_of(python) / name).symlink_to(SITE / name)
    return python
