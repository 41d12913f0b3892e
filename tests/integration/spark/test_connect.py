"""Spark Connect: the client has no JVM, and the formats are the same: batches, streams, views."""

import sys
from pathlib import Path

import pytest

from integration.spark.elsewhere import make_task, run_task
from integration.spark.spark_rig import Rig


@pytest.mark.slow
def test_a_connect_session_reads_writes_and_streams(rig: Rig, tmp_path: Path) -> None:
    """With no registration; workers run this Python, where the package is installed. What is not
    the same: Spark does not tell ``foreachBatch`` there whose batch it has.
    """
    task = make_task(rig, "Connect", tmp_path, remote="local[2]")
    seen = run_task(task, sys.executable)
    assert seen.session == "pyspark.sql.connect.session"
    seen.check_rows()
    assert "give option sinkId" in seen.refusal
    assert seen.driver not in {worker for _, worker, *_ in seen.places} | seen.jvms
