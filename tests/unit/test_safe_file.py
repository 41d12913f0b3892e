"""A replaced file is the old content or the new one at every step, and its backup is good."""

import os
from pathlib import Path

import pytest

from roketto.safe_file import backup_of, replace_file


def test_new_file_is_made_with_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    replace_file(path, b"one", None)
    assert path.read_bytes() == b"one"
    assert not backup_of(path).exists()


def test_previous_content_is_kept_beside(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    replace_file(path, b"one", None)
    replace_file(path, b"two", b"one")
    assert path.read_bytes() == b"two"
    assert (tmp_path / "file.json.bak").read_bytes() == b"one"


def test_mode_of_the_file_is_kept_and_given_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    replace_file(path, b"two", b"secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert backup_of(path).stat().st_mode & 0o777 == 0o600


def test_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"one")
    link.symlink_to(target)
    replace_file(link, b"two", None)
    assert link.is_symlink()
    assert target.read_bytes() == b"two"


@pytest.mark.parametrize("failing_sync", range(4))
def test_failure_at_any_sync_leaves_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_sync: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    syncs = 0
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs > failing_sync:
            raise OSError(28, "No space left on device")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"two", b"one")
    assert syncs == failing_sync + 1
    assert path.read_bytes() == (b"two" if failing_sync == 3 else b"one")
