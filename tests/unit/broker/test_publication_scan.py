"""How much of a batch is published is counted in the queues, behind the begin of it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import publication_scan as module
from roketto.broker.publication_scan import count_published, progress_of
from roketto.protocol.record import Record
from roketto.protocol.sysflags import TRANSACTION_COMMIT
from unit.broker.staged_rig import StagedRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StagedRig]:
    rig = StagedRig(tmp_path)
    yield rig
    rig.close()


def put_copies(rig: StagedRig, end: int, count: int = 1, queue_id: int = 1, flag: int = 0) -> int:
    """Copies of a piece that ends there; where the last of them lies."""
    log_offset = -1
    for _ in range(count):
        copy = Record("T", b"x", queue_id=queue_id, prepared_log_offset=end, sys_flag=flag)
        log_offset = rig.store.append(copy).log_offset
    return log_offset


def count(rig: StagedRig, ends: set[int], begun_at: int = 0, queues: int = 4) -> dict[int, int]:
    keys = {("T", number) for number in range(queues)} | {("Nowhere", 0)}
    steps = count_published(rig.store, keys, ends, begun_at)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return dict(done.value)


def test_copies_of_each_piece_are_counted_in_all_queues(rig: StagedRig) -> None:
    """Other messages are none, and those of a transaction name something else there."""
    put_copies(rig, 500, 3)
    put_copies(rig, 600, 2, queue_id=2)
    put_copies(rig, 700)
    put_copies(rig, 500, flag=TRANSACTION_COMMIT)
    rig.send()
    assert count(rig, {500, 600}) == {500: 3, 600: 2}
    assert count(rig, {500, 600}, queues=2) == {500: 3}


def test_only_what_lies_behind_the_begin_counts(rig: StagedRig) -> None:
    put_copies(rig, 500, 700)
    last = put_copies(rig, 500)
    put_copies(rig, 500, 4)
    assert count(rig, {500}, last) == {500: 5}
    assert count(rig, {500}, last + 1) == {500: 4}
    assert count(rig, {500}, 1 << 40) == {}


def test_it_looks_at_some_messages_and_lets_others_have_their_turn(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile is not looked at."""
    monkeypatch.setattr(module, "_LOOKS_AT_ONCE", 4)
    put_copies(rig, 500, 10)
    steps = count_published(rig.store, {("T", 1)}, {500}, 0)
    turns = 0
    found = None
    while found is None:
        try:
            next(steps)
        except StopIteration as done:
            found = done.value
        else:
            turns += 1
            put_copies(rig, 500)
    assert (turns, found) == (3, {500: 10})


def test_a_topic_that_is_deleted_meanwhile_ends_it(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOKS_AT_ONCE", 4)
    put_copies(rig, 500, 10)
    steps = count_published(rig.store, {("T", 1)}, {500}, 0)
    next(steps)
    rig.store.delete_topic("T")
    assert list(steps) == []


def test_the_first_piece_that_is_not_whole_is_where_it_goes_on() -> None:
    pieces, counts = [[0, 10], [10, 10], [20, 10]], [5, 6, 7]
    assert progress_of(pieces, counts, Counter()) == (0, 0)
    assert progress_of(pieces, counts, Counter({10: 4})) == (0, 4)
    assert progress_of(pieces, counts, Counter({10: 5})) == (1, 0)
    assert progress_of(pieces, counts, Counter({10: 5, 20: 6, 30: 1})) == (2, 1)
    assert progress_of(pieces, counts, Counter({10: 5, 20: 6, 30: 7})) == (3, 0)
    assert progress_of([], [], Counter()) == (0, 0)
