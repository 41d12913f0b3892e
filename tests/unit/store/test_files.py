"""Files keep what they promise: whole or not at all, bounded, locked, clear about a full disk."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roketto.store import files as files_module
from roketto.store.errors import DiskFullError, FileSizeError, StoreLockedError
from roketto.store.files import Files
from sim.disk import CrashDisk
from sim.files import CrashFiles, PowerLoss, Short

DISK = Path("/disk")


def full() -> OSError:
    return OSError(errno.ENOSPC, "planted")


def broken() -> OSError:
    return OSError(errno.EIO, "planted")


def crash_files() -> CrashFiles:
    files = CrashFiles()
    files.make_directory(DISK)
    return files


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# --- names --------------------------------------------------------------------------------------


def test_a_directory_is_made_with_its_parents_all_durable() -> None:
    """Each new name is synced into its parent, so that power loss takes none of them."""
    files = CrashFiles()
    files.make_directory(DISK / "consumequeue" / "Topic" / "0")
    files.make_directory(DISK / "consumequeue" / "Topic" / "0")
    found = files.crash(1, keep=0.0)
    assert found.directories(DISK / "consumequeue" / "Topic") == ["0"]
    assert found.loss.total == 0


def test_a_directory_that_another_thread_made_meanwhile_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for, not found, and there when it is made."""
    files = Files()
    (tmp_path / "raced").mkdir()
    disk = files._disk
    find = disk.find
    monkeypatch.setattr(disk, "find", lambda path: None if path.name == "raced" else find(path))
    files.make_directory(tmp_path / "raced")
    assert files.directories(tmp_path) == ["raced"]


def test_a_directory_can_be_made_without_waiting_for_the_disk(tmp_path: Path) -> None:
    """With its parents; it is durable once each directory on the way was synced."""
    real = Files()
    for _ in range(2):
        real.add_directory(f"{tmp_path}/consumequeue/Topic/0")
    assert real.directories(tmp_path / "consumequeue" / "Topic") == ["0"]
    files = crash_files()
    synced = files.sync_numbers
    files.add_directory("/disk/consumequeue/Topic/0")
    assert files.sync_numbers == synced
    assert files.crash(1, keep=0.0).directories(DISK) == []
    for path in ("/disk/consumequeue/Topic", "/disk/consumequeue", "/disk"):
        files.sync_directory(path)
    assert files.crash(1, keep=0.0).directories(DISK / "consumequeue" / "Topic") == ["0"]


def test_a_file_system_is_synced_with_all_that_is_on_it() -> None:
    """Files, lengths and names; one that was watched has been open ever since."""
    files = crash_files()
    files.watch_file_system(DISK / "nothing")
    files.watch_file_system(DISK)
    files.add_directory("/disk/a/b")
    files.create_sparse("/disk/a/b/0", 1000)
    files.write_at("/disk/a/b/0", 10, b"data")
    before = files.crash(1, keep=0.0)
    assert before.loss.total > 0
    assert before.directories(DISK) == []
    assert files.sync_file_system(DISK)
    files.write_at("/disk/a/b/0", 20, b"late")
    after = files.crash(1, keep=0.0)
    assert after.read(DISK / "a" / "b" / "0") == bytes(10) + b"data" + bytes(986)
    opened = [call for call in files.calls if call.name == "open_directory"]
    assert [call.path for call in opened] == [DISK / "nothing", DISK]
    files.close()
    assert files.descriptors_open == 0


def test_a_file_system_that_could_not_be_synced_forgets_what_it_had() -> None:
    """The second sync succeeds and proves nothing: that is why the first one is final."""
    files = crash_files()
    files.create_sparse(DISK / "0", 1000)
    files.write_at(DISK / "0", 0, b"data")
    files.fail_call(len(files.calls) + 2, broken())
    with pytest.raises(OSError, match="planted"):
        files.sync_file_system(DISK)
    assert files.sync_file_system(DISK)
    assert files.crash(1, keep=0.0).read(DISK / "0") in (b"", bytes(1000))


def test_a_real_file_system_is_synced_or_says_that_it_cannot(tmp_path: Path) -> None:
    """One descriptor is kept for it."""
    files = Files()
    before = open_descriptors()
    assert files.sync_file_system(tmp_path) == sys.platform.startswith("linux")
    files.sync_file_system(tmp_path)
    assert open_descriptors() == before + 1
    files.close()
    assert open_descriptors() == before


def test_what_blocks_has_a_thread_of_its_own() -> None:
    """Each store makes one."""
    worker = Files().make_worker()
    worker.start()
    job = worker.submit(lambda: 7)
    assert job is not None
    assert job.result(10) == 7
    assert worker.stop()


def test_files_and_directories_are_listed_apart_and_sorted(tmp_path: Path) -> None:
    """What does not exist has nothing in it."""
    files = Files()
    for name in ("b", "a"):
        files.create_sparse(tmp_path / name, 1)
        files.make_directory(tmp_path / f"d{name}")
    assert files.names(tmp_path) == ["a", "b"]
    assert files.directories(tmp_path) == ["da", "db"]
    assert files.names(tmp_path / "nothing") == []
    assert files.directories(tmp_path / "nothing") == []


def test_length_and_time_of_a_file_are_known_without_opening_it(tmp_path: Path) -> None:
    """A file that is not there has no length; asking for its time is a mistake."""
    files = Files()
    files.create_sparse(tmp_path / "a", 77)
    assert files.size(tmp_path / "a") == 77
    os.utime(tmp_path / "a", (0, 1234.5))
    assert files.modified_ms(tmp_path / "a") == 1_234_500
    assert files.size(tmp_path / "b") is None
    with pytest.raises(FileNotFoundError, match="b"):
        files.modified_ms(tmp_path / "b")


def test_a_removed_file_is_gone_with_its_descriptor(tmp_path: Path) -> None:
    """Also from a whole tree; removing what is not there is harmless."""
    files = Files()
    before = open_descriptors()
    for path in (tmp_path / "a", tmp_path / "t" / "b", tmp_path / "t" / "u" / "c"):
        files.make_directory(path.parent)
        files.create_sparse(path, 4)
        files.write_at(path, 0, b"gone")
    files.remove(tmp_path / "a")
    files.remove_tree(tmp_path / "t")
    assert open_descriptors() == before
    assert files.names(tmp_path) == files.directories(tmp_path) == []
    files.remove(tmp_path / "a")
    files.remove_tree(tmp_path / "t")
    files.create_sparse(tmp_path / "a", 4)
    assert files.read_at(tmp_path / "a", 0, 4) == bytes(4)
    files.close()


def test_an_unlinked_file_is_gone_for_good() -> None:
    """No power loss brings it back; once more is harmless."""
    files = crash_files()
    files.create_mapped(DISK / "a", 100).close()
    for _ in range(2):
        files.unlink(DISK / "a")
        assert files.crash(1, keep=0.0).size(DISK / "a") is None


def test_a_tree_that_cannot_be_removed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention must not believe that it has made room."""

    def fail(*arguments: object, **more: object) -> None:
        raise broken()

    files = Files()
    files.make_directory(tmp_path / "t")
    files.create_sparse(tmp_path / "t" / "a", 1)
    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(OSError, match="planted"):
        files.remove_tree(tmp_path / "t")


def test_usage_is_that_of_the_file_system(tmp_path: Path) -> None:
    """A number between empty and full."""
    assert 0 <= Files().usage(tmp_path).used_percent <= 100


# --- the lock -----------------------------------------------------------------------------------

TAKE_LOCK = """
import sys
from pathlib import Path
from roketto.store.errors import StoreLockedError
from roketto.store.files import Files
try:
    Files().lock(Path(sys.argv[1]))
except StoreLockedError as error:
    sys.exit(str(error))
"""

TAKE_FIRST_BYTE = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
"""


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_a_second_process_is_refused_until_the_lock_is_released(tmp_path: Path) -> None:
    """The reason names the file and what to do."""
    lock = Files().lock(tmp_path / "lock")
    refused = run(TAKE_LOCK, tmp_path / "lock")
    assert refused.returncode == 1
    assert f"{tmp_path / 'lock'} is locked: another broker has this store open" in refused.stderr
    lock.release()
    assert run(TAKE_LOCK, tmp_path / "lock").returncode == 0


def test_the_lock_is_the_byte_range_that_java_takes(tmp_path: Path) -> None:
    """FileChannel.tryLock(0, 1, false) asks the system for a write lock on byte 0, nothing else."""
    lock = Files().lock(tmp_path / "lock")
    first = run(TAKE_FIRST_BYTE, tmp_path / "lock", 0, 1)
    assert "BlockingIOError" in first.stderr
    assert run(TAKE_FIRST_BYTE, tmp_path / "lock", 1, 100).returncode == 0
    lock.release()
    assert run(TAKE_FIRST_BYTE, tmp_path / "lock", 0, 1).returncode == 0


def test_a_second_broker_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """Whichever Files it uses."""
    lock = Files().lock(tmp_path / "lock")
    with pytest.raises(StoreLockedError):
        Files().lock(tmp_path / "lock")
    lock.release()
    Files().lock(tmp_path / "lock").release()


def test_a_lock_tells_whether_java_had_the_store_since(tmp_path: Path) -> None:
    """Its brokers write ``lock`` into the file whenever they start; ours is claimed once."""
    files = Files()
    path = tmp_path / "lock"
    for text, is_ours in ((None, False), (b"LOCK", True), (b"lock", False)):
        if text is not None:
            path.write_bytes(text)
        lock = files.lock(path)
        assert lock.is_ours == is_ours
        files.claim(lock)
        files.claim(lock)
        assert lock.is_ours
        lock.release()
        assert path.read_bytes() == b"LOCK"


def test_a_claim_survives_power_loss() -> None:
    """Else the marks of the checkpoint would not count when they are needed."""
    files = crash_files()
    files.claim(files.lock(DISK / "lock"))
    assert files.crash(1, keep=0.0).read(DISK / "lock") == b"LOCK"


def test_a_lock_that_cannot_be_read_is_given_back() -> None:
    """The next try may be luckier; a claim that has no room says so."""
    files = crash_files()
    files.fail_call(len(files.calls) + 2, broken())
    with pytest.raises(OSError, match="planted"):
        files.lock(DISK / "lock")
    lock = files.lock(DISK / "lock")
    files.fail_call(len(files.calls) + 1, full())
    with pytest.raises(DiskFullError):
        files.claim(lock)
    assert not lock.is_ours
    lock.release()


# --- mapped files -------------------------------------------------------------------------------


def test_a_created_mapped_file_is_whole_and_durable() -> None:
    """Power loss right after finds all of it, as zeros."""
    files = crash_files()
    mapped = files.create_mapped(DISK / "0", 4096)
    mapped.view[0:3] = b"new"
    found = files.crash(3, keep=0.0)
    assert found.read(DISK / "0") == bytes(4096)
    assert found.loss.bytes_dropped == 3
    mapped.close()


@pytest.mark.parametrize("writable", [True, False])
def test_a_mapped_file_of_another_length_is_refused(tmp_path: Path, writable: bool) -> None:
    """Touching memory past the end of a file would be a signal."""
    files = Files()
    files.create_sparse(tmp_path / "0", 4095)
    before = open_descriptors()
    with pytest.raises(FileSizeError, match="has 4095 bytes, the configuration says 4096"):
        files.open_mapped(tmp_path / "0", 4096, writable=writable)
    with pytest.raises(FileNotFoundError):
        files.open_mapped(tmp_path / "1", 4096, writable=writable)
    assert open_descriptors() == before


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="nothing can be reserved here")
def test_holes_of_a_mapped_file_are_filled_when_it_is_opened_for_writing(tmp_path: Path) -> None:
    """Java leaves them; a read-only store stays as it is."""
    files = Files()
    files.create_sparse(tmp_path / "0", 1 << 20)
    files.open_mapped(tmp_path / "0", 1 << 20, writable=False).close()
    assert (tmp_path / "0").stat().st_blocks == 0
    files.open_mapped(tmp_path / "0", 1 << 20).close()
    assert (tmp_path / "0").stat().st_blocks * 512 >= 1 << 20


# --- a full or broken disk ----------------------------------------------------------------------


def make_directory(files: Files) -> None:
    files.make_directory(DISK / "new")


def create_mapped(files: Files) -> None:
    files.create_mapped(DISK / "new", 4096).close()


def open_mapped(files: Files) -> None:
    files.open_mapped(DISK / "old", 10).close()


def create_sparse(files: Files) -> None:
    files.create_sparse(DISK / "new", 4096)


def write_at(files: Files) -> None:
    files.write_at(DISK / "old", 2, b"data")


def replace(files: Files) -> None:
    files.replace(DISK / "old", b"replaced", keep_previous=True)


CHANGES = [make_directory, create_mapped, open_mapped, create_sparse, write_at, replace]


def attempt(files: CrashFiles, change: Callable[[Files], None]) -> Exception | None:
    try:
        change(files)
    except (DiskFullError, OSError) as error:
        return error
    return None


def prepared() -> CrashFiles:
    files = crash_files()
    files.replace(DISK / "old", b"0123456789")
    files.set_usage(1000, 7)
    return files


def count_calls(change: Callable[[Files], None]) -> tuple[int, int]:
    """The numbers of the first and the last call of a change."""
    files = prepared()
    first = len(files.calls) + 1
    change(files)
    return first, len(files.calls)


@pytest.mark.parametrize("change", CHANGES)
def test_an_error_at_any_call_is_told_and_leaves_nothing_half_done(
    change: Callable[[Files], None],
) -> None:
    """Every call of every change fails once; no descriptor and no half file is left."""
    first, last = count_calls(change)
    for number in range(first, last + 1):
        files = prepared()
        files.fail_call(number, broken())
        error = attempt(files, change)
        assert isinstance(error, OSError)
        assert error.errno == errno.EIO
        assert len(files.hits) == 1
        assert set(files.names(DISK)) <= {"old", "old.bak"}
        assert files.read(DISK / "old") in (b"0123456789", b"replaced", b"01data6789")
        files.close()
        assert files.descriptors_open == 0


@pytest.mark.parametrize("change", CHANGES)
def test_a_full_disk_is_told_with_its_numbers_and_the_change_works_later(
    change: Callable[[Files], None],
) -> None:
    """Wherever the system may say that there is no room."""
    first, last = count_calls(change)
    told = 0
    for number in range(first, last + 1):
        files = prepared()
        files.fail_call(number, full())
        error = attempt(files, change)
        if files.hits[0].name in ("write", "reserve", "set_length", "make_directory", "link"):
            assert isinstance(error, DiskFullError)
            assert "no room for" in str(error)
            assert "7 of 1000 bytes are free; delete data" in str(error)
            assert isinstance(error.__cause__, OSError)
            change(files)
            told += 1
        files.close()
        assert files.descriptors_open == 0
    assert told > 0


def test_a_write_that_takes_too_little_is_continued() -> None:
    """The system may take any part of it."""
    files = crash_files()
    files.create_sparse(DISK / "a", 10)
    files.fail_call(len(files.calls) + 1, Short(3))
    files.fail_call(len(files.calls) + 2, Short(1))
    files.write_at(DISK / "a", 1, b"12345678")
    assert [(call.offset, call.size) for call in files.hits] == [(1, 8), (4, 5)]
    assert files.read(DISK / "a") == b"\x0012345678\0"


FILL = """
import sys
from pathlib import Path
import pytest
from roketto.store.errors import DiskFullError
from roketto.store.files import Files

path = Path(sys.argv[1])
files = Files()
assert files.usage(path).total == 1 << 20
with pytest.raises(DiskFullError, match="no room for 2097152 bytes"):
    files.create_mapped(path / "log", 1 << 21)
assert files.names(path) == []
files.create_sparse(path / "queue", 1 << 21)
with pytest.raises(DiskFullError):
    files.write_at(path / "queue", 0, bytes(1 << 21))
with pytest.raises(DiskFullError):
    files.open_mapped(path / "queue", 1 << 21)
with pytest.raises(DiskFullError):
    files.replace(path / "table.json", b"x" * 100_000)
assert files.names(path) == ["queue"]
files.remove(path / "queue")
files.replace(path / "table.json", b"x" * 100_000)
files.create_mapped(path / "log", 1 << 19).close()
assert files.names(path) == ["log", "table.json"]
print("filled")
"""

# In a mount namespace of its own: however this ends, nobody else ever sees the mount.
MOUNT_AND_RUN = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
def test_a_mapped_file_can_be_given_another_name(tmp_path: Path) -> None:
    """What is written through its map is in the file of the new name; the old one is gone."""
    files = Files()
    mapped = files.create_mapped(tmp_path / "next", 100)
    files.rename_mapped(mapped, tmp_path / "used")
    mapped.view[:3] = b"abc"
    mapped.sync()
    assert mapped.path == tmp_path / "used"
    assert files.names(tmp_path) == ["used"]
    assert (tmp_path / "used").read_bytes() == b"abc" + bytes(97)
    mapped.close()


def test_a_mapped_file_keeps_its_name_where_it_can_get_no_other(tmp_path: Path) -> None:
    files = Files()
    mapped = files.create_mapped(tmp_path / "next", 100)
    with pytest.raises(FileNotFoundError):
        files.rename_mapped(mapped, tmp_path / "nowhere" / "used")
    assert mapped.path == tmp_path / "next"
    mapped.close()


def test_a_small_disk_is_reported_as_full_and_works_again_with_room(tmp_path: Path) -> None:
    """On a real file system of 1 MiB, at every kind of write."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT_AND_RUN, "sh",
             str(tmp_path), sys.executable, FILL]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "filled\n", done.stderr
    assert list(tmp_path.iterdir()) == []


# --- reads and writes at an offset --------------------------------------------------------------


def test_reads_and_writes_meet_at_their_offsets(tmp_path: Path) -> None:
    """Of all kinds of buffers; behind the end there is nothing."""
    files = Files()
    files.create_sparse(tmp_path / "a", 20)
    files.write_at(tmp_path / "a", 3, b"abc")
    files.write_at(tmp_path / "a", 6, bytearray(b"de"))
    files.write_at(tmp_path / "a", 8, memoryview(b"xfx")[1:2])
    files.sync(tmp_path / "a")
    assert files.read_at(tmp_path / "a", 0, 10) == b"\0\0\0abcdef\0"
    assert files.read_at(tmp_path / "a", 18, 10) == b"\0\0"
    assert files.read_at(tmp_path / "a", 30, 10) == b""
    assert files.length(tmp_path / "a") == 20
    assert files.data_spans(tmp_path / "a", 0, 20) == [(0, 20)]
    with pytest.raises(FileNotFoundError):
        files.read_at(tmp_path / "b", 0, 1)
    files.close()


def test_writes_do_not_put_out_what_is_open(tmp_path: Path) -> None:
    """Thousands are written in turn: a file that is not open is opened, written and closed."""
    files = Files(descriptors_max=1)
    for name in ("a", "b"):
        files.create_sparse(tmp_path / name, 20)
    before = open_descriptors()
    assert not files.write_at(tmp_path / "b", 0, b"open")
    assert files.write_at(tmp_path / "a", 0, b"closed")
    assert not files.write_at(str(tmp_path / "b"), 0, b"open")
    assert open_descriptors() == before
    assert files.read_at(tmp_path / "a", 0, 6) == b"closed"
    files.close()


def test_a_file_that_is_expected_is_read_ahead_without_its_holes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And closed again; one that is not there is nothing."""
    files = CrashFiles()
    files.make_directory(DISK)
    files.create_mapped(DISK / "a", 4_096).view[1_030] = 1
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(CrashDisk, "expect", lambda _, __, start, end: told.append((start, end)))
    files.expect(DISK / "a")
    files.expect(DISK / "b")
    assert told == [(1_024, 1_536)]


def test_descriptors_are_bounded_and_the_least_used_is_closed(tmp_path: Path) -> None:
    """Fifty queues, four descriptors, every byte where it belongs."""
    files = Files(descriptors_max=4)
    before = open_descriptors()
    paths = [tmp_path / str(number) for number in range(50)]
    for path in paths:
        files.create_sparse(path, 4)
    for turn in range(3):
        for number, path in enumerate(paths):
            files.write_at(path, turn, bytes([number]))
            files.write_at(paths[0], turn, b"\0")
            assert open_descriptors() - before <= 4
    for number, path in enumerate(paths):
        assert files.read_at(path, 0, 4) == bytes([number, number, number, 0])
        files.sync(path)
    assert open_descriptors() - before == 4
    files.close()
    assert open_descriptors() == before


def test_the_most_recently_used_descriptor_stays_open() -> None:
    """A queue that is written all the time is opened once."""
    files = CrashFiles(descriptors_max=2)
    for name in ("/hot", "/a", "/b", "/c"):
        files.create_sparse(Path(name), 1)
    start = len(files.calls)
    for name in ("/hot", "/a", "/hot", "/b", "/hot", "/c", "/hot"):
        files.read_at(Path(name), 0, 1)
    opened = [str(call.path) for call in files.calls[start:] if call.name == "open"]
    assert opened == ["/hot", "/a", "/b", "/c"]


def test_a_store_that_is_not_writable_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at a foreign store needs no right to change it."""
    files = Files()
    files.replace(tmp_path / "a", b"look")
    open_file = files._disk.open

    def refuse(path: Path, flags: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, "planted")
        return open_file(path, flags)

    monkeypatch.setattr(files._disk, "open", refuse)
    assert files.read_at(tmp_path / "a", 0, 9) == b"look"
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write_at(tmp_path / "a", 0, b"no")
    files.close()


# --- small files --------------------------------------------------------------------------------


def test_a_small_file_is_read_as_a_whole_or_is_not_there(tmp_path: Path) -> None:
    """An empty one is not the same as none."""
    files = Files()
    assert files.read(tmp_path / "a") is None
    files.replace(tmp_path / "a", b"")
    assert files.read(tmp_path / "a") == b""


def test_a_small_file_that_is_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants a commit log in memory."""
    monkeypatch.setattr(files_module, "SMALL_BYTES_MAX", 10)
    Files().create_sparse(tmp_path / "a", 11)
    with pytest.raises(FileSizeError, match="has 11 bytes, at most 10 are read"):
        Files().read(tmp_path / "a")


def test_the_previous_content_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    """One generation of it, and only if asked for; nothing else is left behind."""
    files = Files()
    path = tmp_path / "topics.json"
    files.replace(path, b"1", keep_previous=True)
    assert files.names(tmp_path) == ["topics.json"]
    files.replace(path, b"2", keep_previous=True)
    files.replace(path, b"3", keep_previous=True)
    files.replace(path, b"4")
    assert files.names(tmp_path) == ["topics.json", "topics.json.bak"]
    assert files.read(path) == b"4"
    assert files.read(tmp_path / "topics.json.bak") == b"2"


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_the_previous_content_is_copied_where_there_are_no_links(code: int) -> None:
    files = crash_files()
    path = DISK / "topics.json"
    files.replace(path, b"1")
    link = next(number for number in range(1, 20) if _call_of_replace(number) == "link")
    files.fail_call(len(files.calls) + link, OSError(code, os.strerror(code)))
    files.replace(path, b"2", keep_previous=True)
    assert len(files.hits) == 1
    assert files.names(DISK) == ["topics.json", "topics.json.bak"]
    after = files.crash(seed=1)
    assert (after.read(path), after.read(DISK / "topics.json.bak")) == (b"2", b"1")


def _call_of_replace(number: int) -> str:
    """Which call of a replace that keeps the previous content is the n-th."""
    files = crash_files()
    files.replace(DISK / "topics.json", b"1")
    before = len(files.calls)
    files.replace(DISK / "topics.json", b"2", keep_previous=True)
    return files.calls[before + number - 1].name


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    """A descriptor of the old content is not used for the new one."""
    files = Files()
    for content in (b"old", b"new", b"own"):
        files.replace(tmp_path / "a", content, keep_previous=True)
        assert files.read_at(tmp_path / "a", 0, 3) == content
    assert files.read_at(tmp_path / "a.bak", 0, 3) == b"new"
    files.close()


def test_power_loss_at_any_call_of_a_replace_leaves_the_old_or_the_new_content() -> None:
    """Main file and backup are always whole; after a return the new content is certain."""
    path = DISK / "topics.json"
    dropped = 0
    found = set()
    for number in range(1, 20):
        files = crash_files()
        for content in (b"a" * 2000, b"b" * 2000):
            files.replace(path, content, keep_previous=True)
        files.fail_call(len(files.calls) + number, PowerLoss())
        try:
            files.replace(path, b"c" * 2000, keep_previous=True)
        except PowerLoss:
            allowed: set[bytes | None] = {b"b" * 2000, b"c" * 2000}
        else:
            allowed = {b"c" * 2000}
        for seed in range(20):
            after = files.crash(seed, garble=0.3)
            dropped += after.loss.total
            main, backup = after.read(path), after.read(DISK / "topics.json.bak")
            assert main in allowed
            assert backup in (b"a" * 2000, b"b" * 2000)
            found.add(main)
    assert found == {b"b" * 2000, b"c" * 2000}
    assert dropped > 100


def test_without_its_syncs_a_replace_would_lose_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the same check fails once a sync is left out."""
    for missing in ("sync", "sync_names"):
        bad = 0
        for seed in range(50):
            files = crash_files()
            files.replace(DISK / "a", b"old")
            with monkeypatch.context() as patch:
                patch.setattr(files._disk, missing, lambda argument: None)
                files.replace(DISK / "a", b"new")
            bad += files.crash(seed).read(DISK / "a") != b"new"
        assert bad > 5
