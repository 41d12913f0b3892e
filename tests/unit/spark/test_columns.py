"""Columns have the types that Spark expects, and a schema that asks for others is refused."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from roketto.spark.columns import (
    LOG_COLUMNS,
    SOURCE_COLUMNS,
    ColumnError,
    PropertiesAs,
    all_columns,
    arrow_schema,
    asked_columns,
    ddl,
    default_schema,
)


@pytest.mark.parametrize("properties", ["map", "raw", "none"])
def test_arrow_schema_equals_the_one_that_spark_makes_of_the_same_columns(
    properties: PropertiesAs,
) -> None:
    schema = default_schema(properties)
    made = to_arrow_schema(schema, timezone="UTC")
    assert arrow_schema(all_columns(properties)).equals(made)
    assert arrow_schema(asked_columns(schema, properties)).equals(made)
    assert [field.name for field in schema] == [
        name for name in SOURCE_COLUMNS if name != "properties" or properties != "none"
    ]


def test_ddl_text_names_every_column_with_its_type() -> None:
    assert ddl() == (
        "topic string, brokerName string, queueId int, queueOffset bigint, msgId string,"
        " tags string, keys string, body binary, flag int, properties map<string,string>,"
        " bornTimestamp timestamp, storeTimestamp timestamp, bornHost string, reconsumeTimes int"
    )
    assert "properties string" in ddl("raw")
    assert "properties" not in ddl("none")


def test_schema_of_the_user_is_the_projection_with_its_order_and_its_nulls() -> None:
    schema = StructType(
        [
            StructField("queueOffset", LongType(), False),
            StructField("properties", MapType(StringType(), StringType(), False)),
            StructField("logOffset", LongType()),
        ]
    )
    columns = asked_columns(schema, more=LOG_COLUMNS)
    assert [column.name for column in columns] == ["queueOffset", "properties", "logOffset"]
    assert arrow_schema(columns).equals(to_arrow_schema(schema, timezone="UTC"))
    assert not columns[0].is_nullable
    assert columns[0].type == pa.int64()


@pytest.mark.parametrize(
    ("field", "properties", "told"),
    [
        (StructField("queueofset", LongType()), "map", "did you mean queueOffset?"),
        (StructField("zzz", LongType()), "map", "Columns are topic, brokerName"),
        (StructField("logOffset", LongType()), "map", "there is no column 'logOffset'"),
        (StructField("queueId", LongType()), "map", "as bigint, but is int"),
        (StructField("properties", StringType()), "map", "is map<string,string>"),
        (StructField("properties", IntegerType()), "raw", "is string (with properties=raw)"),
        (StructField("properties", StringType()), "none", "use properties=map or raw"),
    ],
)
def test_wrong_column_is_refused_with_what_is_right(
    field: StructField, properties: PropertiesAs, told: str
) -> None:
    with pytest.raises(ColumnError) as caught:
        asked_columns(StructType([field]), properties)
    assert told in str(caught.value)


def test_schema_without_columns_is_refused_with_one_to_ask_for() -> None:
    with pytest.raises(ColumnError, match="queueOffset"):
        asked_columns(StructType([]))
