"""Proves that the small disk is full when it should be, and has room again when something goes."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from roketto.store.errors import DiskFullError
from sim.files import CrashFiles
from sim.small_disk import PAGE_BYTES, SmallDisk

ROOT = Path("/disk")


@pytest.fixture
def disk() -> SmallDisk:
    return SmallDisk(10 * PAGE_BYTES)


@pytest.fixture
def files(disk: SmallDisk) -> CrashFiles:
    files = CrashFiles(disk)
    files.make_directory(ROOT)
    return files


def free_pages(disk: SmallDisk) -> int:
    return disk.usage(ROOT).free // PAGE_BYTES


def test_room_is_taken_by_the_page_and_given_back(disk: SmallDisk, files: CrashFiles) -> None:
    """Reserved bytes take theirs at once, a hole when it is written to, a second write nothing."""
    files.create_mapped(ROOT / "reserved", 3 * PAGE_BYTES + 1).close()
    assert free_pages(disk) == 6
    files.create_sparse(ROOT / "hole", 100 * PAGE_BYTES)
    assert free_pages(disk) == 6
    for _ in range(2):
        files.write_at(ROOT / "hole", 50 * PAGE_BYTES - 1, b"two")
        assert free_pages(disk) == 4
    files.remove(ROOT / "reserved")
    assert free_pages(disk) == 8
    for _ in range(2):
        files.replace(ROOT / "small", b"x" * PAGE_BYTES)
        assert free_pages(disk) == 7


def test_a_full_disk_refuses_and_changes_nothing(disk: SmallDisk, files: CrashFiles) -> None:
    """What is there can still be written to; the calls that found no room are known."""
    files.create_mapped(ROOT / "old", PAGE_BYTES).close()
    disk.taken_bytes = 9 * PAGE_BYTES
    with pytest.raises(DiskFullError, match=rf"{ROOT / 'new'}: 0 of {10 * PAGE_BYTES} bytes"):
        files.create_mapped(ROOT / "new", 1)
    assert [(call.name, call.path) for call in disk.hits] == [("reserve", ROOT / "new")]
    assert files.names(ROOT) == ["old"]
    files.write_at(ROOT / "old", 0, b"fits")
    disk.taken_bytes = 0
    files.create_mapped(ROOT / "new", 1).close()


CHANGES: dict[str, Callable[[CrashFiles], object]] = {
    "create": lambda files: files.create_sparse(ROOT / "a", 10),
    "make_directory": lambda files: files.make_directory(ROOT / "b"),
    "reserve": lambda files: files.create_mapped(ROOT / "c", 10).close(),
    "write": lambda files: files.replace(ROOT / "d", b"text"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_room_can_be_refused_to_one_kind_of_call(
    disk: SmallDisk, files: CrashFiles, name: str
) -> None:
    """Whatever is free, and as the system refuses it."""
    disk.refuses = lambda call: call.name == name
    with pytest.raises(DiskFullError) as refused:
        CHANGES[name](files)
    assert isinstance(refused.value.__cause__, OSError)
    assert refused.value.__cause__.errno == errno.ENOSPC
    assert [call.name for call in disk.hits] == [name]
