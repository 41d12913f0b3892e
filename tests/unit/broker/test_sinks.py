"""What sinks have decided and published is known after every kill, and of so many sinks."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker.sinks import NEVER, Sinks
from roketto.broker.staged import DECIDED, Step, make_step
from roketto.protocol.bodies.staged import SinkEntry
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.names import SINKS_TOPIC
from roketto.protocol.record import Record
from unit.broker.staged_rig import StagedRig

HERE = b'{"pieces":{"%b":[[0,1]]}}'
ELSEWHERE = b'{"pieces":{"broker-z":[[0,1]]}}'


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StagedRig]:
    rig = StagedRig(tmp_path)
    yield rig
    rig.close()


def here(rig: StagedRig) -> bytes:
    return HERE % rig.config.broker_name.encode()


def flush(rig: StagedRig) -> None:
    """Let everything be on the disk."""
    rig.store.request_flush()
    for _ in range(1_000_000):
        if rig.store.flushed >= rig.store.log.written:
            return
    raise AssertionError("it is never flushed")


def small(rig: StagedRig, sinks_max: int) -> Sinks:
    return Sinks(
        rig.store, rig.context.topics, rig.sink_table, rig.context.sending, rig.store.append,
        broker_name="b", clock_ms=rig.clock_ms, sinks_max=sinks_max,
    )  # fmt: skip


def test_every_step_is_known_after_a_kill(rig: StagedRig) -> None:
    """Nothing was saved: the log has all of it."""
    rig.sinks.decide("a", 7, "q", here(rig))
    rig.sinks.begin("a", 7, "q", "digest")
    rig.sinks.note_published("b", 3, "r", 100)
    begun_at = rig.sinks.find("a").begun_at  # type: ignore[union-attr]
    rig.kill()
    first, second = rig.sinks.find("a"), rig.sinks.find("b")
    assert first is not None
    assert second is not None
    assert (first.decided, first.begun, first.published, first.query_id) == (7, 7, NEVER, "q")
    assert (first.begun_at, first.digest, first.has_pieces_here) == (begun_at, "digest", True)
    assert first.progress is None, "the queues have to be asked"
    assert (second.decided, second.published, second.query_id) == (NEVER, 3, "r")
    assert rig.sinks.decision_of(first) == here(rig)
    assert rig.sinks.decision_of(second) is None


def test_what_was_saved_is_not_read_again(rig: StagedRig) -> None:
    """The table has it, also when the log has lost it."""
    rig.sinks.decide("a", 7, "q", ELSEWHERE)
    rig.sinks.note_published("a", 7, "q", 5)
    flush(rig)
    rig.sinks.settle()
    assert rig.sink_table.next_offset == 2
    entry = rig.sink_table.sinks["a"]
    assert (entry.decided_batch_id, entry.published_batch_id) == (7, 7)
    assert rig.sink_table.save_if_changed()
    rig.sinks.decide("a", 8, "q", ELSEWHERE)
    rig.kill()
    sink = rig.sinks.find("a")
    assert sink is not None
    assert (sink.decided, sink.published) == (8, 7)


def test_the_table_has_nothing_that_is_not_on_the_disk(rig: StagedRig) -> None:
    """A power loss would take it from the log, and the table would say what never was."""
    rig.sinks.decide("a", 7, "q", ELSEWHERE)
    assert rig.store.flushed < rig.store.log.written, "the rig flushes nothing by itself"
    rig.sinks.settle()
    rig.sinks.settle()
    assert (rig.sink_table.next_offset, dict(rig.sink_table.sinks)) == (0, {})
    rig.sinks.decide("a", 8, "q", ELSEWHERE)
    flush(rig)
    rig.sinks.settle()
    assert (rig.sink_table.next_offset, rig.sink_table.sinks["a"].decided_batch_id) == (2, 8)


def test_a_sink_that_never_rests_is_saved_as_it_was_a_moment_ago(rig: StagedRig) -> None:
    rig.sinks.decide("a", 7, "q", ELSEWHERE)
    rig.sinks.settle()
    flush(rig)
    rig.sinks.decide("a", 8, "q", ELSEWHERE)
    rig.sinks.settle()
    assert (rig.sink_table.next_offset, rig.sink_table.sinks["a"].decided_batch_id) == (1, 7)


def test_batches_are_decided_in_order_and_once(rig: StagedRig) -> None:
    sink, is_new = rig.sinks.decide("a", 7, "q", ELSEWHERE)
    assert is_new
    again, is_new = rig.sinks.decide("a", 7, "q", b"{}")
    assert (again, is_new) == (sink, False)
    assert rig.sinks.decision_of(sink) == ELSEWHERE, "the first one counts"
    with pytest.raises(RequestError, match="has decided batch 7 and cannot decide 6") as error:
        rig.sinks.decide("a", 6, "q", ELSEWHERE)
    assert error.value.code == ResponseCode.INVALID_PARAMETER
    assert rig.sinks.decide("a", 9, "q", ELSEWHERE)[1]


def test_another_query_may_not_go_on_with_a_sink(rig: StagedRig) -> None:
    rig.sinks.decide("a", 7, "q", ELSEWHERE)
    with pytest.raises(RequestError, match="choose another sinkId") as error:
        rig.sinks.decide("a", 8, "other", ELSEWHERE)
    assert error.value.code == ResponseCode.NO_PERMISSION


def test_no_batch_is_decided_over_one_that_is_not_published(rig: StagedRig) -> None:
    """Its pieces here would be lost: nobody would know of them any more."""
    rig.sinks.decide("a", 7, "q", here(rig))
    with pytest.raises(RequestError, match="batch 7, which is not published here"):
        rig.sinks.decide("a", 8, "q", ELSEWHERE)
    rig.sinks.note_published("a", 7, "q", 1)
    assert rig.sinks.decide("a", 8, "q", ELSEWHERE)[1]
    assert rig.sinks.decide("a", 9, "q", b"no JSON")[1], "handlers have looked at it before"


def test_the_sink_that_was_unused_for_longest_is_forgotten(
    rig: StagedRig, caplog: pytest.LogCaptureFixture
) -> None:
    sinks = small(rig, 2)
    sinks.decide("a", 1, "q", ELSEWHERE)
    sinks.decide("b", 1, "q", ELSEWHERE)
    flush(rig)
    sinks.settle()
    sinks.find("a")
    with caplog.at_level(logging.WARNING):
        sinks.decide("c", 1, "q", ELSEWHERE)
    assert "sink b of query q is forgotten" in caplog.text
    assert (len(sinks), sinks.find("b")) == (2, None)
    assert set(rig.sink_table.sinks) == {"a"}
    sinks.settle()
    flush(rig)
    sinks.settle()
    assert set(rig.sink_table.sinks) == {"a", "c"}


def test_a_sink_that_publishes_is_not_forgotten(rig: StagedRig) -> None:
    sinks = small(rig, 1)
    sink, _ = sinks.decide("a", 1, "q", ELSEWHERE)
    sink.is_busy = True
    before = rig.store.log.written
    with pytest.raises(RequestError, match="1 sinks publish at this moment"):
        sinks.decide("b", 1, "q", ELSEWHERE)
    assert rig.store.log.written == before, "nothing was stored"
    assert sinks.find("a") is sink


def test_sinks_are_forgotten_in_the_order_of_their_last_steps_after_a_start(
    rig: StagedRig,
) -> None:
    for sink_id, used_ms in (("new", 3), ("old", 1), ("middle", 2)):
        rig.sink_table.put(sink_id, SinkEntry(query_id="q", used_ms=used_ms))
    sinks = small(rig, 3)
    sinks.start()
    sinks.decide("one more", 1, "q", ELSEWHERE)
    assert [name for name in ("new", "old", "middle") if sinks.find(name)] == ["new", "middle"]


def test_a_decision_that_the_log_has_lost_is_told_as_lost(rig: StagedRig) -> None:
    """Its number is known; what lies at its place now is not taken for it."""
    sink, _ = rig.sinks.decide("a", 7, "q", ELSEWHERE)
    sink.decided_at = 1 << 40
    assert rig.sinks.decision_of(sink) is None
    other, _ = rig.sinks.decide("b", 7, "q", ELSEWHERE)
    sink.decided_at = other.decided_at
    assert rig.sinks.decision_of(sink) is None


def test_what_is_no_step_is_passed_over_at_a_start(
    rig: StagedRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.store.append(Record(SINKS_TOPIC, b"garbage"))
    rig.store.append(make_step(Step(DECIDED, "a", 7, "q", ELSEWHERE)))
    rig.store.append(make_step(Step(DECIDED, "a", 6, "q", ELSEWHERE)))
    with caplog.at_level(logging.ERROR):
        rig.kill()
    assert "no step of a sink is in the record at" in caplog.text
    sink = rig.sinks.find("a")
    assert sink is not None
    assert sink.decided == 7


def test_a_table_that_is_ahead_of_the_log_does_no_harm(rig: StagedRig) -> None:
    """As after a part of the log was taken away by hand."""
    rig.sink_table.put("a", SinkEntry(decided_batch_id=7, decided_at=5_000, query_id="q"))
    rig.sink_table.note_next(1_000)
    sinks = small(rig, 10)
    sinks.start()
    sink = sinks.find("a")
    assert sink is not None
    assert sinks.decision_of(sink) is None
    assert sinks.decide("a", 8, "q", ELSEWHERE)[1]
    flush(rig)
    sinks.settle()
    sinks.settle()
    assert rig.sink_table.next_offset == 1
