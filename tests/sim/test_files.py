"""The simulated disk loses just what POSIX allows, replays by seed, and else acts like a disk."""

import errno
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roketto.store.errors import StoreError, StoreLockedError
from roketto.store.files import Files
from sim.disk import SECTOR_BYTES, changed_sectors
from sim.files import Call, CrashFiles, PowerLoss, Short

ROOT = Path("/")
FILE = ROOT / "file"


def with_file(size: int, content: bytes = b"") -> CrashFiles:
    """A disk with one durable file."""
    files = CrashFiles()
    files.replace(FILE, content.ljust(size, b"\0"))
    return files


def found_over_seeds(files: CrashFiles, path: Path, seeds: int = 60) -> set[bytes | None]:
    return {files.crash(seed).read(path) for seed in range(seeds)}


# --- data ---------------------------------------------------------------------------------------


def test_each_unsynced_sector_is_kept_or_dropped_on_its_own() -> None:
    """Three sectors give all eight outcomes, and nothing else."""
    files = with_file(3 * SECTOR_BYTES)
    files.write_at(FILE, 0, b"x" * 3 * SECTOR_BYTES)
    old, new = bytes(SECTOR_BYTES), b"x" * SECTOR_BYTES
    outcomes = {a + b + c for a in (old, new) for b in (old, new) for c in (old, new)}
    assert found_over_seeds(files, FILE, 200) == outcomes


def test_writes_through_a_mapping_are_as_volatile_as_others() -> None:
    """Until the mapped file is synced; reads see them at once."""
    files = with_file(2 * SECTOR_BYTES)
    mapped = files.open_mapped(FILE, 2 * SECTOR_BYTES)
    mapped.view[0:3] = b"one"
    mapped.view[SECTOR_BYTES : SECTOR_BYTES + 3] = b"two"
    assert files.read_at(FILE, 0, 3) == b"one"
    assert len(found_over_seeds(files, FILE)) == 4
    mapped.sync()
    assert found_over_seeds(files, FILE) == {files.read(FILE)}
    mapped.close()


def test_synced_data_is_never_lost() -> None:
    """Whatever is written to the same sector later, kept, dropped or garbled."""
    files = with_file(SECTOR_BYTES)
    files.write_at(FILE, 0, b"synced")
    files.sync(FILE)
    files.write_at(FILE, 6, b"volatile")
    for seed in range(100):
        after = files.crash(seed, garble=0.8)
        content = after.read(FILE)
        assert content is not None
        assert content[:6] == b"synced"
        assert content[14:] == bytes(SECTOR_BYTES - 14)


def test_a_sync_of_one_file_does_nothing_for_another() -> None:
    """Only its own data becomes durable."""
    files = with_file(4)
    files.replace(ROOT / "other", bytes(4))
    files.write_at(FILE, 0, b"data")
    files.write_at(ROOT / "other", 0, b"data")
    files.sync(ROOT / "other")
    after = files.crash(0, keep=0.0)
    assert (after.read(FILE), after.read(ROOT / "other")) == (bytes(4), b"data")


def test_a_garbled_sector_is_neither_old_nor_new() -> None:
    """Only if asked for, and counted."""
    files = with_file(SECTOR_BYTES)
    files.write_at(FILE, 0, b"x" * SECTOR_BYTES)
    after = files.crash(1, keep=0.0, garble=1.0)
    assert after.read(FILE) not in (bytes(SECTOR_BYTES), b"x" * SECTOR_BYTES)
    assert (after.loss.sectors_garbled, after.loss.sectors_dropped) == (1, 0)
    assert all(files.crash(seed).loss.sectors_garbled == 0 for seed in range(20))


def test_an_unsynced_length_may_be_lost_with_all_behind_it() -> None:
    """Or kept without the data: then it is zeros."""
    files = with_file(4, b"head")
    files.write_at(FILE, 4, b"x" * SECTOR_BYTES)
    found = found_over_seeds(files, FILE)
    assert b"head" in found
    assert b"head".ljust(SECTOR_BYTES + 4, b"\0") in found
    assert b"head" + b"x" * SECTOR_BYTES in found
    lost = [files.crash(seed).loss.lengths_dropped for seed in range(20)]
    assert set(lost) == {0, 1}


def test_a_failed_sync_makes_the_next_one_a_lie() -> None:
    """Linux counts the data as written; only what is written again has another chance."""
    files = with_file(2 * SECTOR_BYTES)
    files.write_at(FILE, 0, b"x" * 2 * SECTOR_BYTES)
    files.fail_call(len(files.calls) + 2, OSError(errno.EIO, "planted"))
    with pytest.raises(OSError, match="planted"):
        files.sync(FILE)
    assert files.hits[-1].name == "sync"
    files.sync(FILE)
    assert files.crash(0, keep=0.0).read(FILE) == bytes(2 * SECTOR_BYTES)
    files.write_at(FILE, 0, b"again")
    files.sync(FILE)
    after = files.crash(0, keep=0.0).read(FILE)
    assert after == b"again".ljust(SECTOR_BYTES, b"x") + bytes(SECTOR_BYTES)


def test_writing_the_same_again_makes_a_sync_true() -> None:
    """A write counts even if it changes nothing: the system then has something to write."""
    files = with_file(2 * SECTOR_BYTES)
    files.write_at(FILE, 0, b"x" * 2 * SECTOR_BYTES)
    files.fail_call(len(files.calls) + 2, OSError(errno.EIO, "planted"))
    with pytest.raises(OSError, match="planted"):
        files.sync(FILE)
    files.write_at(FILE, SECTOR_BYTES, b"x")
    files.sync(FILE)
    found = files.crash(0, keep=0.0).read(FILE)
    assert found == bytes(SECTOR_BYTES) + b"x" * SECTOR_BYTES


# --- names --------------------------------------------------------------------------------------


def test_a_new_name_is_durable_only_after_its_directory_was_synced() -> None:
    """Syncing the file itself is not enough."""
    files = CrashFiles()
    files.create_sparse(FILE, 4)
    files.write_at(FILE, 0, b"data")
    files.sync(FILE)
    assert found_over_seeds(files, FILE) == {None, b"data"}
    files.sync_directory(ROOT)
    assert found_over_seeds(files, FILE) == {b"data"}


def test_a_removed_name_may_come_back_until_its_directory_was_synced() -> None:
    """With its content."""
    files = with_file(4, b"data")
    files.remove(FILE)
    assert found_over_seeds(files, FILE) == {None, b"data"}
    files.sync_directory(ROOT)
    assert found_over_seeds(files, FILE) == {None}


def test_a_removed_tree_may_come_back_in_parts() -> None:
    """Each of its names on its own."""
    files = CrashFiles()
    files.make_directory(ROOT / "t" / "u")
    for path in (ROOT / "t" / "a", ROOT / "t" / "u" / "b"):
        files.replace(path, b"data")
    files.remove_tree(ROOT / "t")
    assert files.directories(ROOT) == []
    found = [files.crash(seed) for seed in range(60)]
    parts = {(tuple(f.names(ROOT / "t")), tuple(f.names(ROOT / "t" / "u"))) for f in found}
    assert parts >= {((), ()), (("a",), ()), (("a",), ("b",)), ((), ("b",))}
    files.sync_directory(ROOT)
    assert files.crash(0, keep=0.0).directories(ROOT) == []


def test_every_state_of_a_name_since_the_last_sync_may_be_found() -> None:
    """Replaced twice: the first, the second or the third content."""
    files = with_file(1, b"1")
    files.make_directory(ROOT / "other")
    for content in (b"2", b"3"):
        files.replace(ROOT / "other" / "new", content)
        files._disk.rename(ROOT / "other" / "new", FILE)
    assert found_over_seeds(files, FILE) == {b"1", b"2", b"3"}
    files.sync_directory(ROOT)
    assert found_over_seeds(files, FILE) == {b"3"}


def test_a_directory_is_a_name_like_others() -> None:
    """Without the sync of its parent it may be gone with all that was synced in it."""
    files = CrashFiles()
    files._disk.make_directory(ROOT / "d")
    files.replace(ROOT / "d" / "file", b"data")
    found = {tuple(files.crash(seed).directories(ROOT)) for seed in range(30)}
    assert found == {(), ("d",)}


def test_two_names_of_one_file_have_one_content_after_a_crash() -> None:
    """Hard links stay links."""
    files = with_file(SECTOR_BYTES)
    files._disk.link(FILE, ROOT / "other")
    files.sync_directory(ROOT)
    files.write_at(FILE, 0, b"data")
    for seed in range(20):
        after = files.crash(seed)
        assert after.read(FILE) == after.read(ROOT / "other")
        after.write_at(FILE, 0, b"more")
        assert after.read(FILE) == after.read(ROOT / "other")


# --- crashes ------------------------------------------------------------------------------------


def scribble(files: CrashFiles) -> None:
    for number in range(8):
        files.create_sparse(ROOT / str(number), 4096)
        files.write_at(ROOT / str(number), number, bytes([number + 1]) * 2000)


def snapshot(files: CrashFiles) -> dict[str, bytes | None]:
    return {name: files.read(ROOT / name) for name in files.names(ROOT)}


def test_the_same_seed_finds_the_same_and_another_seed_something_else() -> None:
    """Also on another disk with the same history; the crashed disk itself goes on."""
    one, two = CrashFiles(), CrashFiles()
    scribble(one)
    scribble(two)
    before = snapshot(one)
    first = one.crash(7, garble=0.3)
    assert snapshot(first) == snapshot(one.crash(7, garble=0.3))
    assert snapshot(first) == snapshot(two.crash(7, garble=0.3))
    assert first.loss == two.crash(7, garble=0.3).loss
    assert snapshot(first) != snapshot(one.crash(8, garble=0.3))
    assert snapshot(one) == before


def test_a_crash_reports_what_it_discarded() -> None:
    """Nothing if all is kept; with nothing kept, every sector, length and name."""
    files = with_file(2 * SECTOR_BYTES)
    files.write_at(FILE, SECTOR_BYTES - 2, b"abcd")
    files.create_sparse(ROOT / "new", 10)
    kept = files.crash(0, keep=1.0)
    assert kept.loss.total == 0
    assert snapshot(kept) == snapshot(files)
    loss = files.crash(0, keep=0.0).loss
    assert (loss.sectors_dropped, loss.bytes_dropped) == (2, 4)
    assert (loss.names_dropped, loss.lengths_dropped, loss.total) == (1, 0, 3)


def test_what_was_found_after_a_crash_is_durable_and_unlocked() -> None:
    """A second crash loses nothing of it; locks and descriptors died with the process."""
    files = CrashFiles()
    scribble(files)
    files.lock(ROOT / "lock")
    with pytest.raises(StoreLockedError):
        files.lock(ROOT / "lock")
    after = files.crash(5)
    assert after.loss.total > 0
    again = after.crash(6, keep=0.0)
    assert again.loss.total == 0
    assert snapshot(again) == snapshot(after)
    again.lock(ROOT / "lock").release()
    assert again.descriptors_open == 0


def test_power_loss_ends_everything() -> None:
    """No handler of OSError or Exception sees it, and no later call works."""
    files = with_file(4)
    files.fail_call(len(files.calls) + 2, PowerLoss())
    with pytest.raises(PowerLoss):
        files.write_at(FILE, 0, b"data")
    calls = len(files.calls)
    with pytest.raises(PowerLoss):
        files.read(FILE)
    assert len(files.calls) == calls
    assert not issubclass(PowerLoss, Exception)
    assert files.crash(0).read(FILE) == bytes(4)


# --- faults and calls ---------------------------------------------------------------------------


def test_every_call_is_logged_with_its_place() -> None:
    """Names, paths, offsets and sizes; the syncs among them can be asked for."""
    files = CrashFiles()
    files.create_sparse(FILE, 100)
    files.write_at(FILE, 7, b"abc")
    files.sync(FILE)
    files.sync_directory(ROOT)
    assert files.calls == [
        Call("open", FILE),
        Call("set_length", FILE, 0, 100),
        Call("write", FILE, 7, 3),
        Call("open", FILE),
        Call("sync", FILE, 0, 100),
        Call("sync_names", ROOT),
    ]
    assert files.sync_numbers == [5, 6]


def test_a_fault_hits_the_call_that_it_was_meant_for_and_only_once() -> None:
    """Numbers are those of the log; the past cannot fail any more."""
    files = with_file(4)
    next_call = len(files.calls) + 1
    files.fail_call(next_call + 1, OSError(errno.ENOSPC, "planted"))
    with pytest.raises(StoreError, match="no room"):
        files.write_at(FILE, 0, b"data")
    assert files.hits == [Call("write", FILE, 0, 4)] == [files.calls[next_call]]
    files.write_at(FILE, 0, b"data")
    assert files.read(FILE) == b"data"
    with pytest.raises(AssertionError, match="past"):
        files.fail_call(1, Short(0))


def test_a_short_write_hits_writes_only() -> None:
    """Planted at another call it does nothing, and says so by not being among the hits."""
    files = with_file(4)
    files.fail_call(len(files.calls) + 1, Short(1))
    files.fail_call(len(files.calls) + 2, Short(1))
    files.write_at(FILE, 0, b"data")
    assert [call.name for call in files.hits] == ["write"]
    assert [call.size for call in files.calls if call.name == "write"][-2:] == [4, 3]
    assert files.read(FILE) == b"data"


def test_damage_is_durable_and_usage_is_what_it_was_told() -> None:
    """For tests of corruption and of watermarks."""
    files = with_file(4, b"good")
    files.damage(FILE, 1, b"?")
    assert files.crash(0, keep=0.0).read(FILE) == b"g?od"
    files.set_usage(200, 50)
    assert files.usage(ROOT).used_percent == 75


def test_changed_sectors_are_found_in_large_files() -> None:
    """Blocks that are equal are skipped at once."""
    old = bytes(1 << 20)
    new = bytearray(old)
    new[700_000] = 1
    new[0] = 1
    assert list(changed_sectors(old, new)) == [0, 700_000 // SECTOR_BYTES * SECTOR_BYTES]
    assert list(changed_sectors(b"", bytes(100))) == []
    assert list(changed_sectors(b"", b"\0" * 600 + b"x")) == [SECTOR_BYTES]


# --- the same as the real thing -----------------------------------------------------------------

NAMES = ["a", "b", "d", "d/a", "d/e", "d/e/a", "b/c"]


@dataclass(frozen=True)
class Step:
    """One call of a method of Files with a name for its path."""

    method: str
    name: str
    arguments: tuple[Any, ...] = ()
    keep_previous: bool = False

    def run(self, files: Files, root: Path) -> object:
        method: Callable[..., object] = getattr(files, self.method)
        path = root / self.name
        if self.method in ("create_mapped", "open_mapped"):
            return use_mapped(files, self.method, path, *self.arguments)
        if self.method == "size" and path.name in files.directories(path.parent):
            return "any"  # what a directory takes is the file system's affair
        if self.method == "lock":
            files.lock(path).release()
            return None
        if self.method == "replace":
            return method(path, *self.arguments, keep_previous=self.keep_previous)
        return method(path, *self.arguments)


def use_mapped(files: Files, method: str, path: Path, size: int, at: int) -> bytes:
    mapped = getattr(files, method)(path, size)
    try:
        mapped.view[at % size] = 65 + at % 26
        mapped.sync()
        return bytes(mapped.view)
    finally:
        mapped.close()


sizes = st.sampled_from([1, 10, 600, 4096])
data = st.binary(max_size=30)
steps = st.one_of(
    st.builds(Step, st.sampled_from(["make_directory", "names", "directories", "size", "read"]),
              st.sampled_from(NAMES)),
    st.builds(Step, st.sampled_from(["remove", "remove_tree", "sync", "sync_directory", "lock"]),
              st.sampled_from(NAMES)),
    st.builds(Step, st.sampled_from(["create_mapped", "open_mapped"]), st.sampled_from(NAMES),
              st.tuples(sizes, st.integers(0, 9999))),
    st.builds(Step, st.just("create_sparse"), st.sampled_from(NAMES), st.tuples(sizes)),
    st.builds(Step, st.just("read_at"), st.sampled_from(NAMES),
              st.tuples(st.integers(0, 700), st.integers(0, 700))),
    st.builds(Step, st.just("write_at"), st.sampled_from(NAMES),
              st.tuples(st.integers(0, 700), data)),
    st.builds(Step, st.just("replace"), st.sampled_from(NAMES), st.tuples(data), st.booleans()),
)  # fmt: skip


def outcome(step: Step, files: Files, root: Path) -> tuple[str, object]:
    try:
        return "value", step.run(files, root)
    except OSError as error:
        return "OSError", errno.errorcode[error.errno or 0]
    except StoreError as error:
        return type(error).__name__, str(error).replace(str(root), "")


def tree(files: Files, root: Path, below: Path) -> Iterable[tuple[str, bytes | None]]:
    for name in files.names(below):
        yield str((below / name).relative_to(root)), files.read(below / name)
    for name in files.directories(below):
        yield str((below / name).relative_to(root)), None
        yield from tree(files, root, below / name)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=40), st.integers(1, 3))
def test_any_operations_do_the_same_on_the_real_disk(
    script: list[Step], descriptors_max: int
) -> None:
    """Values, errors, names and contents; only a crash tells them apart."""
    with tempfile.TemporaryDirectory() as folder:
        real_root = Path(folder)
        real = Files(descriptors_max)
        simulated = CrashFiles(descriptors_max=descriptors_max)
        simulated.make_directory(ROOT / "root")
        root = ROOT / "root"
        for step in script:
            expected = outcome(step, real, real_root)
            assert outcome(step, simulated, root) == expected, step
        assert list(tree(simulated, root, root)) == list(tree(real, real_root, real_root))
        real.close()
        simulated.close()
        assert simulated.descriptors_open == 0
