"""What a broker of ours has not written to its queues yet is found in the log."""

from pathlib import Path

import pytest

from roketto.protocol.sysflags import TRANSACTION_PREPARED
from roketto.spark import store_tail
from roketto.spark.store_files import LogFiles, MappedFiles, QueueTail, StoreFilesError
from roketto.spark.store_options import StoreOptions
from roketto.spark.store_plan import QueuesPartition, plan_scan
from roketto.spark.store_tail import find_tails
from roketto.store.checkpoint import Checkpoint, Marks, save_checkpoint
from roketto.store.files import Files
from unit.spark.store_maker import UNIT, StoreMaker


def tails(maker: StoreMaker) -> dict[tuple[str, int], QueueTail]:
    return find_tails(maker.root, LogFiles(maker.root / "commitlog", MappedFiles()))


@pytest.fixture
def maker(tmp_path: Path) -> StoreMaker:
    """Ten messages in queue files, twenty in memory, over some files of the log."""
    maker = StoreMaker(tmp_path)
    for _ in range(10):
        maker.put("Orders", 0, b"filed", tag="TagA")
    maker.write_checkpoint(maker.log_end)
    for _ in range(20):
        maker.put("Orders", 0, b"in memory", tag="TagB", in_queue=False)
    maker.put("New", 2, b"x", in_queue=False)
    return maker


def test_units_in_memory_are_made_again_from_the_log(maker: StoreMaker) -> None:
    found = tails(maker)
    assert set(found) == {("Orders", 0), ("New", 2)}
    tail = found["Orders", 0]
    assert (tail.begin, tail.end) == (10, 30)
    places = [place for place, _, _ in UNIT.iter_unpack(tail.raw)]
    assert places == sorted(places)
    assert tail.part(0, 11) == QueueTail(10, tail.raw[:20])
    assert tail.part(0, 10) is None


def test_scan_shows_what_files_and_memory_have(maker: StoreMaker) -> None:
    def ranges(**more: str) -> list[tuple[str, int, int]]:
        partitions = plan_scan(StoreOptions.of({**maker.options, **more}))
        return [
            (piece.topic, piece.begin, piece.end)
            for one in partitions
            if isinstance(one, QueuesPartition)
            for piece in one.pieces
        ]

    assert max(end for topic, _, end in ranges() if topic == "Orders") == 30
    assert ("New", 0, 1) in ranges()
    assert ranges(topic="New") == [("New", 0, 1)]
    offsets = '{"Orders":{"0":25}}'
    assert ranges(topic="Orders", startingOffsets=offsets)[0][1] == 25


def test_store_too_young_for_files_of_queues_is_scanned(tmp_path: Path) -> None:
    """Units are some seconds later in files than messages in the log; one whose files are gone
    looks the same, but for the checkpoint."""
    maker = StoreMaker(tmp_path)
    maker.write_checkpoint(0)
    maker.put("Orders", 1, b"first", in_queue=False)
    options = StoreOptions.of(maker.options)
    (partition,) = plan_scan(options)
    assert isinstance(partition, QueuesPartition)
    assert [str(piece) for piece in partition.pieces] == ["queue 1 of topic Orders, offsets 0 to 1"]
    maker.write_checkpoint(maker.log_end)
    with pytest.raises(StoreFilesError, match="consumequeue is not there"):
        plan_scan(options)


def test_half_messages_and_what_was_deleted_are_no_part_of_a_queue(tmp_path: Path) -> None:
    maker = StoreMaker(tmp_path)
    maker.write_checkpoint(0)
    maker.put("T", 0, b"of the topic before", in_queue=False)
    maker.put("T", 0, b"of the topic before", in_queue=False)
    maker.queue_ends.clear()
    place = maker.put("T", 0, b"of the topic made anew", in_queue=False)
    maker.put("T", 0, b"half", in_queue=False, sys_flag=TRANSACTION_PREPARED)
    found = tails(maker)["T", 0]
    assert (found.begin, found.end) == (0, 1)
    assert UNIT.unpack(found.raw)[0] == place


def test_checkpoints_of_others_say_nothing_of_memory(maker: StoreMaker) -> None:
    path = maker.root / "checkpoint"
    good = path.read_bytes()
    for raw in (bytes(4_096), good[:100], good.replace(b"ROKETTO2", b"ROKETTO9"), good[:140] + b"x"
                + good[141:]):  # fmt: skip
        path.write_bytes(raw)
        assert tails(maker) == {}
    path.unlink()
    assert tails(maker) == {}


def test_checkpoint_of_our_store_is_understood(maker: StoreMaker) -> None:
    marks = Marks(flushed=9, derived=700, queues=1, units=1)
    save_checkpoint(Files(), maker.root / "checkpoint", Checkpoint(marks=marks))
    assert store_tail.filed_until(maker.root) == 700


def test_tail_is_bounded_and_what_is_left_out_is_told(
    maker: StoreMaker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_tail, "TAIL_BYTES_MAX", 500)
    found = tails(maker)["Orders", 0]
    assert 10 < found.end < 30
    assert "source=commitlog shows it" in caplog.text


def test_tail_ends_where_the_log_is_damaged_or_gone(maker: StoreMaker) -> None:
    whole = tails(maker)["Orders", 0]
    places = [place for place, _, _ in UNIT.iter_unpack(whole.raw)]
    cut = next(place for place in places if place >= 2_000)
    maker.write_log(cut + 84, b"\xff\xff\xff\xff")
    assert tails(maker)["Orders", 0].end == 10 + places.index(cut)
    maker.log_file(1_000).unlink()
    found = tails(maker).get(("Orders", 0))
    assert found is None or found.end == 10 + sum(place < 1_000 for place in places)
