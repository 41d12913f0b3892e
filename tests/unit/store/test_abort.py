"""The abort mark is there between a start and a clean stop, as Java's is."""

from pathlib import Path

from roketto.store.abort import AbortMark
from roketto.store.files import Files
from sim.files import CrashFiles


def test_the_mark_holds_the_process_id_until_it_is_cleared(tmp_path: Path) -> None:
    """Java writes the id in decimal; whether the file is there is all that counts."""
    mark = AbortMark(Files(), tmp_path / "abort")
    assert not mark.is_set
    mark.set(4711)
    assert mark.is_set
    assert (tmp_path / "abort").read_bytes() == b"4711"
    mark.clear()
    assert not mark.is_set


def test_setting_and_clearing_survive_power_loss() -> None:
    """Whatever is unsynced is dropped, and the mark is still what it was last told to be."""
    files = CrashFiles()
    mark = AbortMark(files, Path("/abort"))
    mark.set(1)
    found = files.crash(0, keep=0.0)
    assert AbortMark(found, Path("/abort")).is_set
    mark.clear()
    assert not AbortMark(files.crash(0, keep=0.0), Path("/abort")).is_set
