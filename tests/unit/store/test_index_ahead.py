"""The next file of the index is made once, by somebody else, and never left over."""

import errno
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from roketto.store.errors import DiskFullError
from roketto.store.files import Files, MappedFile
from roketto.store.index_ahead import NEXT_NAME, IndexAhead
from roketto.store.worker import Worker
from sim.worker import InlineWorker

SIZE = 1_000


class CountedFiles(Files):
    """Counts the files that are made, and refuses them with ``error``."""

    made = 0
    error: Exception | None = None

    def create_mapped(self, path: Path, size: int) -> MappedFile:
        self.made += 1
        if self.error is not None:
            raise self.error
        return super().create_mapped(path, size)


@pytest.fixture
def files() -> CountedFiles:
    return CountedFiles()


@pytest.fixture
def ahead(files: CountedFiles, tmp_path: Path) -> IndexAhead:
    return IndexAhead(files, tmp_path, SIZE)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def take(ahead: IndexAhead, folder: Path, name: str = "2", after: str = "1") -> MappedFile | None:
    return ahead.take(folder / name, after)


def test_a_file_is_made_once_and_taken_under_its_name(
    ahead: IndexAhead, files: CountedFiles, tmp_path: Path
) -> None:
    """Then the next one may be made."""
    for _ in range(3):
        ahead.prepare(InlineWorker(), "1")
    assert names(tmp_path) == [NEXT_NAME]
    mapped = take(ahead, tmp_path)
    assert mapped is not None
    assert (mapped.path, mapped.size, files.made) == (tmp_path / "2", SIZE, 1)
    assert names(tmp_path) == ["2"]
    assert take(ahead, tmp_path, "3", after="2") is None
    ahead.prepare(InlineWorker(), "2")
    assert names(tmp_path) == ["2", NEXT_NAME]
    mapped.close()
    ahead.close()


def test_a_thread_makes_the_file(ahead: IndexAhead, tmp_path: Path) -> None:
    """It is taken as soon as it is there, or waited for."""
    worker = Worker()
    worker.start()
    for number in range(2, 8):
        after = str(number - 1)
        ahead.prepare(worker, after)
        assert worker.wait_idle(10)
        if number % 2:
            ahead.prepare(worker, after)
        mapped = take(ahead, tmp_path, str(number), after)
        assert mapped is not None
        mapped.close()
    assert worker.stop()
    assert names(tmp_path) == [str(number) for number in range(2, 8)]


def test_a_file_that_nobody_has_begun_to_make_is_not_waited_for(
    ahead: IndexAhead, tmp_path: Path
) -> None:
    """The worker has other things to do; whoever needs the file makes it."""
    worker = Worker()  # never started
    ahead.prepare(worker, "1")
    ahead.prepare(worker, "1")
    assert take(ahead, tmp_path) is None
    worker.start()
    assert worker.stop()
    assert names(tmp_path) == [], "it was made all the same"


def test_a_file_that_is_being_made_is_waited_for_but_not_for_ever(
    ahead: IndexAhead, files: CountedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five seconds, once: after that the keys wait until it is there."""
    waits: list[float] = []

    def no_wait(jobs: list[Future[MappedFile]], timeout: float) -> object:
        waits.append(timeout)
        return wait(jobs, 0)

    monkeypatch.setattr("roketto.store.index_ahead.wait", no_wait)
    making: Future[MappedFile] = Future()
    making.set_running_or_notify_cancel()
    ahead._making = making
    for _ in range(2):
        with pytest.raises(DiskFullError, match=f"2 of {SIZE} bytes is not there after 5 s"):
            take(ahead, tmp_path)
        ahead.prepare(InlineWorker(), "1")
    assert waits == [5.0, 0.0]
    making.set_result(files.create_mapped(tmp_path / NEXT_NAME, SIZE))
    mapped = take(ahead, tmp_path)
    assert mapped is not None
    assert names(tmp_path) == ["2"]
    mapped.close()


@pytest.mark.parametrize("error", [DiskFullError("no room"), OSError(errno.EIO, "planted")])
def test_a_file_that_cannot_be_made_is_tried_again_for_the_next_one_only(
    ahead: IndexAhead, files: CountedFiles, tmp_path: Path, error: Exception
) -> None:
    """Not once a tick: whoever needs the file tries next, and is told why."""
    files.error = error
    for _ in range(4):
        ahead.prepare(InlineWorker(), "1")
    assert files.made == 1
    assert take(ahead, tmp_path) is None
    files.error = None
    ahead.prepare(InlineWorker(), "1")
    assert files.made == 1
    ahead.prepare(InlineWorker(), "2")
    assert names(tmp_path) == [NEXT_NAME]
    ahead.close()


def test_a_file_that_gets_no_name_is_kept_for_the_next_attempt(
    ahead: IndexAhead, tmp_path: Path
) -> None:
    ahead.prepare(InlineWorker(), "1")
    with pytest.raises(FileNotFoundError):
        ahead.take(tmp_path / "nowhere" / "2", "1")
    mapped = take(ahead, tmp_path)
    assert mapped is not None
    mapped.close()


def test_an_unused_file_is_removed_at_the_end(ahead: IndexAhead, tmp_path: Path) -> None:
    """Whether anybody has looked since it was made, or not."""
    for is_seen in (False, True):
        ahead.prepare(InlineWorker(), "1")
        if is_seen:
            ahead.prepare(InlineWorker(), "1")
        assert names(tmp_path) == [NEXT_NAME]
        ahead.close()
        assert names(tmp_path) == []


def test_a_file_that_is_still_being_made_is_left_to_the_next_start(
    ahead: IndexAhead, files: CountedFiles, tmp_path: Path
) -> None:
    """A disk that hangs is not waited for; what it has made by then goes."""
    ahead._making = Future()
    ahead.close()
    assert ahead._making is None
    files.create_mapped(tmp_path / NEXT_NAME, SIZE).close()
    ahead.remove_left_over()
    ahead.remove_left_over()
    assert names(tmp_path) == []
