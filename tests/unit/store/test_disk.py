"""The real disk makes the right system calls, also on platforms that lack some of them."""

import doctest
import errno
import fcntl
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roketto.store import disk as disk_module
from roketto.store.disk import Disk, Found, Usage, find_syncfs

TAKE_LOCK = """
import sys
from pathlib import Path
from roketto.store.disk import Disk
print(Disk().lock(Path(sys.argv[1])))
"""

LOCK_RANGE = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
"""

needs_fallocate = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="this system cannot reserve space"
)


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    return os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)


@needs_fallocate
def test_a_reserved_file_has_no_holes(tmp_path: Path) -> None:
    """The blocks are there, the content is not touched, and the length is as asked."""
    disk = Disk()
    path = tmp_path / "file"
    opened = disk.open(path, os.O_RDWR | os.O_CREAT)
    disk.set_length(opened, 1 << 20)
    disk.write(opened, memoryview(b"head"), 0)
    assert path.stat().st_blocks * 512 < 1 << 20
    disk.reserve(opened, 1 << 20)
    assert path.stat().st_blocks * 512 >= 1 << 20
    assert disk.length(opened) == 1 << 20
    assert disk.read(opened, 8, 0) == b"head\0\0\0\0"
    disk.close(opened)


def test_nothing_is_reserved_where_the_system_cannot(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS lacks the call, some file systems refuse it; other errors are told."""
    disk = Disk()

    def refuse(number: int) -> None:
        def fail(*arguments: int) -> None:
            raise OSError(number, "planted")

        monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)

    refuse(errno.EOPNOTSUPP)
    disk.reserve(descriptor, 10)
    refuse(errno.ENOSPC)
    with pytest.raises(OSError, match="planted"):
        disk.reserve(descriptor, 10)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    disk.reserve(descriptor, 10)
    assert disk.length(descriptor) == 0
    disk.close(descriptor)


def test_linux_syncs_data_with_fdatasync(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call, which covers what was written through a mapping, too."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append, raising=False)
    disk = Disk()
    disk.set_length(descriptor, 4096)
    view = disk.map(descriptor, 4096, writable=True)
    disk.sync(descriptor)
    disk.sync_mapped(descriptor, view)
    assert synced == [descriptor, descriptor]
    disk.close(descriptor)


def test_macos_syncs_through_the_cache_of_the_drive(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F_FULLFSYNC, after the mapping was written back."""
    calls: list[object] = []

    class Mapping(mmap.mmap):
        def flush(self, *arguments: int) -> None:
            calls.append("flush")

    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(disk_module, "_FULL_SYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", lambda *arguments: calls.append(arguments))
    Disk().sync_mapped(descriptor, memoryview(Mapping(-1, 4096)))
    assert calls == ["flush", (descriptor, 51)]
    os.close(descriptor)


def test_other_systems_sync_with_fsync(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that every system has."""
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(disk_module, "_FULL_SYNC", None)
    monkeypatch.setattr(os, "fsync", synced.append)
    Disk().sync(descriptor)
    assert synced == [descriptor]
    os.close(descriptor)


def test_the_examples_in_the_module_are_true() -> None:
    """Which kernels can be trusted with a whole file system."""
    assert doctest.testmod(disk_module).failed == 0
    assert find_syncfs("linux", "rolling") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the call is Linux's")
def test_linux_syncs_a_whole_file_system(tmp_path: Path) -> None:
    """And tells an error by its number."""
    assert find_syncfs("linux", "6.1.0-13-amd64") is not None
    disk = Disk()
    descriptor = disk.open_directory(tmp_path)
    assert disk.sync_file_system(descriptor)
    disk.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        disk.sync_file_system(descriptor)
    assert caught.value.errno == errno.EBADF


def test_other_systems_say_that_they_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks then syncs file by file."""
    monkeypatch.setattr(disk_module, "_SYNCFS", None)
    assert not Disk().sync_file_system(-1)


def test_a_read_only_mapping_refuses_writes(descriptor: int) -> None:
    """And sees what is written to the file."""
    disk = Disk()
    disk.set_length(descriptor, 4096)
    view = disk.map(descriptor, 4096, writable=False)
    disk.write(descriptor, memoryview(b"seen"), 10)
    assert bytes(view[10:14]) == b"seen"
    with pytest.raises(TypeError):
        view[0] = 1
    disk.close(descriptor)


def test_names_are_found_listed_linked_renamed_and_removed(tmp_path: Path) -> None:
    """Sockets and dangling links are no files; a name that is gone is None."""
    disk = Disk()
    disk.make_directory(tmp_path / "queue")
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert sorted(disk.entries(tmp_path)) == [("a", False), ("queue", True)]
    found = disk.find(tmp_path / "a")
    assert found == Found(5, (tmp_path / "a").stat().st_mtime_ns // 1_000_000)
    disk.link(tmp_path / "a", tmp_path / "b")
    disk.rename(tmp_path / "a", tmp_path / "queue" / "c")
    disk.sync_names(tmp_path)
    assert disk.find(tmp_path / "a") is None
    assert (tmp_path / "b").samefile(tmp_path / "queue" / "c")
    disk.remove_file(tmp_path / "b")
    disk.remove_file(tmp_path / "b")
    disk.remove_tree(tmp_path / "queue")
    assert disk.entries(tmp_path) == []


def test_usage_counts_like_df(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reserved for root is neither free nor part of the whole."""
    real = Disk().usage(tmp_path)
    assert 0 < real.free <= real.total
    system = os.statvfs(tmp_path)
    values = list(system)
    values[1:5] = [1024, 1000, 300, 200]  # block size, blocks, free, free for everybody
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))
    assert Disk().usage(tmp_path) == Usage(900 * 1024, 200 * 1024)


def test_use_is_told_in_whole_percent_rounded_up() -> None:
    """As Java counts; some virtual file systems have no size, and nothing is known of them."""
    assert Usage(0, 0).used_percent == 0
    assert Usage(100, 25).used_percent == 75
    assert [Usage(1000, free).used_percent for free in (0, 1, 99, 100, 1000)] == [
        100, 100, 91, 90, 0,
    ]  # fmt: skip


def test_locking_twice_in_one_process_is_refused_and_keeps_the_first_lock(
    tmp_path: Path,
) -> None:
    """Closing a second descriptor would drop it, so none may be opened; any spelling counts."""
    disk = Disk()
    lock = tmp_path / "lock"
    held = disk.lock(lock)
    assert held is not None
    assert Disk().lock(tmp_path / "x" / ".." / "lock") is None
    words = [sys.executable, "-c", TAKE_LOCK, str(lock)]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"None\n"
    disk.unlock(lock, held)
    again = disk.lock(lock)
    assert again is not None
    disk.unlock(lock, again)


def test_the_lock_covers_the_first_byte_and_no_other(tmp_path: Path) -> None:
    """The range that Java asks for; one byte further the two would not see each other."""
    disk = Disk()
    held = disk.lock(tmp_path / "lock")
    assert held is not None

    def take(start: int, size: int) -> bytes:
        words = [sys.executable, "-c", LOCK_RANGE, str(tmp_path / "lock"), str(start), str(size)]
        return subprocess.run(words, capture_output=True, check=False).stderr

    assert b"BlockingIOError" in take(0, 1)
    assert take(1, 100) == b""
    disk.unlock(tmp_path / "lock", held)
    assert take(0, 1) == b""


def test_a_file_system_without_locks_is_not_taken_for_a_locked_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOLCK means that nobody can lock, which has another remedy."""

    def fail(*arguments: int) -> None:
        raise OSError(errno.ENOLCK, "planted")

    monkeypatch.setattr(fcntl, "lockf", fail)
    with pytest.raises(OSError, match="planted"):
        Disk().lock(tmp_path / "lock")


def test_a_lock_of_another_process_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system answers with either of two errors."""

    def fail(*arguments: int) -> None:
        raise OSError(errno.EAGAIN, "planted")

    monkeypatch.setattr(fcntl, "lockf", fail)
    assert Disk().lock(tmp_path / "lock") is None


def test_only_what_was_written_counts_as_data(tmp_path: Path) -> None:
    """Neither holes nor space that was reserved: recovery does not read a gigabyte for nothing."""
    disk = Disk()
    opened = disk.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    size = 1 << 24
    disk.set_length(opened, size)
    disk.reserve(opened, size)
    disk.write(opened, memoryview(b"data"), 1 << 20)
    spans = disk.data_spans(opened, 0, size)
    assert any(begin <= 1 << 20 < end for begin, end in spans)
    assert all(0 <= begin < end <= size for begin, end in spans)
    assert disk.data_spans(opened, 100, 100) == []
    inside = disk.data_spans(opened, (1 << 20) + 1, (1 << 20) + 3)
    assert inside == [((1 << 20) + 1, (1 << 20) + 3)]
    disk.close(opened)


def test_where_the_system_knows_no_holes_all_is_data(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse the question; other errors are told."""
    disk = Disk()
    disk.set_length(descriptor, 1_000)
    answers = {"error": errno.EINVAL}

    def refuse(_: int, offset: int, how: int) -> int:
        raise OSError(answers["error"], "planted")

    monkeypatch.setattr(os, "lseek", refuse)
    assert disk.data_spans(descriptor, 10, 900) == [(10, 900)]
    answers["error"] = errno.ENXIO
    assert disk.data_spans(descriptor, 10, 900) == []
    answers["error"] = errno.EIO
    with pytest.raises(OSError, match="planted"):
        disk.data_spans(descriptor, 10, 900)
    monkeypatch.setattr(os, "lseek", lambda _, offset, how: 5_000)
    assert disk.data_spans(descriptor, 10, 900) == []


def test_what_is_expected_is_read_ahead_where_the_system_can(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part from one byte to another; elsewhere nothing happens."""
    disk = Disk()
    told: list[tuple[int, int, int, int]] = []
    monkeypatch.setattr(os, "POSIX_FADV_WILLNEED", 3, raising=False)
    monkeypatch.setattr(os, "posix_fadvise", lambda *what: told.append(what), raising=False)
    disk.expect(descriptor, 10, 900)
    assert told == [(descriptor, 10, 890, 3)]
    monkeypatch.delattr(os, "posix_fadvise")
    disk.expect(descriptor, 10, 900)
    assert len(told) == 1


def test_what_was_written_through_a_map_is_there_after_its_pages_were_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file and in the map, whatever was written in between; elsewhere nothing is done."""
    disk = Disk()
    descriptor = disk.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    size = 3 << 20
    disk.set_length(descriptor, size)
    view = disk.map(descriptor, size, writable=True)
    content = bytearray(os.urandom(size))
    view[:] = content
    disk.detach(view, 5_000, size - 5_000)
    assert view == content
    view[6_000:6_010] = content[6_000:6_010] = b"once again"
    disk.detach(view, 0, size)
    disk.sync_mapped(descriptor, view)
    assert (tmp_path / "file").read_bytes() == content
    assert view == content
    monkeypatch.setattr(sys, "platform", "darwin")
    disk.detach(view, 0, size)
    assert view == content
    view.release()
    disk.close(descriptor)
    Disk().detach(memoryview(b"a simulated one"), 0, 15)


def test_pages_that_cannot_be_let_go_are_no_error() -> None:
    """The store would stop for it, and they are synced as well."""
    refused: list[tuple[int, int]] = []

    class Locked(mmap.mmap):
        def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
            refused.append((start, length))
            raise OSError(errno.EINVAL, "Invalid argument")

    Disk().detach(memoryview(Locked(-1, 8_192)), 4_097, 8_192)
    assert refused == [(4_096, 4_096)]
