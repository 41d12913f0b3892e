"""kill -9 at random moments (F1, F2): what was called safe is where it was said to be."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from fault.appender import QUEUES, body_of, settings
from roketto.protocol.record import decode_records
from roketto.store.store import Store

TESTS = Path(__file__).parents[1]


def life(root: Path, mode: str, first: int, chance: random.Random) -> list[tuple[int, int, int]]:
    """Let a process append for a moment, kill it, and return what it had called safe."""
    child = subprocess.Popen(
        [sys.executable, "-m", "fault.appender", str(root), mode, str(first)],
        env={**os.environ, "PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    line = child.stdout.readline()  # it has recovered and works
    time.sleep(chance.random() * 0.15)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()
    child.stdout.close()
    assert child.wait(10) == -signal.SIGKILL, "it was not the kill that ended it"
    lines = (line + rest).split(b"\n")[:-1]  # the last one may be torn
    return [(int(a), int(b), int(c)) for a, b, c in (text.split() for text in lines)]


def read_queue(store: Store, queue_id: int) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while (result := store.get("T", queue_id, offset, 32)).count:
        for view in result.views:
            for record in decode_records(view, strict=True):
                yield record.queue_offset, bytes(record.body)
        offset = result.next_offset


def check(root: Path, mode: str, safe: dict[int, tuple[int, int]]) -> int:
    """Open the store, compare, close it as a crash would leave it; return the next free number."""
    store = Store(root, settings(is_sync=mode == "sync"), zone=UTC)
    store.open(1)
    try:
        found: dict[int, tuple[int, int]] = {}
        for queue_id in range(QUEUES):
            offsets = []
            for offset, body in read_queue(store, queue_id):
                number = int(body.split()[0])
                assert body == body_of(number), f"message {number} is not what was sent"
                assert number not in found, f"message {number} is there twice"
                found[number] = (queue_id, offset)
                offsets.append(offset)
            assert offsets == list(range(len(offsets))), f"queue {queue_id} has holes"
        lost = {number: where for number, where in safe.items() if found.get(number) != where}
        assert not lost, f"lost or moved: {lost}"
        newest = max(found)
        assert store.query("T", f"U{newest}", 32, 0, 1 << 60), "the newest key is not indexed"
        return newest + 1
    finally:
        store.close()
        (root / "abort").touch()


def run(root: Path, mode: str, cycles: int, seed: int) -> int:
    """Kill and check so many times; return how many messages were called safe."""
    chance = random.Random(seed)
    safe: dict[int, tuple[int, int]] = {}
    first = 0
    for cycle in range(cycles):
        for number, queue_id, offset in life(root, mode, first, chance):
            safe[number] = (queue_id, offset)
        try:
            first = check(root, mode, safe)
        except BaseException as error:
            error.add_note(f"seed {seed}, cycle {cycle}")
            raise
    return len(safe)


@pytest.mark.parametrize(("mode", "cycles"), [("sync", 20), ("async", 10)])
def test_what_was_called_safe_survives_kill_9(tmp_path: Path, mode: str, cycles: int) -> None:
    """20 lives under SYNC_FLUSH and 10 under ASYNC_FLUSH, one store each."""
    assert run(tmp_path, mode, cycles, seed=9) > 5 * cycles


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_was_called_safe_survives_many_more_kills(tmp_path: Path, mode: str) -> None:
    """The long tier: 500 lives each."""
    run(tmp_path, mode, 500, seed=10)


def test_a_message_that_was_never_stored_is_missed(tmp_path: Path) -> None:
    """The planted bug: what is called safe without being stored is found out."""
    life(tmp_path, "async", 0, random.Random(1))
    with pytest.raises(AssertionError, match="lost or moved"):
        check(tmp_path, "async", {10**9: (0, 10**9)})
