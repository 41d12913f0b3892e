"""kill -9 at random moments (F1, F2): what was acknowledged is where it was said to be.

A process appends to a store for eight producers and is killed; its evidence is not. Then the store
is opened, here or by the next such process, and the checker compares. All lives of a run share one
store. A power loss is another matter: test_power_loss.py.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from random import Random
from typing import Final

import pytest

from checker import Found, QueueRead, Report, check
from evidence import Evidence, Outcome, Send
from fault.appender import HALF, PRODUCERS, QUEUES, queue_name, settings, value_of
from roketto.protocol.ids import decode_offset_id
from roketto.protocol.record import Record, decode_record, decode_records
from roketto.protocol.sysflags import TRANSACTION_PREPARED, TRANSACTION_TYPE
from roketto.store.store import Store

TESTS: Final = Path(__file__).parents[1]
LIVES_PER_STALL: Final = 5
KEYS_ASKED: Final = 20
"""Messages that are looked up by key and by id after each life."""


class Lives:
    """One store through many lives of its owner, each ended by a kill."""

    def __init__(self, folder: Path, mode: str, seed: int, plant: str = "") -> None:
        self.folder = folder
        self.root = folder / "store"
        self.mode = mode
        self.random = Random(seed)
        self.note = f"mode {mode}, seed {seed}"
        self.evidence = Evidence()
        self.kills = 0
        self.stalls = 0
        """Lives that have ended between an append and its acknowledgement for sure."""
        self._plant = plant
        self._checked_sends = 0
        self._checked_log = 0
        self._checked_queues: dict[str, int] = {}

    def run(self, count: int) -> Report:
        """So many lives; what has been added is checked after most of them, all at the end."""
        for _ in range(count):
            self.live()
            if self.random.random() < 0.7:
                self.check()
        return self.check(is_all=True)

    def live(self) -> None:
        """Let a process append for a moment and kill it; take in its evidence."""
        path = self.folder / f"evidence-{self.kills}"
        complaints = self.folder / "stderr"
        is_stalled = not self._plant and self.kills % LIVES_PER_STALL == 1
        command = [
            sys.executable, "-m", "fault.appender", str(self.root), str(path), self.mode,
            str(self.kills), "stall" if is_stalled else self._plant,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))}
        with complaints.open("wb") as stderr:
            child = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=stderr
            )
        assert child.stdout is not None
        try:
            if is_stalled:
                assert child.stdout.readline() == b"stalled\n"
                self.stalls += 1
            elif self.random.random() < 0.8:
                child.stdout.readline()  # "open", or nothing from one that has ended
                time.sleep(self.random.random() * 0.15)
            else:
                time.sleep(self.random.random() * 0.4)  # while it starts, or recovers
        finally:
            child.send_signal(signal.SIGKILL)
            child.stdout.close()
            ended = child.wait(10)
        assert ended == -signal.SIGKILL, (
            f"{self.note}: it was not the kill that ended it: {ended}\n{complaints.read_text()}"
        )
        self.kills += 1
        if path.exists():
            self.evidence.add_lines(path.read_bytes())
            path.unlink()

    def check(self, *, is_all: bool = False) -> Report:
        """Open the store and compare what came since the last time, or all, with the evidence."""
        if is_all:
            self._checked_sends = self._checked_log = 0
            self._checked_queues.clear()
        evidence = self.evidence.part(self._checked_sends)
        store = Store(self.root, settings(is_sync=self.mode == "sync"), zone=UTC)
        store.open(os.getpid())
        try:
            reads = [self._read_queue(store, *queue) for queue in QUEUES]
            reads.append(self._read_halves(store))
            report = check(evidence, reads, faults={"kill -9": self.kills})
            report.raise_if_bad(f"{self.note}, after life {self.kills}")
            acknowledged = [sent for sent in evidence if sent.outcome is Outcome.OK]
            for sent in self.random.sample(acknowledged, min(KEYS_ASKED, len(acknowledged))):
                self._look_up(store, sent)
            self._checked_log = store._log.max_offset
        finally:
            store.close()
        self._checked_sends = len(self.evidence)
        for read in reads:
            if read.queue != HALF:
                self._checked_queues[read.queue] = read.first_offset + len(read.found)
        return report

    def _read_queue(self, store: Store, topic: str, queue_id: int) -> QueueRead:
        name = queue_name(topic, queue_id)
        first = self._checked_queues.get(name, 0)
        found = [
            Found(record.queue_offset, value_of(bytes(record.body)), record.offset_id)
            for record in read_queue(store, topic, queue_id, first)
        ]
        return QueueRead("store", name, found, first)

    def _read_halves(self, store: Store) -> QueueRead:
        """Half messages belong to no queue: they are looked for in the log."""
        found = []
        for _, _, view in store._log.records(self._checked_log):
            record = decode_record(view)
            if record.sys_flag & TRANSACTION_TYPE == TRANSACTION_PREPARED:
                found.append(Found(None, value_of(bytes(record.body)), record.offset_id))
        return QueueRead("store", HALF, found)

    def _look_up(self, store: Store, sent: Send) -> None:
        """A message can be found by its id and by its key."""
        assert sent.place is not None
        note = f"{self.note}, after life {self.kills}: {sent}"
        record = store.record_by_id(sent.place.message_id)
        assert value_of(bytes(record.body)) == sent.value, note
        log_offset = decode_offset_id(sent.place.message_id).log_offset
        assert log_offset in store.query(record.topic, f"U{sent.value}", 32, 0, 1 << 60), note


def read_queue(store: Store, topic: str, queue_id: int, offset: int) -> Iterator[Record]:
    while (result := store.get(topic, queue_id, offset, 32)).count:
        for view in result.views:
            yield from decode_records(view, strict=True)
        offset = result.next_offset


def files_crossed(root: Path) -> dict[str, int]:
    """How many files there are of each kind."""
    return {
        name: sum(path.is_file() for path in (root / name).rglob("*"))
        for name in ("commitlog", "consumequeue", "index")
    }


@pytest.mark.parametrize(("mode", "lives"), [("sync", 20), ("async", 10)])
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, mode: str, lives: int) -> None:
    """20 lives under SYNC_FLUSH and 10 under ASYNC_FLUSH, one store each."""
    run = Lives(tmp_path, mode, seed=9)
    report = run.run(lives)
    assert run.kills == lives
    assert report.ok > 20 * lives, str(report)
    assert run.stalls == lives // LIVES_PER_STALL
    assert report.unknown >= PRODUCERS * run.stalls, str(report)
    crossed = files_crossed(run.root)
    assert crossed["commitlog"] > 2, crossed
    assert crossed["consumequeue"] > 2 * len(QUEUES), crossed
    print(f"{run.note}: {report}\n{crossed}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mode", "lives"), [("sync", 500), ("async", 500)])
def test_what_was_acknowledged_survives_many_more_kills(
    tmp_path: Path, mode: str, lives: int
) -> None:
    """The long tier: 500 lives each."""
    run = Lives(tmp_path, mode, seed=10)
    report = run.run(lives)
    crossed = files_crossed(run.root)
    assert crossed["index"] > 2, crossed
    print(f"{run.note}: {report}\n{crossed}")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_acknowledging_what_sits_in_memory_is_noticed(tmp_path: Path, mode: str) -> None:
    """The planted bug: a buffer of our own between the acknowledgement and the kernel."""
    run = Lives(tmp_path, mode, seed=11, plant="buffer")
    with pytest.raises(AssertionError, match=r"lost [1-9]") as caught:
        run.run(10)
    assert "acknowledged at" in str(caught.value)
    assert run.kills > 0


def test_a_process_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    """The other planted bug: a fault that did not happen must not count as survived."""
    run = Lives(tmp_path, "async", seed=12, plant="end")
    with pytest.raises(AssertionError, match="it was not the kill that ended it: 3"):
        run.run(10)
