"""A crash during recovery, ten times in a row (F14): the end is that of one clean recovery.

On a disk in memory the power goes at any call of the recovery, and unsynced sectors are kept,
dropped or garbled. On a real one the process stops at any step of it, and is killed there with
signal 9. Seeds are in the failures.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from random import Random

import pytest

from fault.recoverer import SETTINGS, forget_nothing
from fault.small_store import ROOT, SmallStore, copy
from fault.test_lost_queues_and_index import derived
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.index import Index
from roketto.store.store import Store
from sim.files import CrashFiles, PowerLoss

TESTS = Path(__file__).parents[1]
CRASHES = 10
RECORDS = 2_000
SETS = 2
SETS_SLOW = 50


# --- power loss on a disk in memory ---------------------------------------------------------------


def leave_a_wreck(seed: int) -> tuple[SmallStore, CrashFiles]:
    """A store that was busy when the power went, some of its derived files damaged on top."""
    chance = Random(seed)
    rig = SmallStore().open()
    for number in range(chance.randrange(20, 60)):
        rig.append(("plain", "bare", "ipv6", "batch")[number % 4], number % 3)
        if chance.random() < 0.1:
            rig.sync()
    after = rig.files.crash(seed, keep=chance.random(), garble=0.3)
    rig.close()
    if chance.random() < 0.3:
        after.remove(ROOT / "checkpoint")
    if chance.random() < 0.3:
        after.remove_tree(ROOT / "index")
    return rig, after


def state(files: CrashFiles) -> dict[str, bytes | None]:
    """Everything that a store is made of, but for what says how it got there."""
    log = ROOT / "commitlog"
    return {**derived(files), **{name: files.read(log / name) for name in files.names(log)}}


def recover(rig: SmallStore, files: CrashFiles) -> dict[str, bytes | None]:
    """Open the store, and return what a kill would then leave of it."""
    after = rig.reopen(files)
    found = state(after.image())
    after.close()
    return found


def crash_in_recovery(rig: SmallStore, files: CrashFiles, chance: Random) -> CrashFiles:
    """Let the power go at some call of a recovery; the disk after it."""
    trial = copy(files)
    opened = rig.reopen(trial)
    calls = len(trial.calls)
    opened.close()
    files.fail_call(chance.randrange(1, calls + 1), PowerLoss())
    with suppress(PowerLoss):
        rig.reopen(files)
    assert files.hits, "the power did not go"
    return files.crash(chance.randrange(1 << 30), keep=chance.random(), garble=0.3)


def run_set(seed: int) -> int:
    """One wreck, ten crashes while it is recovered; how much these have discarded."""
    rig, wreck = leave_a_wreck(seed)
    expected = recover(rig, copy(wreck))
    chance = Random(seed)
    files = wreck
    discarded = 0
    for _ in range(CRASHES):
        files = crash_in_recovery(rig, copy(files), chance)
        discarded += files.loss.total
    assert recover(rig, files) == expected, f"seed {seed}: not what one recovery gives"
    return discarded


def test_ten_power_losses_while_recovering_change_nothing() -> None:
    """Wherever they hit: the same log, queues and index in the end."""
    assert sum(run_set(seed) for seed in range(10 * SETS)) > 0, "nothing was ever lost"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_power_losses_while_recovering_change_nothing_in_many_more_stores() -> None:
    """The long tier."""
    for seed in range(10 * SETS, 10 * SETS_SLOW):
        run_set(seed)


def test_a_recovery_that_takes_nothing_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what a recovery that was cut short has put into the index stays in it."""
    monkeypatch.setattr(Index, "load_marked", lambda index, mark, is_exact: not index.load())
    monkeypatch.setattr(Index, "truncate", lambda index, log_offset: None)
    with pytest.raises(AssertionError, match="not what one recovery gives"):
        run_many(run_set, range(40))


def run_many(run: Callable[[int], int], seeds: range) -> None:
    for seed in seeds:
        run(seed)


# --- kill -9 of a real process --------------------------------------------------------------------


def fill(root: Path, count: int) -> None:
    """A store that was killed, and has lost what said how far it had come: all of it is read."""
    store = Store(root, SETTINGS, zone=UTC)
    store.open(1)
    for number in range(count):
        properties = encode_properties({"UNIQ_KEY": f"U{number}", "TAGS": "t"})
        store.append(Record("T", b"message %d" % number, properties, number % 5))
    store.close()
    (root / "abort").touch()
    (root / "checkpoint").unlink()


def content(root: Path) -> dict[str, bytes]:
    """Log and queues by name, the index by its order."""
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("commitlog", "consumequeue")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }
    for number, path in enumerate(sorted((root / "index").iterdir())):
        found[f"index {number}"] = path.read_bytes()
    return found


def recover_and_kill(root: Path, step: int, plant: str = "") -> int | None:
    """Let a process recover the store up to a step and kill it there.

    None if it stood there; else the recovery was over before, and took so many steps.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "fault.recoverer", str(root), str(step), plant],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        said = child.stdout.readline().split()
    finally:
        child.send_signal(signal.SIGKILL)
        child.stdout.close()
        child.stdin.close()
        ended = child.wait(10)
    assert ended == -signal.SIGKILL, "it was not the kill that ended it"
    assert said, "it has said nothing"
    return None if said == [b"at"] else int(said[1])


class Kills:
    """A store that was killed, the same recovered at once, and kills on the way to that."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.wreck = folder / "wreck"
        self.once = folder / "once"
        self.chance = Random(seed)
        self.note = f"seed {seed}"
        fill(self.wreck, RECORDS)
        if seed % 2:
            shutil.rmtree(self.wreck / "index")
            shutil.rmtree(self.wreck / "consumequeue")
        shutil.copytree(self.wreck, self.once)
        steps = recover_and_kill(self.once, 0)
        assert steps is not None
        assert steps > RECORDS, "records and calls are steps"
        self.steps = steps
        finish(self.once)

    def run(self, count: int, plant: str = "") -> None:
        """Kill it so many times, let it be, and compare. The last kill is near the end, and may
        come too late: then there is less to do than in one recovery."""
        late = self.steps * 9 // 10
        steps = [self.chance.randrange(1, late) for _ in range(count)]
        if count > 1:
            steps[-1] = self.chance.randrange(late, self.steps)
        took = [recover_and_kill(self.wreck, step, plant) for step in steps]
        hits = took.count(None)
        assert hits >= count - 1, f"{self.note}: {hits} of {count} kills were in a recovery"
        with pytest.MonkeyPatch.context() as patch:
            if plant:
                forget_nothing(patch.setattr)
            finish(self.wreck)
        assert content(self.wreck) == content(self.once), (
            f"{self.note}: not what one recovery gives"
        )


def finish(root: Path) -> None:
    """Recover in peace."""
    store = Store(root, SETTINGS, zone=UTC)
    store.open(1)
    store.close()


@pytest.mark.parametrize("seed", range(SETS))
def test_ten_kills_while_recovering_change_nothing(tmp_path: Path, seed: int) -> None:
    """A store without a checkpoint, so that all of it is read each time."""
    Kills(tmp_path, seed).run(CRASHES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SETS, SETS_SLOW))
def test_ten_kills_while_recovering_change_nothing_in_many_more_stores(
    tmp_path: Path, seed: int
) -> None:
    """The long tier."""
    Kills(tmp_path, seed).run(CRASHES)


def test_a_kill_whose_recovery_is_not_taken_back_is_noticed(tmp_path: Path) -> None:
    """The same planted bug as above; only kills bring it to light."""
    (tmp_path / "a").mkdir()
    Kills(tmp_path / "a", seed=1).run(0, plant="forget")
    (tmp_path / "b").mkdir()
    with pytest.raises(AssertionError, match="not what one recovery gives"):
        Kills(tmp_path / "b", seed=1).run(3, plant="forget")
