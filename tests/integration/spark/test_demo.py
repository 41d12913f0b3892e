"""The demo's programs do what they say: a pipeline that counts every order once, and a report."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import demo
import roketto.spark.sessions  # before it could keep the find_java of a test
from demo_programs import DemoError
from integration.spark.spark_rig import Rig
from order_report import consume, plot
from order_stream import orders, stream
from orders_pipeline import start_archive, start_stats
from roketto.remoting.loop import run
from roketto.spark import JavaNotFoundError

ROOT: Final = Path(__file__).parents[3]
COUNT: Final = 2_000
NOW: Final[dict[str, Any]] = {"availableNow": True}
_DEMO_S: Final = 240


@pytest.mark.slow
def test_the_pipeline_counts_every_order_once_and_again_after_a_lost_commit(
    spark: SparkSession, rig: Rig, tmp_path: Path
) -> None:
    """The last commit of the checkpoint is removed: its batch is run again, and recognised."""
    begin = datetime(2026, 11, 18, 12, tzinfo=UTC)
    sent = list(orders(COUNT, begin))
    run(stream(rig.names, sent, seconds=0))
    expected = demo.windows_of(sent)
    assert sum(window.orders for window in expected.values()) == COUNT
    start_archive(spark, rig.names, tmp_path, tmp_path / "parquet", NOW).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "parquet")).count() == COUNT + 1
    for attempt in range(2):
        start_stats(spark, rig.names, tmp_path, NOW).awaitTermination()
        found = run(consume(rig.names, wait_s=1.0))
        demo.check(found, expected)
        commits = tmp_path / "stats" / "commits"
        last = max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)
        assert last >= attempt
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
    path = tmp_path / "orders.png"
    plot(found, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_wrong_result_ends_the_demo() -> None:
    """It would see what it says that there is none of: a result twice, or one that is missing."""
    expected = demo.windows_of(list(orders(100, datetime(2026, 11, 18, 12, tzinfo=UTC))))
    right = list(expected.values())
    demo.check(right, expected)
    with pytest.raises(DemoError, match="1 results came twice"):
        demo.check([*right, right[0]], expected)
    with pytest.raises(DemoError, match="1 results are missing"):
        demo.check(right[1:], expected)


@pytest.fixture
def no_java() -> Iterator[None]:
    def find_java(**_: object) -> None:
        raise JavaNotFoundError("Spark needs Java 17 or newer and there is none")

    exported = vars(roketto.spark)  # which keeps what it was asked for
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roketto.spark.java.find_java", find_java)
        exported.pop("find_java", None)
        yield
    exported.pop("find_java", None)


def test_the_demo_says_why_it_leaves_spark_out(
    no_java: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not demo.has_spark()
    said = capsys.readouterr().out
    assert "the pipeline is left out" in said
    assert "Spark needs Java 17 or newer" in said


def test_the_pipeline_explains_its_options() -> None:
    done = subprocess.run(
        [sys.executable, "examples/orders_pipeline.py", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    for option in ("--name-server", "--checkpoint", "--archive", "--available-now"):
        assert option in done.stdout


@pytest.mark.slow
def test_the_whole_demo_ends_well_and_in_time(tmp_path: Path) -> None:
    """./dev demo, as a newcomer types it: two kill -9, results once each, a plot."""
    picture = tmp_path / "orders.png"
    done = subprocess.run(
        [str(ROOT / "dev"), "demo", "--plot", str(picture)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=_DEMO_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("it ended with signal 9") == 2
    assert "20001 orders are there, of 20001 that were acknowledged" in done.stdout
    assert "20000 orders are counted, each once" in done.stdout
    assert "20001 orders are in" in done.stdout, "the archive has all of them"
    assert picture.read_bytes().startswith(b"\x89PNG")
