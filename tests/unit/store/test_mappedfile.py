"""A mapped file shares its content, outlives its readers' patience, and syncs what was written."""

import ctypes
from pathlib import Path

import pytest

from roketto.store.files import Files
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


def test_a_reader_keeps_the_memory_of_a_closed_file_and_nothing_else(tmp_path: Path) -> None:
    """The last view of it unmaps it; closing twice is harmless, syncing then an error."""
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
    with pytest.raises(ValueError, match="descriptor"):
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
