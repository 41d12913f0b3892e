"""The benchmark of Spark: rates are counted right, lost rows are told, every figure is there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.peer import PeerUnavailableError
from interop.peer.outcome import skip_or_fail

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
_TIMEOUT_S = 280
_INSTALL_AND_RUN_S = 1180
"""The first time, Kafka and a second PySpark come over the network."""


def run(
    words: list[str | Path], scratch: Path, timeout_s: float = _TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of the benchmark."""
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=BENCH, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def succeed(script: str, scratch: Path) -> str:
    done = run(["-c", script], scratch)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stream_is_measured_by_its_clock_without_its_first_batch(tmp_path: Path) -> None:
    """What passes between two batches counts; a stream of one batch has only that."""
    script = """
from spark_rounds import median_ms, steady_rate
def batch(second, ms, rows=1_000):
    return {"rows": rows, "begin": f"2026-01-01T00:00:{second:02}.500Z", "ms": ms}
batches = [batch(0, 9_000), batch(10, 1_000), batch(12, 2_000)]
assert steady_rate(batches) == 2_000 / 4
assert steady_rate(batches[:1]) == 1_000 / 9
assert median_ms([batch(0, ms) for ms in (900, 800, 30, 10, 20)]) == 20
"""
    succeed(script, tmp_path)


def test_ratios_are_of_the_same_round_and_say_whether_they_hold(tmp_path: Path) -> None:
    """The median of the rounds' ratios, not the ratio of the medians."""
    script = """
from report import Report
from spark_rounds import add_rates
report = Report()
report.begin("copy", "a title")
found = {"kafka": [100, 200, 400], "a": [200, 400, 400], "b": [100, 100, 400]}
add_rates(report, "name", found, {"a": 1.5, "b": 1.5})
figure = report.result["copy"]["name"]
assert figure["kafka"]["rows_per_s"] == 200
assert figure["ratio, a"] == {"value": 2, "rounds": [2, 2, 1], "at_least": 1.5, "holds": True}
assert figure["ratio, b"]["value"] == 1 and not figure["ratio, b"]["holds"]
add_rates(report, "alone", {"roketto": [1, 2, 9]}, {})
assert list(report.result["copy"]["alone"]) == ["roketto"]
"""
    printed = succeed(script, tmp_path)
    assert "promised: at least 1.50, does not hold" in printed
    assert printed.count("rows/s") == 4


def test_everyone_is_warmed_up_and_every_other_round_goes_backwards(tmp_path: Path) -> None:
    """Nobody measures while another side is not held still."""
    script = """
from contextlib import contextmanager
from types import SimpleNamespace
from spark_rounds import Turn, take_turns
done = []
@contextmanager
def alone(side):
    done.append(side)
    yield
    done.append("end")
rig = SimpleNamespace(alone=alone, sizes=SimpleNamespace(rounds=2))
turns = [Turn(name, name, lambda name=name: done.append(name) or len(done)) for name in "ko"]
found = take_turns(rig, turns)
assert "".join(done) == "kkend" "ooend" "kkend" "ooend" "ooend" "kkend", done
assert {label: len(rates) for label, rates in found.items()} == {"k": 2, "o": 2}
"""
    succeed(script, tmp_path)


FAKE_SESSION = """
import json, os, sys
print("ready", file=sys.stderr, flush=True)
for line in sys.stdin:
    job = json.loads(line)
    if job["do"] == "end":
        print("no more memory", file=sys.stderr, flush=True)
        os._exit(3)
    failed = {"error": "ValueError: no such topic"}
    print(json.dumps(failed if job["do"] == "fail" else {"answer": job["rows"]}), flush=True)
"""


def test_a_session_that_fails_or_ends_is_told_with_what_it_said(tmp_path: Path) -> None:
    """The reason of a job, and the end of the log of a process that is no more."""
    (tmp_path / "session.py").write_text(FAKE_SESSION)
    script = f"""
import os, sys
from pathlib import Path
import spark_process
from spark_process import SparkJobError, start_spark
spark_process._PROGRAM = Path({str(tmp_path / "session.py")!r})
home = Path({str(tmp_path / "home")!r})
with start_spark("fake", sys.executable, home, {{}}, os.environ) as spark:
    assert spark.do("count", rows=7) == 7
    for job, reason in (
        ("fail", "fake: fail: ValueError: no such topic"),
        ("end", "no more memory"),
        ("count", "it has ended"),
    ):
        try:
            spark.do(job, rows=1)
        except SparkJobError as error:
            assert reason in str(error), error
        else:
            raise AssertionError(job)
"""
    succeed(script, tmp_path)


def test_a_side_is_held_still_with_all_that_it_has_started(tmp_path: Path) -> None:
    """Children of children, too; then they go on."""
    script = """
import subprocess, sys, time
from pathlib import Path
from spark_process import go_on, hold_still, tree
def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
def until(is_so):
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
lowest = "print('here', flush=True); input()"
child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {lowest!r}])"
top = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
try:
    # Stopped before its own program has begun, it would keep its parent asleep in vfork, state D.
    assert top.stdout.readline() == b"here\\n"
    assert len(tree(top.pid)) == 2
    hold_still(top.pid)
    until(lambda: all(state(pid) == "T" for pid in tree(top.pid)))
finally:
    go_on(top.pid)
    top.communicate(b"\\n", timeout=60)
assert top.returncode == 0
"""
    succeed(script, tmp_path)


def test_rows_that_are_missing_end_the_run(tmp_path: Path) -> None:
    """A sink that loses or doubles some, a source that reads fewer: no rate comes of that."""
    script = """
from spark_sides import Kafka, RowsMissingError
class Spark:
    def do(self, job, **words):
        return {"kafka_rows": 9, "count": [10, 1_279]}[job]
side = Kafka("kafka", Spark(), [], "127.0.0.1:1")
for check in (lambda: side.check_rows("T", 10), lambda: side.check_read(side.source("T"), 10, 128)):
    try:
        check()
    except RowsMissingError as error:
        print(error)
side.check_rows("T", 9)
"""
    printed = succeed(script, tmp_path).splitlines()
    assert printed == [
        "kafka: T has 9 rows instead of 10",
        "kafka: kafka read 10 rows with 1,279 bytes instead of 10 with 1,280",
    ]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_quick_look_at_spark_has_every_figure(tmp_path: Path) -> None:
    """Both sides start, are filled, do all that is asked of them, and leave nothing behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    quick: list[str | Path] = ["run.py", "spark", "--quick", "--keep", tmp_path / "kept"]
    done = run(quick, scratch, timeout_s=_INSTALL_AND_RUN_S)
    if "not measured" in done.stderr:
        skip_or_fail(PeerUnavailableError(done.stderr))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "kept" / "spark.json").read_text())
    figures = result["figures"]
    compared = [
        figures["source"]["source, all columns"],
        figures["source"]["source, offset and body"],
        *figures["stream"].values(),
        figures["sink"]["batch sink"],
    ]
    assert len(compared) == 5
    for figure in compared:
        assert figure["roketto"]["rows_per_s"] > 0
        assert figure["kafka"]["rows_per_s"] > 0
        assert figure["ratio"]["at_least"] >= 1.0
    copied = figures["copy"]["topic to topic"]
    for delivery in ("at-least-once", "transactional"):
        assert copied[f"roketto, {delivery}"]["rows_per_s"] > 0
        assert copied[f"ratio, roketto, {delivery}"]["at_least"] == 1.5
    for name in ("scan of the store", "Parquet"):
        for columns in ("all columns", "offset and body"):
            assert figures["scan"][f"{name}, {columns}"]["roketto"]["rows_per_s"] > 0
    assert figures["floor"]["roketto: batch of 10 rows, 1 queue(s)"]["at_most"] == 350
    assert [path.name for path in scratch.iterdir() if "ports" not in path.name] == []
