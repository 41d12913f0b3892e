"""Proves that the table finds, makes, flushes and forgets queues, and visits only those it must."""

from pathlib import Path

import pytest

from roketto.protocol.errors import IllegalNameError
from roketto.store.consumequeue import ConsumeQueue
from roketto.store.files import Files
from roketto.store.queues import SYNCED_EACH_MAX, Queues
from roketto.store.unit import UNIT_BYTES
from sim.files import CrashFiles

SMALL = 10 * UNIT_BYTES
SIZE = 100


def new_queues(directory: Path) -> Queues:
    return Queues(Files(), directory / "consumequeue", SMALL)


def loaded(directory: Path, log_min_offset: int = 0, *, is_after_crash: bool = False) -> Queues:
    queues = new_queues(directory)
    queues.load(log_min_offset, is_after_crash=is_after_crash)
    return queues


def fill(queues: Queues, topic: str, queue_id: int, count: int, log_offset: int = 0) -> None:
    queue = queues.get_or_create(topic, queue_id)
    for n in range(count):
        queue.append(log_offset + n * SIZE, SIZE, 0, queue.queue_offset_max)


def stored(directory: Path) -> Queues:
    queues = new_queues(directory)
    fill(queues, "a", 0, 25)
    fill(queues, "a", 10, 3, log_offset=5000)
    fill(queues, "%RETRY%g", 0, 2, log_offset=9000)
    queues.flush()
    return queues


def test_queues_are_found_in_their_directories(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path)
    assert queues.topics() == ["%RETRY%g", "a"]
    assert queues.queue_ids("a") == [0, 10]
    assert queues.queue_ids("b") == []
    assert next_offsets(queues) == {("%RETRY%g", 0): 2, ("a", 0): 25, ("a", 10): 3}
    assert queues.log_offset_max() == 9200
    assert queues.rebuild_from() is None


def test_a_queue_is_looked_into_when_first_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path)
    opened: list[str] = []
    recover = ConsumeQueue.recover

    def noted(queue: ConsumeQueue, log_min_offset: int, log_synced: int | None) -> None:
        opened.append(queue.directory.name)
        recover(queue, log_min_offset, log_synced)

    monkeypatch.setattr(ConsumeQueue, "recover", noted)
    queues = loaded(tmp_path, log_min_offset=5150)
    assert opened == []
    queue = queues.get("a", 10)
    assert queue is queues.get("a", 10) is queues.get_or_create("a", 10)
    assert queue is not None
    assert queue.queue_offset_min == 2
    assert opened == ["10"]
    assert queues.get_or_create("a", 0).queue_offset_max == 25
    assert opened == ["10", "0"]


def test_names_that_cannot_be_queues_are_left_alone(tmp_path: Path) -> None:
    for name in ("lost+found/0", "a/x", "a/007", "a/-1", "a/7"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    queues = loaded(tmp_path)
    assert [(topic, queues.queue_ids(topic)) for topic in queues.topics()] == [("a", [7])]


def test_a_topic_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    queues = new_queues(tmp_path)
    with pytest.raises(IllegalNameError):
        queues.get_or_create("../a", 0)
    assert queues.topics() == []


def test_asking_for_a_queue_does_not_make_it(tmp_path: Path) -> None:
    queues = new_queues(tmp_path)
    assert queues.get("a", 0) is None
    queues.get_or_create("a", 1)
    assert queues.get("a", 0) is None
    assert queues.log_offset_max() == -1


def test_a_flush_and_a_sync_visit_only_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = stored(tmp_path)
    assert queues.flush() == 0
    assert queues.sync() == 3
    assert queues.sync() == 0
    fill(queues, "a", 10, 1, log_offset=20_000)
    visited: list[str] = []
    monkeypatch.setattr(Files, "sync", lambda _, path: visited.append(path))
    monkeypatch.setattr(Files, "sync_directory", lambda _, path: visited.append(path))
    assert queues.flush() == 1
    assert queues.sync() == 1
    assert visited == [str(tmp_path / "consumequeue/a/10" / ("0" * 20))]


def test_a_flush_takes_the_queues_that_have_waited_longest(tmp_path: Path) -> None:
    queues = new_queues(tmp_path)
    for queue_id in range(5):
        fill(queues, "a", queue_id, 1, log_offset=queue_id * SIZE)
    assert queues.flush(2) == 2
    fill(queues, "a", 0, 1, log_offset=10_000)
    assert queues.dirty_count == 4
    assert queues.flush(3) == 3
    assert [queue.unwritten > 0 for _, _, queue in queues] == [True, False, False, False, False]
    assert queues.flush(3) == 1
    assert queues.dirty_count == 0


def many(files: Files, count: int) -> Queues:
    queues = Queues(files, Path("/store/consumequeue"), SMALL)
    for queue_id in range(count):
        fill(queues, "a", queue_id, 12, log_offset=queue_id * 12 * SIZE)
    queues.flush()
    return queues


def next_offsets(queues: Queues) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): queue.queue_offset_max for topic, queue_id, queue in queues}


def found_units(files: Files) -> dict[tuple[str, int], int]:
    queues = Queues(files, Path("/store/consumequeue"), SMALL)
    queues.load(0)
    return next_offsets(queues)


@pytest.mark.parametrize("count", [1, SYNCED_EACH_MAX, SYNCED_EACH_MAX + 1])
def test_synced_queues_survive_power_loss_however_many_they_are(count: int) -> None:
    """With their names; many of them take one call. Without the sync the same check fails."""
    files = CrashFiles()
    files.make_directory(Path("/store"))
    queues = many(files, count)
    expected = {("a", queue_id): 12 for queue_id in range(count)}
    lost = files.crash(3, keep=0.5)
    assert lost.loss.total > 0
    assert found_units(lost) != expected
    start = len(files.calls)
    assert queues.sync() == count
    synced = [call.name for call in files.calls[start:]]
    assert ("sync_file_system" in synced) == (count > SYNCED_EACH_MAX)
    assert found_units(files.crash(3, keep=0.0)) == expected
    files.close()
    assert files.descriptors_open == 0


def test_where_a_file_system_cannot_be_synced_each_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashFiles()
    files.make_directory(Path("/store"))
    queues = many(files, SYNCED_EACH_MAX + 1)
    monkeypatch.setattr(files._disk, "sync_file_system", lambda descriptor: False)
    queues.sync()
    assert found_units(files.crash(4, keep=0.0)) == next_offsets(queues)


@pytest.mark.parametrize("count", [2, SYNCED_EACH_MAX + 1])
def test_a_sync_that_was_taken_is_not_the_next_ones(tmp_path: Path, count: int) -> None:
    """What is flushed meanwhile is; a topic that is deleted before it runs is no error."""
    queues = new_queues(tmp_path)
    for queue_id in range(count):
        fill(queues, "a", queue_id, 1)
    fill(queues, "b", 0, 1)
    queues.flush()
    sync = queues.take_sync()
    fill(queues, "b", 0, 1, log_offset=20_000)
    queues.flush()
    queues.delete_topic("a")
    sync()
    assert queues.sync() == 1


def test_after_a_crash_what_is_found_is_synced_once(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path, is_after_crash=True)
    queues.log_offset_max()
    assert queues.sync() == 3
    assert queues.sync() == 0
    (tmp_path / "consumequeue" / "empty" / "0").mkdir(parents=True)
    with_empty = loaded(tmp_path, is_after_crash=True)
    assert with_empty.count() == (3, 30)
    assert with_empty.sync() == 3
    clean = loaded(tmp_path)
    clean.log_offset_max()
    assert clean.sync() == 0


def test_a_flush_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = new_queues(tmp_path)
    fill(queues, "a", 0, 1)

    def fail(_: ConsumeQueue) -> None:
        raise OSError("broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueue, "flush", fail)
        with pytest.raises(OSError, match="broken disk"):
            queues.flush()
    assert queues.flush() == 1


def test_starts_files_and_ends_follow_the_log(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.correct_min(500)
    assert [queue.queue_offset_min for _, _, queue in queues] == [5, 0, 0]
    assert [queue.delete_files_below(1500) for queue in queues.follow(1500)] == [1, 0, 0]
    queues.truncate(5100)
    assert next_offsets(queues) == {("a", 0): 25, ("a", 10): 1, ("%RETRY%g", 0): 0}


def test_queues_opened_later_know_where_the_log_begins(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path)
    queues._table["a"][10] = None
    queues.follow(5100)  # nobody has come to this queue yet
    queue = queues.get("a", 10)
    assert queue is not None
    assert queue.queue_offset_min == 1


def test_the_earliest_damage_says_where_to_rebuild_from(tmp_path: Path) -> None:
    stored(tmp_path)
    for topic, queue_id in (("a", "0"), ("%RETRY%g", "0")):
        path = tmp_path / "consumequeue" / topic / queue_id
        last = max(path.iterdir())
        last.write_bytes(last.read_bytes()[:-1])
    assert loaded(tmp_path).rebuild_from() == 0
    (tmp_path / "consumequeue" / "%RETRY%g" / "0" / ("0" * 20)).unlink()
    assert loaded(tmp_path).rebuild_from() == 2000


def test_a_deleted_topic_is_gone_and_stays_so(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    fill(queues, "a", 0, 1, log_offset=20_000)
    queues.delete_topic("a")
    queues.delete_topic("unknown")
    queues.flush()
    queues.sync()
    assert queues.topics() == ["%RETRY%g"]
    assert not (tmp_path / "consumequeue" / "a").exists()
    assert queues.get_or_create("a", 0).queue_offset_max == 0


def test_a_queue_deleted_during_a_walk_is_left_out(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    seen = []
    for topic, queue_id, _ in queues:
        seen.append((topic, queue_id))
        queues.delete_topic("a")
    assert seen == [("a", 0), ("%RETRY%g", 0)]


def test_a_topic_nobody_has_looked_into_can_be_deleted(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path)
    queues.delete_topic("a")
    assert loaded(tmp_path).topics() == ["%RETRY%g"]


def test_a_queue_goes_that_has_lost_all_its_messages(tmp_path: Path) -> None:
    """One that has some, never had any or is not there stays as it is."""
    queues = stored(tmp_path)
    queues.get_or_create("new", 0)
    assert queues.delete_expired("a", 0, 5000)
    assert not (tmp_path / "consumequeue" / "a" / "0").exists()
    assert queues.queue_ids("a") == [10]
    assert not queues.delete_expired("a", 10, 5000)
    assert not queues.delete_expired("a", 0, 5000)
    assert not queues.delete_expired("new", 0, 5000)
    assert queues.delete_expired("a", 10, 10**6)
    assert queues.topics() == ["%RETRY%g", "new"]


def test_without_a_log_all_queues_go(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.clear()
    assert queues.topics() == []
    assert list((tmp_path / "consumequeue").iterdir()) == []


def test_queues_with_messages_are_counted(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.get_or_create("empty", 0)
    assert queues.count() == (3, 30)


def test_what_dirty_queues_have_in_memory_is_counted(tmp_path: Path) -> None:
    """Units that were written do not count, nor those of queues that are gone."""
    queues = new_queues(tmp_path)
    assert queues.dirty_units == 0
    for queue_id, count in enumerate((2, 6, 100)):
        fill(queues, "T", queue_id, count)
    fill(queues, "U", 0, 30)
    assert queues.dirty_units == 138
    assert queues.flush(2) == 2
    assert queues.dirty_units == 130
    queues.delete_topic("U")
    assert queues.dirty_units == 100
