"""A mapped file shares its content, outlives its readers' patience, and syncs what was written."""

import ctypes
import errno
import threading
from pathlib import Path

import pytest

from roketto.store import mappedfile
from roketto.store.disk import Disk
from roketto.store.files import Files
from sim.disk import CrashDisk
from sim.files import CrashFiles


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_what_is_synced_in_a_mapped_file_is_in_the_file(tmp_path: Path) -> None:
    """Another mapping of it sees it at once, and the disk has it after sync."""
    files = Files()
    mapped = files.create_mapped(tmp_path / "0", 8192)
    mapped.view[4096:4101] = b"hello"
    mapped.sync()
    other = files.open_mapped(tmp_path / "0", 8192, writable=False)
    assert bytes(other.view[4096:4101]) == b"hello"
    assert (mapped.path, mapped.size) == (tmp_path / "0", 8192)
    with pytest.raises(TypeError):
        other.view[0] = 1
    other.close()
    mapped.close()
    again = files.open_mapped(tmp_path / "0", 8192)
    again.view[0] = 1
    assert bytes(again.view[4096:4101]) == b"hello"
    again.close()


def test_bytes_written_again_are_the_same_and_reach_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those that a failed sync has made the system forget, piece by piece."""
    monkeypatch.setattr(mappedfile, "_PIECE_BYTES", 700)
    files = CrashFiles()
    path = Path("/a")
    mapped = files.create_mapped(path, 4096)
    mapped.sync()
    mapped.view[:3000] = b"x" * 3000
    files.fail_call(len(files.calls) + 1, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="broken"):
        mapped.sync()
    mapped.sync()
    assert files.crash(0, keep=0).read(path) == bytes(4096), "the system has given it up"
    mapped.write_again(0, 3000)
    mapped.sync()
    assert files.crash(0, keep=0).read(path) == b"x" * 3000 + bytes(1096)


def test_a_reader_keeps_the_memory_of_a_closed_file_and_nothing_else(tmp_path: Path) -> None:
    """The last view of it unmaps it; closing it twice is harmless, and so is a late sync."""
    files = Files()
    before = open_descriptors()
    mapped = files.create_mapped(tmp_path / "0", 4096)
    mapped.view[0:4] = b"kept"
    held = mapped.view[0:4]
    mapped.close()
    mapped.close()
    files.remove(tmp_path / "0")
    assert bytes(held) == b"kept"
    with pytest.raises(ValueError, match="released"):
        mapped.view[0]
    mapped.sync()
    held.release()
    assert open_descriptors() == before  # the memory has one, as long as it is mapped


def test_a_view_that_is_in_use_elsewhere_does_not_keep_a_file_from_closing(
    tmp_path: Path,
) -> None:
    """An array over the view itself forbids to release it; the descriptor goes all the same."""
    mapped = Files().create_mapped(tmp_path / "0", 4096)
    array = (ctypes.c_char * 4096).from_buffer(mapped.view)
    before = open_descriptors()
    mapped.close()
    assert open_descriptors() == before - 1
    assert array.raw == bytes(4096)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="maps are listed by Linux only")
def test_a_file_is_unmapped_when_the_last_reader_lets_go(tmp_path: Path) -> None:
    """Not when it is closed and removed: what a reader holds is still what was written."""
    mapped = Files().create_mapped(tmp_path / "segment", 8192)
    mapped.view[0:4] = b"read"
    first, second = mapped.view[0:2], mapped.view[0:4][2:]

    def is_mapped() -> bool:
        return str(tmp_path / "segment") in Path("/proc/self/maps").read_text()

    mapped.close()
    Files().unlink(tmp_path / "segment")
    assert bytes(first) + bytes(second) == b"read"
    first.release()
    assert is_mapped()
    second.release()
    assert not is_mapped()


def test_a_file_that_is_closed_while_it_is_synced_stays_open_until_then(tmp_path: Path) -> None:
    """The sync has the descriptor; nobody waits for it, and it goes when the sync ends."""
    begun, go_on = threading.Event(), threading.Event()

    class SlowDisk(Disk):
        def sync_mapped(self, descriptor: int, view: memoryview) -> None:
            begun.set()
            assert go_on.wait(10)
            super().sync_mapped(descriptor, view)

    before = open_descriptors()
    mapped = Files(disk=SlowDisk()).create_mapped(tmp_path / "0", 4096)
    errors: list[OSError] = []

    def sync() -> None:
        try:
            mapped.sync()
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=sync)
    thread.start()
    assert begun.wait(10)
    mapped.close()
    assert mapped.view[0] == 0
    assert open_descriptors() > before
    go_on.set()
    thread.join()
    assert errors == []
    assert open_descriptors() == before


def test_only_what_was_synced_survives_power_loss() -> None:
    """What was written through the view after the sync is gone."""
    files = CrashFiles()
    mapped = files.create_mapped(Path("/0"), 4096)
    mapped.view[0:6] = b"synced"
    mapped.sync()
    mapped.view[6:10] = b"lost"
    after = files.crash(0, keep=0.0)
    assert after.loss.bytes_dropped == 4
    assert after.read_at(Path("/0"), 0, 10) == b"synced\0\0\0\0"
    mapped.close()


def test_a_mapped_file_knows_where_it_may_hold_something() -> None:
    """From some byte on; the rest is zeros for sure."""
    files = CrashFiles()
    mapped = files.create_mapped(Path("/0"), 4_096)
    assert mapped.data_spans(0) == []
    mapped.view[1_030] = 1
    assert mapped.data_spans(0) == [(1_024, 1_536)]
    assert mapped.data_spans(1_100) == [(1_100, 1_536)]
    mapped.close()


def test_a_part_of_a_mapped_file_may_be_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its bytes, and of no other file."""
    files = CrashFiles()
    mapped = files.create_mapped(Path("/0"), 4_096)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(CrashDisk, "expect", lambda _, __, start, end: told.append((start, end)))
    mapped.expect(100, 300)
    assert told == [(100, 300)]
    mapped.close()
    mapped.expect(300, 400)
    assert told == [(100, 300)], "its descriptor may be that of another file by now"


def test_the_pages_of_a_long_range_are_let_go_before_it_is_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for a few, nor where nobody says what was written."""
    mapped = CrashFiles().create_mapped(Path("/0"), 1 << 20)
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        CrashDisk, "detach", lambda _, __, start, end: told.append(("detach", start, end))
    )
    monkeypatch.setattr(CrashDisk, "sync_mapped", lambda *_: told.append(("sync", 0, 0)))
    mapped.sync()
    mapped.sync(100, 100 + 65_535)
    mapped.sync(100, 100 + 65_536)
    assert told == [("sync", 0, 0), ("sync", 0, 0), ("detach", 100, 65_636), ("sync", 0, 0)]
    mapped.close()
