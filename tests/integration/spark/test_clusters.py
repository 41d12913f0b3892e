"""Executors in JVMs of their own, with our package installed for them and without."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from integration.spark.elsewhere import Seen, bare_python, make_task, run_task
from integration.spark.spark_rig import Rig
from interop.peer.ports import lease_ports
from patience import in_time

SPARK_HOME = Path(pyspark.__file__).parent
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")


def check_executors(seen: Seen) -> None:
    """Tasks ran in two JVMs, and neither of them is the driver's; all knew whose batches are."""
    assert seen.driver_jvm is not None
    assert len(seen.jvms) == 2
    assert seen.driver_jvm not in seen.jvms
    assert not seen.refusal


def environment_for(python: Path, folder: Path) -> dict[str, str]:
    """For a driver of this Python whose cluster runs another one, which has nothing of ours."""
    return {"PYSPARK_PYTHON": str(python), "TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder)}


@pytest.mark.slow
def test_a_local_cluster_gets_the_package_by_value(rig: Rig, bare: Path, tmp_path: Path) -> None:
    """``install(spark)``: no process that Spark starts can import it by itself."""
    task = make_task(rig, "ByValue", tmp_path, master=LOCAL_CLUSTER, install=True)
    seen = run_task(task, sys.executable, environment_for(bare, tmp_path))
    check_executors(seen)
    seen.check_rows()
    assert {place for *_, place, _ in seen.places} == {""}
    assert len(list(tmp_path.glob("roketto-*/luggage-*"))) == 1, "it is unpacked once"


@pytest.mark.slow
def test_a_local_cluster_finds_what_is_installed(rig: Rig, tmp_path: Path) -> None:
    task = make_task(rig, "Installed", tmp_path, master=LOCAL_CLUSTER)
    seen = run_task(task, sys.executable, {"SPARK_LOCAL_DIRS": str(tmp_path)})
    check_executors(seen)
    seen.check_rows()
    assert "" not in {place for *_, place, _ in seen.places}


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each; the master's URL."""
    lease = lease_ports((0, 1, 2, 3))
    master = f"spark://127.0.0.1:{lease.first}"
    starting = [
        ["master.Master", "--host", "127.0.0.1", "--port", str(lease.first),
         "--webui-port", str(lease.first + 1)],
        *(
            ["worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
             "--webui-port", str(lease.first + number), "--work-dir", str(folder / f"work{number}"),
             master]
            for number in (2, 3)
        ),
    ]  # fmt: skip
    processes: list[subprocess.Popen[bytes]] = []
    log = folder / "cluster.log"
    try:
        for words in starting:
            with log.open("a") as said:
                processes.append(start(words, said.fileno()))
            if len(processes) == 1:
                wait_for(log, r"I have been elected leader|New state: ALIVE", 1)
        wait_for(log, r"Registering worker .* with 1 cores", 2)
        yield master
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(_STOP_TIMEOUT_S)
        lease.release()


def start(words: list[str], log: int) -> subprocess.Popen[bytes]:
    program = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}"]
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYSPARK_", "SPARK_"))
    }
    return subprocess.Popen(
        [*program, *words[1:]], stdout=log, stderr=log,
        env={**environment, "SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_MEMORY": "256m"},
    )  # fmt: skip


def wait_for(log: Path, pattern: str, times: int) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while len(re.findall(pattern, log.read_text())) < times:
        in_time(deadline, log.read_text()[-4000:])
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("is_installed", [True, False], ids=["installed", "by-value"])
def test_a_standalone_cluster_runs_batches_and_streams(
    rig: Rig, bare: Path, tmp_path: Path, is_installed: bool
) -> None:
    """A master and two workers, as they are started on machines of their own."""
    name = "Alone" if is_installed else "AloneByValue"
    with standalone(tmp_path) as master:
        config = {"spark.executor.memory": "512m", "spark.cores.max": "2"}
        task = make_task(
            rig, name, tmp_path, master=master, install=not is_installed, config=config
        )
        python = Path(sys.executable) if is_installed else bare
        seen = run_task(task, sys.executable, environment_for(python, tmp_path))
    check_executors(seen)
    seen.check_rows()
    assert ("" in {place for *_, place, _ in seen.places}) != is_installed
