"""Queues, index, checkpoint and abort mark lost or damaged (F9): the log brings all of them back.

Any subset of these files is deleted, emptied, shortened, filled with garbage or put back to an
earlier state, after a kill and after a clean stop. The store opens, and its queues and index are
then byte for byte what they were. Seeds are in the failures.
"""

from pathlib import Path
from random import Random

import pytest

from fault.small_store import ROOT, SmallStore, copy
from roketto.store.index import Index
from roketto.store.queues import Queues
from sim.files import CrashFiles

SEEDS = 50
SMALL = ("checkpoint", "abort")


class Losses:
    """One store, what it looked like half-way, and what it looks like when all is well."""

    def __init__(self) -> None:
        self.rig = SmallStore().open()
        for number in range(30):
            self.rig.append("plain", number % 3)
        self.rig.sync()
        self.early = self.rig.image()
        for number in range(30):
            self.rig.append(("plain", "batch", "long topic")[number % 3], number % 3)
        self.killed = self.rig.image()
        self.rig.close()
        self.stopped = self.rig.image()
        self.expected = derived(self.stopped)

    def run(self, seed: int) -> str:
        """Damage some files and open the store; what was done to how many."""
        chance = Random(seed)
        files = copy(chance.choice((self.killed, self.stopped)))
        done = [self.damage(files, path, chance) for path in paths(files) if chance.random() < 0.3]
        if chance.random() < 0.1:
            files.remove_tree(ROOT / "consumequeue")
        self.recover(files)
        return " ".join(done)

    def recover(self, files: CrashFiles) -> None:
        """Open the store; all that is lost is back, and it goes on."""
        after = self.rig.reopen(files)
        assert after.recovered is not None
        assert after.recovered.misplaced == after.recovered.cut_bytes == 0
        after.close()
        found = derived(files)
        assert found.keys() == self.expected.keys(), "other files are there than were lost"
        for name, content in found.items():
            assert content == self.expected[name], f"{name} is not what it was"
        again = self.rig.reopen(files)
        again.check()
        again.close()

    def damage(self, files: CrashFiles, path: Path, chance: Random) -> str:
        """Do something to one file; what."""
        content = files.read(path) or b""
        kind = chance.choice(("deleted", "emptied", "shortened", "garbled", "stale"))
        if kind == "emptied":
            files.replace(path, b"")
        elif kind == "shortened":
            files.replace(path, content[: chance.randrange(len(content) or 1)])
        elif kind == "garbled":
            files.replace(path, chance.randbytes(len(content)))
        elif kind == "stale" and (early := self.early.read(path)) is not None:
            files.replace(path, early)
        else:
            files.remove(path)
        return kind


def paths(files: CrashFiles) -> list[Path]:
    """Everything that the log can bring back, and what says how far it had come."""
    found = [ROOT / name for name in SMALL if files.size(ROOT / name) is not None]
    found += [ROOT / "index" / name for name in files.names(ROOT / "index")]
    queues = ROOT / "consumequeue"
    for topic in files.directories(queues):
        for queue in files.directories(queues / topic):
            directory = queues / topic / queue
            found += [directory / name for name in files.names(directory)]
    return found


def derived(files: CrashFiles) -> dict[str, bytes | None]:
    """The queues' files by name, and the index's in their order: names of these tell a time."""
    found = {str(path): files.read(path) for path in paths(files) if "consumequeue" in path.parts}
    for number, name in enumerate(files.names(ROOT / "index")):
        found[f"index {number}"] = files.read(ROOT / "index" / name)
    return found


def run(losses: Losses, seeds: range) -> set[str]:
    kinds: set[str] = set()
    for seed in seeds:
        try:
            kinds.update(losses.run(seed).split())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return kinds


def test_any_subset_of_what_is_lost_comes_back_byte_for_byte() -> None:
    """50 seeds, with every kind of damage among them."""
    kinds = run(Losses(), range(SEEDS))
    assert kinds == {"deleted", "emptied", "shortened", "garbled", "stale"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_any_subset_of_what_is_lost_comes_back_in_many_more_stores() -> None:
    """The long tier: 1,000 seeds."""
    run(Losses(), range(SEEDS, 1_000))


@pytest.mark.parametrize("name", ["checkpoint", "abort", "index", "consumequeue"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_each_of_them_alone_comes_back(name: str, is_clean: bool) -> None:
    """Gone as a whole, after a clean stop and after a kill."""
    losses = Losses()
    files = copy(losses.stopped if is_clean else losses.killed)
    if name in SMALL:
        files.remove(ROOT / name)
    else:
        files.remove_tree(ROOT / name)
    losses.recover(files)


class QueueLosses(Losses):
    """Always the same loss: a whole queue, after a clean stop."""

    def run(self, seed: int) -> str:
        files = copy(self.stopped)
        files.remove_tree(ROOT / "consumequeue" / "T" / "1")
        self.recover(files)
        return "deleted"


def test_a_queue_that_nobody_misses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: without the count of queues and units, one that is gone stays gone."""
    losses = QueueLosses()
    assert run(losses, range(1)) == {"deleted"}
    marks = losses.rig.store._checkpoint.marks
    assert marks is not None
    monkeypatch.setattr(Queues, "count", lambda _: (marks.queues, marks.units))
    with pytest.raises(AssertionError, match="other files are there than were lost"):
        run(losses, range(1))
    with pytest.raises(AssertionError, match=r"seed [0-9]"):
        run(Losses(), range(SEEDS))


def test_an_index_that_is_believed_as_it_is_found_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other planted bug: whatever files there are, they are the index."""
    monkeypatch.setattr(Index, "load_marked", lambda index, mark, is_exact: not index.load())
    with pytest.raises(AssertionError, match=r"index [0-9] is not what it was|other files"):
        run(Losses(), range(SEEDS))
