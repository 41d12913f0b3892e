"""The benchmark of the store runs, measures all that it says, and tells what it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roketto.compiled import HOT_MODULES, is_compiled

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
_TIMEOUT_S = 280

FIGURES = {
    "append": [
        "append 128 B", "append 128 B in batches of 32",
        "append 1 KiB", "append 1 KiB in batches of 32",
        "read 128 B in pulls of 32", "read 1 KiB in pulls of 32",
        "read 128 B in pulls of 32, appended in batches",
        "read 1 KiB in pulls of 32, appended in batches",
    ],
    "steps": [
        f"append {size}{batches}: {step}"
        for size in ("128 B", "1 KiB")
        for batches in ("", " in batches of 32")
        for step in ("the whole append", "its queue found", "record encoded into the log",
                     "unit of the queue", "hash of the tag", "index, two keys",
                     "what is handed on and returned")
    ],
    "flush": [
        f"{writers}: {what}"
        for writers in ("1 writer", "8 writers", "64 writers")
        for what in ("syncs", "messages of one sync", "safe")
    ],
    "rebuild": ["rebuild, 128 B", "rebuild, 1 KiB"],
    "queues": [
        "32 queues: a new one", "32 queues: a new one, in the ticks",
        "32 queues: resident memory of its own",
        "32 queues: resident memory, pages of mapped files",
        "32 queues: append 128 B, ratio", "32 queues: append 1 KiB, ratio",
        "32 queues: append 128 B in batches of 32, ratio",
        "32 queues: read 128 B in pulls of 32, ratio",
        "32 queues: append 128 B in batches of 32 and read each at once, ratio",
        "32 queues: append 128 B, the longest tick", "32 queues: append 1 KiB, the longest tick",
        "32 queues: descriptors", "32 queues: maps",
    ],
    "backlog": [
        "opening it after a clean stop",
        "backlog: append 128 B, ratio", "backlog: append 128 B in batches of 32, ratio",
        "backlog: append 1 KiB, ratio", "backlog: read 128 B in pulls of 32, the newest, ratio",
        "read 1 KiB in pulls of 32, the old end, every page touched, from the disk",
        "read 1 KiB in pulls of 32, the old end, every page touched, again",
    ],
    "recovery": [
        "appending before the kill", "opening with the cache as the kill left it",
        "opening with nothing in the cache",
    ],
}  # fmt: skip
"""What must be there, and above zero."""


def run(words: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of the benchmark, with the stores below ``folder``."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=BENCH, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert list(scratch.iterdir()) == [], "a store was left behind"
    return done


def test_a_quick_look_at_the_store_finds_every_figure(tmp_path: Path) -> None:
    """Each of them is printed with its unit and kept where it was asked for, and only there."""
    before = {path: path.read_bytes() for path in (BENCH / "results").iterdir()}
    done = run(["run.py", "store", "--quick", "--keep", tmp_path / "kept"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "kept" / "store.json").read_text())
    assert result["machine"]["cpus"]
    assert result["compiled"] is is_compiled()
    for section, names in FIGURES.items():
        for name in names:
            figure = result["figures"][section][name]
            assert figure["value"] > 0, f"{section}: {name}: {figure}"
            assert name in done.stdout
    check_sums(result["figures"]["steps"])
    promised = [f for section in result["figures"].values() for f in section.values()
                if "holds" in f]  # fmt: skip
    assert len(promised) > 10
    assert done.stdout.count("promised: at ") == len(promised)
    assert before == {path: path.read_bytes() for path in (BENCH / "results").iterdir()}


def check_sums(figures: dict[str, dict[str, float]]) -> None:
    """The steps of each kind of append are the whole of it."""
    whole = ": the whole append"
    kinds = [name.removesuffix(whole) for name in figures if name.endswith(whole)]
    assert len(kinds) == 4
    for kind in kinds:
        steps = [figure["value"] for name, figure in figures.items()
                 if name.startswith(f"{kind}: ") and not name.endswith(whole)]  # fmt: skip
        assert len(steps) == 10
        assert sum(steps) == pytest.approx(figures[kind + whole]["value"])


def test_one_section_can_be_run_alone(tmp_path: Path) -> None:
    """--only runs it and nothing else, and refuses what there is not."""
    done = run(["run.py", "store", "--quick", "--only", "rebuild"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rebuild, 1 KiB" in done.stdout
    assert "append 128 B" not in done.stdout
    refused = run(["run.py", "store", "--quick", "--only", "nothing"], tmp_path)
    assert refused.returncode == 2
    assert "invalid choice: 'nothing'" in refused.stderr
    refused = run(["run.py", "codec", "--only", "flush"], tmp_path)
    assert refused.returncode == 2


def test_a_backlog_without_room_is_said_to_lack(tmp_path: Path) -> None:
    """Nothing is written where the disk cannot hold it."""
    script = (
        "from dataclasses import replace\n"
        "from report import Report\n"
        "from store_recovery import measure_backlog\n"
        "from store_sizes import QUICK\n"
        "measure_backlog(Report(), replace(QUICK, backlog_bytes=1 << 60))\n"
    )
    done = run(["-c", script], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not measured: it needs" in done.stdout
    assert "set TMPDIR" in done.stdout


def test_a_promise_is_compared_with_its_figure(tmp_path: Path) -> None:
    """At least, at most, on both sides of the bound."""
    script = (
        "from report import Report\n"
        "report = Report()\n"
        "report.begin('s', 'a title')\n"
        "report.add('a', 9, 'x', least=10)\n"
        "report.add('b', 10, 'x', least=10)\n"
        "report.add('c', 11, 'x', most=10)\n"
        "report.add('d', 10, 'x', most=10)\n"
        "assert [f['holds'] for f in report.result['s'].values()] == [False, True, False, True]\n"
    )
    done = run(["-c", script], tmp_path)
    assert done.returncode == 0, done.stderr
    holds = ["does not hold" not in line for line in done.stdout.splitlines() if "promised" in line]
    assert holds == [False, True, False, True]


@pytest.mark.parametrize("how", ["process.call(sys.exit)", "process.start(sys.exit); wait()"])
def test_a_process_that_ended_by_itself_was_not_killed(tmp_path: Path, how: str) -> None:
    """The kill of the recovery must be the kill: another end is an error."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from store_process import StoreProcess\n"
        "from store_sizes import QUICK\n"
        f"process = StoreProcess(Path({str(tmp_path / 'store')!r}), QUICK.settings)\n"
        "wait = lambda: process._popen.wait()\n"
        f"with process: {how}\n"
    )
    done = run(["-c", script], tmp_path)
    assert done.returncode == 1
    assert "has ended by itself: 1" in done.stderr or "was not the kill" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_hot_modules_of_the_store_compile_unchanged(tmp_path: Path) -> None:
    """./dev bench mypyc compiles them, runs both builds and compares."""
    done = run(["run.py", "mypyc", "--quick", "--keep", tmp_path / "kept"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "kept" / "mypyc.json").read_text())
    assert result["modules"] == list(HOT_MODULES)
    assert result["figures"]["mypyc"]["compiled: append 128 B, ratio"]["value"] > 0
