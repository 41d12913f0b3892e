"""The columns that a sink takes, and which of them a DataFrame has."""

import difflib
from typing import Any, Final

from roketto.spark.sink_options import SinkError

__all__ = ["SINK_COLUMNS", "SinkSchema"]

_TEXT: Final = ("string",)
_NUMBER: Final = ("tinyint", "smallint", "int", "bigint")

SINK_COLUMNS: Final = {
    "body": ("binary", "string"),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": _TEXT,
    "properties": ("map<string,string>",),
    "shardingKey": _TEXT,
    "queueId": _NUMBER,
    "delayLevel": _NUMBER,
    "deliverTimestamp": ("timestamp", "bigint"),
    "flag": _NUMBER,
}
"""Column -> the types that it may have, as Spark writes them. Names count in any case."""


class SinkSchema:
    """Which column of the DataFrame is which of a message; it travels to executors.

    schema = SinkSchema(dataframe.schema, topic=None)      # SinkError if it cannot be written
    schema.columns_of(record_batch)["body"]
    """

    __slots__ = ("_places",)

    def __init__(self, schema: Any, topic: str | None) -> None:
        known = {name.lower(): name for name in SINK_COLUMNS}
        self._places: dict[str, int] = {}
        for place, column in enumerate(schema.fields):
            name = known.get(column.name.lower())
            if name is None:
                raise SinkError(_unknown(column.name, known))
            if name in self._places:
                raise SinkError(f"the rows have column {name} twice; leave one out")
            _check_type(name, column.dataType.simpleString())
            self._places[name] = place
        if "body" not in self._places:
            raise SinkError(
                "the rows have no column body, which a message needs: name one so, for example"
                " with selectExpr('to_json(struct(*)) AS body')"
            )
        if topic is None and "topic" not in self._places:
            raise SinkError(
                "where do the rows go? Give option topic, or let them have a column topic"
            )

    @property
    def is_ordered(self) -> bool:
        """Whether rows choose their queue, and so are to stay in order there."""
        return "shardingKey" in self._places or "queueId" in self._places

    def columns_of(self, batch: Any) -> dict[str, Any]:
        """The columns of a pyarrow.RecordBatch by what they are."""
        return {name: batch.column(place) for name, place in self._places.items()}


def _unknown(name: str, known: dict[str, str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if near:
        return (
            f"the rows have a column {name!r}, which a message has no place for; did you mean"
            f" {known[near[0]]!r}?"
        )
    return (
        f"the rows have a column {name!r}, which a message has no place for: select what it has of"
        f" {', '.join(SINK_COLUMNS)}"
    )


def _check_type(name: str, given: str) -> None:
    wanted = SINK_COLUMNS[name]
    if given not in wanted:
        raise SinkError(
            f"column {name} is {given}; it takes {' or '.join(wanted)}: cast it, for example with"
            f" CAST({name} AS {wanted[0]})"
        )
