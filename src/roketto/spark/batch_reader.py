"""The batch source: offsets are looked up once on the driver, and read by tasks."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from roketto.spark.cluster import Cluster
from roketto.spark.columns import Column
from roketto.spark.places import find_ranges, retrying
from roketto.spark.planner import RangesPartition, plan
from roketto.spark.reading import read_ranges
from roketto.spark.source_options import SourceOptions

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """Spark makes one for each query, asks it for partitions, and sends copies of it to tasks.

    reader = BatchReader(options, asked_columns(schema, "map"))
    for partition in reader.partitions():
        for batch in reader.read(partition): ...
    """

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        """What there is to read now; a DataFrame asks once, and later actions see the same."""
        options = self._options
        cluster = Cluster.of(options.connection)
        ranges = retrying(options, lambda: find_ranges(cluster, options))
        return list(
            plan(
                ranges,
                partitions_min=options.partitions_min,
                partition_rows_max=options.partition_rows_max,
                partition_rows_min=options.partition_rows_min,
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a partition; Spark gives one of its own where there was none."""
        if isinstance(partition, RangesPartition):
            yield from read_ranges(self._options, self._columns, partition.ranges)
