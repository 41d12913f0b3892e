"""The client's benchmark: its programs do what they say, and a quick look has every figure."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interop.peer import PeerUnavailableError
from interop.peer.fetch import fetch_examples
from interop.peer.java import find_jdk
from interop.peer.outcome import skip_or_fail
from roketto.client import Message
from roketto.client.blocking import Producer
from roketto.testing import Broker

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
_TIMEOUT_S = 280

SENDS = {
    "asyncio, 64 in flight", "uvloop, 64 in flight", "blocking, 64 threads", "blocking, 8 threads",
    "asyncio, batches, 1,024 in flight", "Java's Producer, 64 threads",
}  # fmt: skip
CONSUMES = {
    "push, async def, one by one", "push, async def, one by one, uvloop",
    "push, plain function, one by one", "push, async def, 32 at once", "lite pull",
    "Java's Consumer, one by one",
}  # fmt: skip
OTHERS = {
    "ours, asyncio, 64 in flight": ("roketto", "java"),
    "rocketmq-python-client, 64 threads": ("java",),
    "rocketmq-python-client, 64 futures": ("java",),
    "rocketmq, 64 threads": ("roketto", "java"),
    "pyrocketmq, 64 threads": ("roketto", "java"),
    "ours, push, async def, one by one": ("roketto", "java"),
    "rocketmq-python-client, push": ("java",),
    "rocketmq-python-client, simple": ("java",),
    "rocketmq, push": ("roketto", "java"),
    "pyrocketmq, push": ("roketto", "java"),
}
"""Each at these brokers."""


def run(words: Sequence[str], scratch: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of the benchmark."""
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [sys.executable, *words], input=typed,
        cwd=BENCH, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """What a program has said, a word and a number a line."""
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {word: int(number) for word, number in lines}


@pytest.mark.parametrize("how", ["asyncio", "uvloop", "blocking", "batches"])
def test_a_program_sends_until_it_is_told_to_stop(tmp_path: Path, how: str) -> None:
    """All that it says was acknowledged is there, and nothing else."""
    with Broker() as broker:
        broker.create_topic("T", queues=2)
        words = ["client_ours.py", f"send-{how}", broker.name_server, "T", "16", "4"]
        found = said(run(words, tmp_path, typed="\n"))
        bodies = [message.body for message in broker.messages("T")]
    assert found["ready"] == found["failed"] == 0
    assert len(bodies) == found["acknowledged"] > 0
    assert set(bodies) == {b"x" * 16}


@pytest.mark.parametrize("how", ["asyncio", "uvloop", "threads", "batches", "lite"])
def test_a_program_says_where_the_measured_part_of_its_backlog_is(tmp_path: Path, how: str) -> None:
    """It begins with the first message of a topic that was there before its group."""
    with Broker() as broker:
        broker.create_topic("T", queues=2)
        with Producer("P", broker.name_server) as producer:
            for _ in range(10):
                producer.send_batch([Message("T", b"x")] * 100)
        words = ["client_ours.py", f"consume-{how}", broker.name_server, "T"]
        found = said(run([*words, "G", "100", "900", "60"], tmp_path))
    assert 100 <= found["first"] < 900 <= found["last"] <= 1_000


def test_a_measured_part_ends_after_its_time(tmp_path: Path) -> None:
    """A slow client is measured as far as it comes."""
    script = (
        "from client_child import Progress\n"
        "done = []\n"
        "progress = Progress(10, 1_000_000, 0.0, lambda: done.append(1))\n"
        "for _ in range(20): progress.add(7)\n"
        "assert done == [1]\n"
    )
    assert said(run(["-c", script], tmp_path)) == {"first": 14, "last": 21}


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("raise SystemExit('no broker')", "ended before it said 'ready'"),
        ("raise SystemExit('no broker')", "no broker"),
        ("import time; time.sleep(60)", "did not say 'ready' within 1 s"),
    ],
)
def test_a_program_that_fails_is_told_with_its_last_words(
    tmp_path: Path, program: str, text: str
) -> None:
    """And it is gone."""
    path = tmp_path / "program.py"
    path.write_text(program)
    script = (
        "import client_process\n"
        f"process = client_process.ClientProcess([{str(path)!r}])\n"
        "with process: process.hear('ready', 1.0)\n"
    )
    done = run(["-c", script], tmp_path)
    assert done.returncode == 1
    assert text in done.stderr


def test_figures_are_what_happened_between_two_marks(tmp_path: Path) -> None:
    """Rates by the clock, processor time by the message, and the cores that others had."""
    script = (
        "import os\n"
        "from client_marks import Mark, make_figures\n"
        "first = Mark(10.0, 100, 1.0, 2.0, 50.0)\n"
        "last = Mark(12.0, 1_100, 2.0, 2.5, 53.5)\n"
        "figures = make_figures(first, last, os.getpid())\n"
        "print('rate', int(figures.messages_per_s))\n"
        "print('client', int(figures.client_us))\n"
        "print('broker', int(figures.broker_us))\n"
        "print('others', int(figures.others_cpu))\n"
        "assert figures.client_cpu == 0.5 and figures.memory_mb > 1\n"
    )
    found = said(run(["-c", script], tmp_path))
    assert found == {"rate": 500, "client": 1_000, "broker": 500, "others": 1}


def test_sections_of_another_part_are_refused(tmp_path: Path) -> None:
    """The client has its own."""
    done = run(["run.py", "client", "--only", "flush"], tmp_path)
    assert done.returncode == 2
    assert "for client there are send, consume, others" in done.stderr


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_quick_look_at_the_client_has_every_figure(tmp_path: Path) -> None:
    """Each client at each broker, ours beside Java's; another one, or why it cannot be had."""
    try:
        fetch_examples(find_jdk(), "5.5.0")
    except PeerUnavailableError as unavailable:
        skip_or_fail(unavailable)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = run(["run.py", "client", "--quick", "--keep", str(tmp_path / "kept")], scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "kept" / "client.json").read_text())
    assert result["java_version"] == "5.5.0"
    assert result["compiled"] in (True, False)
    figures = result["figures"]
    assert figures["send"].keys() == SENDS
    assert figures["consume"].keys() == CONSUMES
    for figure in [*figures["send"].values(), *figures["consume"].values()]:
        check_figure(figure, ("roketto", "java"))
    for name, brokers in OTHERS.items():
        figure = figures["others"].get(name, {"value": None, "note": "not installed"})
        if "value" in figure:
            assert figure["note"], name
        else:
            check_figure(figure, brokers)
    ratio = figures["send"]["asyncio, 64 in flight"]["roketto"]["ratio"]
    assert ratio["at_least"] == 1.0
    assert [path.name for path in scratch.iterdir() if "ports" not in path.name] == []


def check_figure(figure: dict[str, dict[str, float]], brokers: Sequence[str]) -> None:
    assert figure.keys() - {"note"} == set(brokers)
    for broker in brokers:
        for name in ("messages_per_s", "memory_mb"):
            assert figure[broker][name] > 0
