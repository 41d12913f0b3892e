"""Sessions for tools run on a Java that was found, with this Python, and fit for one machine."""

import os
import sys
from pathlib import Path

import pytest

from roketto.spark import sessions
from roketto.spark.java import JavaRuntime
from roketto.spark.sessions import defaults, environment


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Which Java is found, and whether one may be installed."""
    asked: list[bool] = []

    def find(*, provide: bool) -> JavaRuntime:
        asked.append(provide)
        return JavaRuntime(Path("/opt/java"), 21, "JAVA_HOME")

    monkeypatch.setattr(sessions, "find_java", find)
    return asked


def test_workers_run_the_python_that_runs_now(
    java: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless another one was chosen."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    found = {"JAVA_HOME": "/opt/java", "PYSPARK_PYTHON": sys.executable}
    assert environment(provide_java=False) == found
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert environment()["PYSPARK_PYTHON"] == "/usr/bin/python3"
    assert java == [False, True]


def test_only_sessions_on_this_machine_stay_on_it() -> None:
    """Executors elsewhere have to reach the driver, and have cores of their own."""
    here, there = defaults("local[2]"), defaults("spark://10.0.0.5:7077")
    assert here["spark.driver.host"] == "127.0.0.1"
    assert int(here["spark.sql.shuffle.partitions"]) == min(2 * (os.cpu_count() or 1), 200)
    assert set(here) - set(there) == {
        "spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions",
    }  # fmt: skip
    assert {**there, **here} == here
