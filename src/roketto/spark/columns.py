"""The columns of a message as a Spark row: names, types, and which of them a query asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, get_args

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
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

__all__ = [
    "LOG_COLUMNS", "SOURCE_COLUMNS", "Column", "ColumnError", "PropertiesAs", "all_columns",
    "arrow_schema", "asked_columns", "ddl", "default_schema",
]  # fmt: skip

PropertiesAs = Literal["map", "raw", "none"]
"""What the option ``properties`` makes of that column: a map, the stored string, or no column."""

PROPERTIES: Final = "properties"
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_MAP: Final = pa.map_(pa.string(), pa.string())

SOURCE_COLUMNS: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "msgId": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "body": pa.binary(),
    "flag": pa.int32(),
    PROPERTIES: _MAP,
    "bornTimestamp": TIMESTAMP,
    "storeTimestamp": TIMESTAMP,
    "bornHost": pa.string(),
    "reconsumeTimes": pa.int32(),
}
"""Every row of every format has these, in this order, unless the user's schema says otherwise.

``msgId`` is the producer's id (UNIQ_KEY), or the broker's where a producer gave none. ``bornHost``
is ``address:port``. A compressed body comes unpacked.
"""

LOG_COLUMNS: Final[dict[str, pa.DataType]] = {
    "logOffset": pa.int64(),
    "storeSize": pa.int32(),
    "sysFlag": pa.int32(),
}
"""Where and how the log keeps a record; only for those who ask for them in a schema."""

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.binary(): BinaryType(),
    TIMESTAMP: TimestampType(),
    _MAP: MapType(StringType(), StringType()),
}


class ColumnError(ValueError):
    """The user's schema asks for a column that is not there, or with another type."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is asked for: its name, its Arrow type and whether Spark takes nulls in it.

    >>> Column("queueOffset", pa.int64())
    Column(name='queueOffset', type=DataType(int64), is_nullable=True)
    """

    name: str
    type: pa.DataType
    is_nullable: bool = True

    @property
    def field(self) -> pa.Field:
        """The column in an Arrow schema."""
        return pa.field(self.name, self.type, nullable=self.is_nullable)


def all_columns(properties: PropertiesAs = "map") -> list[Column]:
    """The columns of a query without a schema of its own."""
    return [Column(name, kind) for name, kind in _column_types(properties).items()]


def default_schema(properties: PropertiesAs = "map") -> StructType:
    """The schema of a query without one of its own."""
    types = _column_types(properties)
    return StructType([StructField(name, _SPARK_TYPES[kind]) for name, kind in types.items()])


def ddl(properties: PropertiesAs = "map") -> str:
    """The same as Spark's DDL text.

    >>> ddl("none")[:46]
    'topic string, brokerName string, queueId int, '
    """
    fields = default_schema(properties).fields
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)


def asked_columns(
    schema: StructType, properties: PropertiesAs = "map", more: Iterable[str] = ()
) -> list[Column]:
    """The columns of the user's schema, in its order; ColumnError names what cannot be had.

    ``more`` are names of LOG_COLUMNS that this format has, too. Types must be those of the tables
    above: Spark would otherwise read bytes as what they are not.
    """
    if not schema.fields:
        raise ColumnError("the schema has no column; leave it out, or ask for one: queueOffset")
    types = _column_types(properties)
    types.update({name: LOG_COLUMNS[name] for name in more})
    return [_asked_column(field, types, properties) for field in schema.fields]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of some columns, exactly as Spark compares the first batch with it."""
    return pa.schema([column.field for column in columns])


def _column_types(properties: PropertiesAs) -> dict[str, pa.DataType]:
    if properties not in get_args(PropertiesAs):
        raise ColumnError(
            f"properties={properties!r} is none of {', '.join(get_args(PropertiesAs))}"
        )
    types = dict(SOURCE_COLUMNS)
    if properties == "raw":
        types[PROPERTIES] = pa.string()
    elif properties == "none":
        del types[PROPERTIES]
    return types


def _asked_column(
    field: StructField, types: dict[str, pa.DataType], properties: PropertiesAs
) -> Column:
    wanted = types.get(field.name)
    if wanted is None:
        raise ColumnError(_unknown_column(field.name, types))
    right = _SPARK_TYPES[wanted]
    if _without_nulls(field.dataType) != _without_nulls(right):
        hint = f" (with properties={properties})" if field.name == PROPERTIES else ""
        raise ColumnError(
            f"column {field.name} is asked for as {field.dataType.simpleString()}, but is"
            f" {right.simpleString()}{hint}; ask for that, and cast it in the query"
        )
    # By Spark's own rule: a map may say that its values are never null.
    kind = to_arrow_type(field.dataType, timezone="UTC")
    return Column(field.name, kind, field.nullable)


def _unknown_column(name: str, types: dict[str, pa.DataType]) -> str:
    if name == PROPERTIES:
        return "column properties is not there with properties=none; use properties=map or raw"
    by_lower = {known.lower(): known for known in types}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"there is no column {name[:64]!r}{hint} Columns are {', '.join(types)}"


def _without_nulls(kind: DataType) -> DataType:
    if isinstance(kind, MapType):
        return MapType(kind.keyType, kind.valueType)
    return kind
