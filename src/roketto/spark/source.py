"""The data source that Spark knows as ``rocketmq``: what it reads with, and what it writes with.

Spark imports this in every process that looks for data sources, so the rest of the package is
imported where it is used.
"""

from typing import TYPE_CHECKING, Literal, cast

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

    from roketto.spark.batch_reader import BatchReader
    from roketto.spark.stream_reader import StreamReader

__all__ = ["RocketMQDataSource"]


class RocketMQDataSource(DataSource):
    """Topics as tables and streams; Spark finds it by its name where this package is installed.

    orders = spark.read.format("rocketmq").option("nameServer", "10.0.0.5:9876").load("Orders")
    """

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return "rocketmq"

    def schema(self) -> StructType:
        """All columns; a query with a schema of its own gets only what that has."""
        from roketto.spark.columns import default_schema

        return default_schema(self._properties())

    def _properties(self) -> Literal["map", "raw", "none"]:
        from roketto.spark.option_values import OptionValues

        given = {key: value for key, value in self.options.items() if key.lower() == "properties"}
        values = OptionValues(given, ["properties"], "rocketmq source")
        choice = values.choice("properties", ("map", "raw", "none"), "map")
        return cast("Literal['map', 'raw', 'none']", choice)

    def reader(self, schema: StructType) -> "BatchReader":
        """For ``spark.read``."""
        from roketto.spark.batch_reader import BatchReader
        from roketto.spark.columns import asked_columns
        from roketto.spark.source_options import SourceOptions

        options = SourceOptions.of(self.options, is_stream=False)
        return BatchReader(options, asked_columns(schema, self._properties()))

    def streamReader(self, schema: StructType) -> "StreamReader":
        """For ``spark.readStream``."""
        from roketto.spark.columns import asked_columns
        from roketto.spark.source_options import SourceOptions
        from roketto.spark.stream_reader import StreamReader

        options = SourceOptions.of(self.options, is_stream=True)
        return StreamReader(options, asked_columns(schema, self._properties()))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceArrowWriter":
        """For ``df.write``."""
        from roketto.spark.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamArrowWriter":
        """For ``df.writeStream``."""
        from roketto.spark.writer import StreamWriter

        return StreamWriter(self.options, schema, overwrite)
