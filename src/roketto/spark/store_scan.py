"""The data source that Spark knows as ``rocketmq-store``: the files of a broker as a table.

No broker is asked: its directory is read, be it ours or Java's, at work, stopped or a copy. A task
maps files, so these must be on the hosts of all executors.

Spark imports this in every process that looks for data sources, so the rest of the package is
imported where it is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from roketto.spark.columns import Column
    from roketto.spark.store_options import StoreOptions

__all__ = ["StoreDataSource", "StoreReader"]


class StoreDataSource(DataSource):
    """A store as a table; Spark finds it by its name where this package is installed.

    spark.read.format("rocketmq-store").option("topic", "Orders").load("/var/rocketmq/store")
    """

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """All columns; a query with a schema of its own gets only what that has."""
        from roketto.spark.columns import default_schema
        from roketto.spark.store_options import properties_option

        return default_schema(properties_option(self.options))

    def reader(self, schema: StructType) -> "StoreReader":
        """For ``spark.read``; a schema may name columns of the log as well."""
        from roketto.spark.columns import LOG_COLUMNS, asked_columns
        from roketto.spark.store_options import StoreOptions, properties_option

        columns = asked_columns(schema, properties_option(self.options), LOG_COLUMNS)
        return StoreReader(StoreOptions.of(self.options), columns)


class StoreReader(DataSourceReader):
    """Spark makes one for each query, asks it for partitions, and sends copies of it to tasks.

    reader = StoreReader(StoreOptions.of({"storePath": "store"}), all_columns())
    for partition in reader.partitions():
        for batch in reader.read(partition): ...
    """

    def __init__(self, options: "StoreOptions", columns: "list[Column]") -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """What there is to read now; a DataFrame asks once, and later actions see the same."""
        from roketto.spark.store_plan import plan_scan

        return plan_scan(self._options)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The messages of a partition; Spark gives one of its own where there was none."""
        from roketto.spark.store_plan import LogPartition, QueuesPartition
        from roketto.spark.store_read import read_log, read_queues

        if isinstance(partition, QueuesPartition):
            yield from read_queues(self._options, self._columns, partition.pieces)
        elif isinstance(partition, LogPartition):
            yield from read_log(self._options, self._columns, partition)
