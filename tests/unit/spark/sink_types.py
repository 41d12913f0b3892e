"""Schemas by words: Spark reads DDL only with a session."""

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def struct(**kinds: str) -> StructType:
    """``struct(keys="string", body="binary")``."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in kinds.items()])
