"""Proves that the table finds, makes, flushes and forgets queues, and visits only those it must."""

from pathlib import Path

import pytest

from roketto.protocol.errors import IllegalNameError
from roketto.store.consumequeue import UNIT_BYTES, ConsumeQueue
from roketto.store.files import Files
from roketto.store.queues import Queues

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
    assert queues.next_offsets() == {("%RETRY%g", 0): 2, ("a", 0): 25, ("a", 10): 3}
    assert queues.log_offset_max() == 9200
    assert queues.rebuild_from() is None


def test_a_queue_is_looked_into_when_first_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path)
    opened: list[str] = []
    recover = ConsumeQueue.recover

    def noted(queue: ConsumeQueue, log_min_offset: int) -> None:
        opened.append(queue.directory.name)
        recover(queue, log_min_offset)

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
    monkeypatch.setattr(ConsumeQueue, "sync", lambda queue: visited.append(queue))
    visited: list[ConsumeQueue] = []
    assert queues.flush() == 1
    assert queues.sync() == 1
    assert visited == [queues.get("a", 10)]


def test_after_a_crash_what_is_found_is_synced_once(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path, is_after_crash=True)
    queues.log_offset_max()
    assert queues.sync() == 3
    assert queues.sync() == 0
    clean = loaded(tmp_path)
    clean.log_offset_max()
    assert clean.sync() == 0


@pytest.mark.parametrize("step", ["flush", "sync"])
def test_what_failed_is_visited_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    queues = new_queues(tmp_path)
    fill(queues, "a", 0, 1)
    if step == "sync":
        queues.flush()

    def fail(_: ConsumeQueue) -> None:
        raise OSError("broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueue, step, fail)
        with pytest.raises(OSError, match="broken disk"):
            getattr(queues, step)()
    assert getattr(queues, step)() == 1


def test_starts_files_and_ends_follow_the_log(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.correct_min(500)
    assert [queue.queue_offset_min for _, _, queue in queues] == [5, 0, 0]
    assert queues.delete_files_below(1500) == 1
    queues.truncate(5100)
    assert queues.next_offsets() == {("a", 0): 25, ("a", 10): 1, ("%RETRY%g", 0): 0}


def test_queues_opened_later_know_where_the_log_begins(tmp_path: Path) -> None:
    stored(tmp_path)
    queues = loaded(tmp_path)
    queues._table["a"][10] = None
    queues.delete_files_below(5100)
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


def test_expired_queues_go_but_not_those_of_the_system(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    fill(queues, "SCHEDULE_TOPIC_XXXX", 0, 1)
    queues.get_or_create("new", 0)
    assert queues.delete_expired(5000) == [("a", 0)]
    assert not (tmp_path / "consumequeue" / "a" / "0").exists()
    assert queues.queue_ids("a") == [10]
    assert queues.delete_expired(10**6) == [("a", 10), ("%RETRY%g", 0)]
    assert queues.topics() == ["SCHEDULE_TOPIC_XXXX", "new"]


def test_without_a_log_all_queues_go(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.clear()
    assert queues.topics() == []
    assert list((tmp_path / "consumequeue").iterdir()) == []


def test_queues_with_messages_are_counted(tmp_path: Path) -> None:
    queues = stored(tmp_path)
    queues.get_or_create("empty", 0)
    assert queues.count() == (3, 30)
