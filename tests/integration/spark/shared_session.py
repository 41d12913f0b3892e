"""The Spark session of a test process: started by whoever needs it first, ended by the last."""

import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["end_session", "start_session"]

_users: list[SparkSession] = []


def start_session(folder: Path, master: str = "local[2]") -> SparkSession:
    """A session with what every test wants: no UI, few partitions, our interpreter.

    Its first query has run, so that the sockets which it keeps are no leak of a test.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(master)
        .appName("roketto-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .getOrCreate()
    )
    _users.append(session)
    assert session.sparkContext.parallelize(range(4), 2).map(lambda number: number).sum() == 6
    return session


def end_session(session: SparkSession) -> None:
    """Be done with it; the last one stops it and its JVM, and waits for the process."""
    _users.remove(session)
    if _users:
        return
    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
