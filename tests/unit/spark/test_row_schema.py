"""The columns of a sink: which there are, their types, and what is said about others."""

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from roketto.spark.row_schema import SINK_COLUMNS, SinkSchema
from roketto.spark.sink_options import SinkError

TEXT, NUMBER = StringType(), IntegerType()


def schema_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_all_columns_are_taken_in_any_order_and_case() -> None:
    given = schema_of(
        FLAG=NUMBER, deliverTimestamp=TimestampType(), delayLevel=NUMBER, queueId=LongType(),
        shardingkey=TEXT, properties=MapType(TEXT, TEXT), keys=TEXT, tags=TEXT, topic=TEXT,
        Body=BinaryType(),
    )  # fmt: skip
    schema = pickle.loads(pickle.dumps(SinkSchema(given, None)))
    assert schema.is_ordered
    assert len(given.fields) == len(SINK_COLUMNS)
    assert not SinkSchema(schema_of(body=TEXT, keys=TEXT), "Orders").is_ordered


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"value": TEXT}, "Orders", "a column 'value'"),
        ({"body": TEXT, "key": TEXT}, "Orders", "did you mean 'keys'"),
        ({"keys": TEXT}, "Orders", "no column body"),
        ({"body": NUMBER}, "Orders", "body is int; it takes binary or string"),
        ({"body": TEXT, "queueId": TEXT}, "Orders", "queueId is string"),
        ({"body": TEXT, "keys": ArrayType(TEXT)}, "Orders", "keys is array<string>"),
        ({"body": TEXT}, None, "Give option topic"),
    ],
)
def test_rows_that_are_no_messages_are_refused_with_the_remedy(
    columns: dict[str, DataType], topic: str | None, said: str
) -> None:
    with pytest.raises(SinkError) as caught:
        SinkSchema(schema_of(**columns), topic)
    assert said in str(caught.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    given = StructType([StructField("body", TEXT), StructField("BODY", TEXT)])
    with pytest.raises(SinkError, match="column body twice"):
        SinkSchema(given, "Orders")
