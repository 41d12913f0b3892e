"""A scan gives the messages that are asked for, each once, and tells what it cannot trust."""

import pickle
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from roketto.spark.loss import DataLossError
from roketto.spark.store_scan import StoreDataSource
from unit.spark.store_maker import TIME_MS, UNIT, StoreMaker

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("queueOffset", LongType()),
        StructField("tags", StringType()),
        StructField("logOffset", LongType()),
    ]
)


def scan(maker: StoreMaker, **options: str) -> list[tuple[str, int, str | None, int]]:
    """The rows of all partitions, read by copies of the reader as Spark does it."""
    reader = StoreDataSource({**maker.options, **options}).reader(SCHEMA)
    rows: list[tuple[str, int, str | None, int]] = []
    for partition in reader.partitions():
        copy = pickle.loads(pickle.dumps(reader))
        for batch in copy.read(pickle.loads(pickle.dumps(partition))):
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


def by_place(rows: Iterable[tuple[str, int, str | None, int]]) -> list[Any]:
    """In the order of the log."""
    return sorted(rows, key=lambda row: row[3])


@pytest.fixture
def maker(tmp_path: Path) -> StoreMaker:
    """Tags Aa and BB have the same hash code."""
    maker = StoreMaker(tmp_path)
    for number in range(40):
        maker.put("Orders", number % 2, b"%03d" % number, tag=["Aa", "BB", "C", ""][number % 4])
    return maker


def test_every_message_comes_once_whatever_the_partitions(maker: StoreMaker) -> None:
    rows = scan(maker)
    assert len(rows) == 40
    assert len({log_offset for *_, log_offset in rows}) == 40
    assert {row[0] for row in rows} == {"Orders"}
    assert sorted(row[1] for row in rows) == sorted([*range(20), *range(20)])
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "3"}):
        assert by_place(scan(maker, **options)) == by_place(rows)


def test_tags_are_pruned_by_hash_and_then_compared(
    maker: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [row for row in scan(maker) if row[2] == "Aa"]
    assert len(wanted) == 10
    assert scan(maker, tags="Aa") == wanted
    assert {row[2] for row in scan(maker, tags="Aa||C")} == {"Aa", "C"}
    maker.write_log(0, bytes(100))  # the record of a tag that nobody looks at
    assert len(scan(maker, tags="C")) == 10
    with pytest.raises(DataLossError):
        scan(maker, tags="Aa")


def test_tags_in_another_file_are_compared_with_the_record(maker: StoreMaker) -> None:
    place = maker.put("Orders", 0, b"ext", tag="Ext")
    size = maker.log_end - place
    maker.write_unit("Orders", 0, 20, UNIT.pack(place, size, -(2**63) + 40))
    assert [row[1] for row in scan(maker, tags="Ext")] == [20]


@pytest.mark.parametrize("change", [0, 4, 20, 28], ids=["size", "magic", "offset", "place"])
def test_unit_without_its_record_is_a_loss_or_left_out(maker: StoreMaker, change: int) -> None:
    place = scan(maker, queueIds="1", topic="Orders")[4][3]
    whole = scan(maker)
    field = struct.pack(">q" if change >= 20 else ">i", 1)
    maker.write_log(place + change, field)
    with pytest.raises(DataLossError, match=r"queue 1 of topic Orders.* 1 units from offset 4 on"):
        scan(maker)
    assert scan(maker, failOnDataLoss="false") == [row for row in whole if row[3] != place]


def test_damage_inside_of_a_record_is_a_loss_or_left_out(maker: StoreMaker) -> None:
    whole = scan(maker)
    place = whole[3][3]
    maker.write_log(place + 84, struct.pack(">i", -5))
    for source in ("queues", "commitlog"):
        with pytest.raises(DataLossError, match=f"byte {place % 1000} is damaged"):
            scan(maker, source=source)
        kept = scan(maker, source=source, failOnDataLoss="false")
        assert by_place(kept) == by_place(row for row in whole if row[3] != place)


def test_file_removed_after_planning_is_a_loss_or_left_out(maker: StoreMaker) -> None:
    whole = scan(maker)
    for source in ("queues", "commitlog"):
        for fails in ("true", "false"):
            options = {**maker.options, "source": source, "failOnDataLoss": fails}
            reader = StoreDataSource(options).reader(SCHEMA)
            partitions = reader.partitions()
            content = maker.log_file(1_000).read_bytes()
            maker.log_file(1_000).unlink()
            try:
                if fails == "true":
                    with pytest.raises(DataLossError, match="the log has no file"):
                        _ = [list(reader.read(one)) for one in partitions]
                else:
                    rows = [row for one in partitions for row in _offsets(reader, one)]
                    kept = [row[3] for row in whole if not 1_000 <= row[3] < 2_000]
                    assert sorted(rows) == sorted(kept)
            finally:
                maker.log_file(1_000).write_bytes(content)


def _offsets(reader: object, partition: InputPartition) -> list[int]:
    batches = reader.read(partition)  # type: ignore[attr-defined]  # a reader of Spark's
    return [value for batch in batches for value in batch.column("logOffset").to_pylist()]


def test_queue_files_removed_after_planning_are_a_loss(maker: StoreMaker) -> None:
    reader = StoreDataSource(maker.options).reader(SCHEMA)
    partitions = reader.partitions()
    (maker.root / "consumequeue" / "Orders" / "0" / f"{0:020d}").unlink()
    with pytest.raises(DataLossError, match="no units from offset 0 on any more"):
        _ = [list(reader.read(one)) for one in partitions]


def test_messages_put_after_planning_are_for_the_next_scan(maker: StoreMaker) -> None:
    for source in ("queues", "commitlog"):
        reader = StoreDataSource({**maker.options, "source": source}).reader(SCHEMA)
        partitions = reader.partitions()
        before = len(scan(maker, source=source))
        maker.put("Orders", 0, b"later")
        assert sum(len(_offsets(reader, one)) for one in partitions) == before
        assert len(scan(maker, source=source)) == before + 1


def test_log_gives_records_that_no_queue_has(maker: StoreMaker) -> None:
    place = maker.put("Lost", 3, b"in no queue", in_queue=False)
    maker.put("rmq_sys_x", 0, b"system")
    rows = scan(maker, source="commitlog")
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)
    assert len(rows) == 42
    assert scan(maker, source="commitlog", topic="Lost") == [("Lost", 0, None, place)]
    assert scan(maker, source="commitlog", queueIds="3") == [("Lost", 0, None, place)]
    assert scan(maker, source="commitlog", topic="Orders") == by_place(scan(maker))
    assert len(scan(maker, source="commitlog", tags="Aa")) == 10


def test_log_is_read_by_the_time_of_storing(maker: StoreMaker) -> None:
    rows = scan(maker, source="commitlog")
    middle = rows[17][3]
    time = str(TIME_MS + middle)
    early = scan(maker, source="commitlog", endingTimestamp=time)
    late = scan(maker, source="commitlog", startingTimestamp=time)
    assert early + late == rows
    assert late[0][3] == middle
    assert by_place(scan(maker, startingTimestamp=time)) == late


def test_hole_in_the_log_is_a_loss_and_the_rest_of_the_file_left_out(maker: StoreMaker) -> None:
    rows = scan(maker, source="commitlog")
    hole = rows[3][3]
    maker.write_log(hole, bytes(8))
    with pytest.raises(DataLossError, match=f"no record at byte {hole}, where one should begin"):
        scan(maker, source="commitlog")
    kept = scan(maker, source="commitlog", failOnDataLoss="false")
    assert kept == [row for row in rows if row[3] < hole or row[3] >= 1_000]


def test_partition_of_nothing_gives_no_batch(maker: StoreMaker) -> None:
    reader = StoreDataSource(maker.options).reader(SCHEMA)
    assert list(reader.read(InputPartition(None))) == []
