"""A scan is cut into tasks by files of the log and by rows; what cannot be had is told."""

from pathlib import Path

import pytest

from roketto.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roketto.spark.loss import DataLossError
from roketto.spark.store_files import StoreFilesError
from roketto.spark.store_options import StoreOptions
from roketto.spark.store_plan import (
    LogPartition,
    QueuePiece,
    QueuesPartition,
    pack,
    plan_scan,
)
from unit.spark.store_maker import TIME_MS, StoreMaker


@pytest.fixture
def maker(tmp_path: Path) -> StoreMaker:
    """Two queues of one topic in four files of the log, and one message of another."""
    maker = StoreMaker(tmp_path)
    for number in range(30):
        maker.put("Orders", number % 2, b"%03d" % number)
    maker.put("Other", 0, b"x")
    maker.put(SCHEDULE_TOPIC, 0, b"x")
    maker.put(HALF_TOPIC, 0, b"x")
    maker.put("rmq_sys_staged", 0, b"x")
    return maker


def plan(maker: StoreMaker, **options: str) -> list[tuple[QueuePiece, ...]]:
    partitions = plan_scan(StoreOptions.of({**maker.options, **options}))
    assert all(isinstance(one, QueuesPartition) for one in partitions)
    return [one.pieces for one in partitions if isinstance(one, QueuesPartition)]


def ranges(maker: StoreMaker, **options: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The first and the last offset of each queue, whose pieces follow each other."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for pieces in plan(maker, **options):
        for piece in pieces:
            begin, end = found.get((piece.topic, piece.queue_id), (piece.begin, piece.begin))
            assert piece.begin == end
            found[piece.topic, piece.queue_id] = (begin, piece.end)
    return found


def test_all_topics_are_those_of_users(maker: StoreMaker) -> None:
    everything = {("Orders", 0): (0, 15), ("Orders", 1): (0, 15), ("Other", 0): (0, 1)}
    assert ranges(maker) == everything
    assert ranges(maker, topic=f"{SCHEDULE_TOPIC},Other") == {
        ("Other", 0): (0, 1),
        (SCHEDULE_TOPIC, 0): (0, 1),
    }
    assert ranges(maker, topic="Orders", queueIds="1") == {("Orders", 1): (0, 15)}


def test_pieces_follow_the_files_of_the_log(maker: StoreMaker) -> None:
    ((*pieces,),) = plan(maker, topic="Orders")
    assert len(pieces) == 8
    assert [piece.queue_id for piece in pieces] == [0, 1] * 4


def test_partitions_have_the_rows_that_are_asked_for(maker: StoreMaker) -> None:
    for options in ({"maxRecordsPerPartition": "4"}, {"minPartitions": "8"}):
        partitions = plan(maker, topic="Orders", **options)
        rows = [sum(piece.end - piece.begin for piece in pieces) for pieces in partitions]
        assert rows == [4, 4, 4, 4, 4, 4, 4, 2]
        assert ranges(maker, topic="Orders", **options) == ranges(maker, topic="Orders")


def test_packing_keeps_every_offset_once() -> None:
    pieces = [QueuePiece("T", 0, 5, 12), QueuePiece("T", 1, 0, 1), QueuePiece("T", 2, 3, 3)]
    packed = [one.pieces for one in pack(pieces, 3)]
    assert packed == [
        (QueuePiece("T", 0, 5, 8),),
        (QueuePiece("T", 0, 8, 11),),
        (QueuePiece("T", 0, 11, 12), QueuePiece("T", 1, 0, 1)),
    ]


def test_offsets_and_times_bound_each_queue(maker: StoreMaker) -> None:
    offsets = '{"Orders":{"0":3,"1":-1}}'
    assert ranges(maker, topic="Orders", startingOffsets=offsets) == {("Orders", 0): (3, 15)}
    ends = '{"Orders":{"b":{"0":3,"1":-2}}}'
    assert ranges(maker, topic="Orders", endingOffsets=ends) == {("Orders", 0): (0, 3)}
    # The second file of the log begins at byte 1,000, and that is its time, too.
    early = ranges(maker, topic="Orders", endingTimestamp=str(TIME_MS + 1_000))
    late = ranges(maker, topic="Orders", startingTimestamp=str(TIME_MS + 1_000))
    for queue in (("Orders", 0), ("Orders", 1)):
        assert early[queue][0] == 0
        assert early[queue][1] == late[queue][0]
        assert late[queue][1] == 15
    assert ranges(maker, startingTimestamp=str(TIME_MS * 2)) == {}


def test_offsets_outside_the_queue_are_a_loss_or_left_out(maker: StoreMaker) -> None:
    maker.log_file(0).unlink()
    begins = ranges(maker, topic="Orders")
    asked = {"topic": "Orders", "startingOffsets": '{"Orders":{"0":1}}'}
    with pytest.raises(DataLossError, match="queue 0 of topic Orders has offsets 5 to 15, and 1"):
        plan(maker, **asked)
    assert ranges(maker, **asked, failOnDataLoss="false") == begins
    with pytest.raises(DataLossError, match=r"endingOffsets: .* and 99 is asked for"):
        plan(maker, topic="Orders", endingOffsets='{"Orders":{"1":99}}')


def test_what_is_not_there_is_told_with_what_is(maker: StoreMaker, tmp_path: Path) -> None:
    with pytest.raises(StoreFilesError, match=r"did you mean Orders\?"):
        plan(maker, topic="Order")
    with pytest.raises(StoreFilesError, match=r"has no queue 7 .* it has 0, 1"):
        plan(maker, topic="Orders", queueIds="7")
    with pytest.raises(StoreFilesError, match="a light queue"):
        plan(maker, topic="%LMQ%x")
    with pytest.raises(StoreFilesError, match="storePath must name a directory with commitlog"):
        plan_scan(StoreOptions.of({"path": str(tmp_path / "nothing")}))
    log_only = {"path": str(tmp_path / "x"), "commitLogPath": str(tmp_path / "commitlog")}
    with pytest.raises(StoreFilesError, match="can be read with source=commitlog"):
        plan_scan(StoreOptions.of(log_only))


def test_log_is_cut_by_its_files_and_ends_with_its_records(maker: StoreMaker) -> None:
    (maker.root / "commitlog" / f"{10_000:020d}").write_bytes(bytes(1_000))  # made in advance

    def parts(**options: str) -> list[tuple[int, int]]:
        given = {**maker.options, "source": "commitlog", **options}
        found = plan_scan(StoreOptions.of(given))
        return [(one.begin, one.end) for one in found if isinstance(one, LogPartition)]

    assert parts() == [(0, 1000), (1000, 2000), (2000, 3000), (3000, maker.log_end)]
    assert parts(startingTimestamp=str(TIME_MS + 2_500)) == parts()[2:]
    assert parts(endingTimestamp=str(TIME_MS + 1_000)) == parts()[:1]


def test_empty_log_has_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "consumequeue" / "T" / "0").mkdir(parents=True)
    for source in ("queues", "commitlog"):
        assert plan_scan(StoreOptions.of({"path": str(tmp_path), "source": source})) == []
