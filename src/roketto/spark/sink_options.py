"""What a writer is told: where rows go, how surely, and how much is under way at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roketto.client.errors import ClientError
from roketto.client.sendable import check_sendable
from roketto.protocol.errors import IllegalNameError
from roketto.protocol.limits import MESSAGE_BYTES_MAX
from roketto.protocol.names import check_group
from roketto.spark.options import (
    CONNECTION_OPTIONS,
    SPARK_OPTIONS,
    ConnectionOptions,
    OptionError,
    OptionValues,
)

__all__ = [
    "AT_LEAST_ONCE", "IDEMPOTENT", "SINK_OPTIONS", "TRANSACTIONAL", "SinkError", "SinkOptions",
]  # fmt: skip

AT_LEAST_ONCE: Final = "at-least-once"
IDEMPOTENT: Final = "idempotent"
TRANSACTIONAL: Final = "transactional"

SINK_OPTIONS: Final = (
    "topic", "delivery", "sinkId", "batchId", "batchBytes", "inFlight", "sendTimeoutMs", "retries",
    "producerGroup",
)  # fmt: skip
"""What the sink takes besides CONNECTION_OPTIONS."""

_WHAT: Final = "rocketmq sink"
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_BYTES_MIN: Final = 1024
_IN_FLIGHT: Final = 4
_IN_FLIGHT_MAX: Final = 64
_SEND_TIMEOUT_MS: Final = 120_000
"""A broker that is started again after a crash with much to look through takes a minute or so."""
_SEND_TIMEOUT_MS_MAX: Final = 3_600_000
_RETRIES: Final = 1_000
"""More than fit the time: unless a user says otherwise, time alone is the bound."""
_RETRIES_MAX: Final = 1_000_000
_SINK_ID_CHARS_MAX: Final = 100
"""A topic of Java's brokers has it in its name, and these take 127 characters."""
_GROUP: Final = "roketto-spark-sink"


class SinkError(Exception):
    """Rows that cannot be written, or were not; the text says which, why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one write: plain values that travel to executors.

    options = SinkOptions.of({"nameServer": "10.0.0.5:9876", "topic": "Orders"})
    """

    connection: ConnectionOptions
    topic: str | None = None
    """Where all rows go; without it a column says so for each."""
    delivery: str = AT_LEAST_ONCE
    """As with Spark's Kafka sink the default: at-least-once, idempotent or transactional."""
    sink_id: str | None = None
    """Whom brokers know by what was written; by default a stream's query id."""
    batch_id: int | None = None
    """Of a batch write that may be repeated; streams have their own."""
    batch_bytes: int = _BATCH_BYTES
    """The most that one request carries."""
    in_flight: int = _IN_FLIGHT
    """Requests of one task without an answer, for each broker."""
    send_timeout_ms: int = _SEND_TIMEOUT_MS
    """How long one request is tried again, while brokers are away or busy."""
    retries: int = _RETRIES
    """How often, after the first time."""
    producer_group: str = _GROUP

    @classmethod
    def of(
        cls, given: Mapping[str, str], environment: Mapping[str, str] | None = None
    ) -> "SinkOptions":
        """What a user's options say; OptionError for one that is unknown or wrong."""
        values = OptionValues(given, (*CONNECTION_OPTIONS, *SINK_OPTIONS), _WHAT, SPARK_OPTIONS)
        return cls(
            connection=ConnectionOptions.of(values, environment),
            topic=_topic(values),
            delivery=values.choice(
                "delivery", (AT_LEAST_ONCE, IDEMPOTENT, TRANSACTIONAL), AT_LEAST_ONCE
            ),
            sink_id=_sink_id(values),
            batch_id=values.maybe_number("batchId"),
            batch_bytes=values.number(
                "batchBytes", _BATCH_BYTES, _BATCH_BYTES_MIN, MESSAGE_BYTES_MAX
            ),
            in_flight=values.number("inFlight", _IN_FLIGHT, 1, _IN_FLIGHT_MAX),
            send_timeout_ms=values.number(
                "sendTimeoutMs", _SEND_TIMEOUT_MS, 1, _SEND_TIMEOUT_MS_MAX
            ),
            retries=values.number("retries", _RETRIES, 0, _RETRIES_MAX),
            producer_group=_group(values),
        )


def _topic(values: OptionValues) -> str | None:
    if not values.has("topic"):
        return None
    topic = values.text("topic")
    try:
        check_sendable(topic)
    except ClientError as error:
        raise values.error("topic", topic, str(error)) from error
    return topic


def _sink_id(values: OptionValues) -> str | None:
    if not values.has("sinkId"):
        return None
    sink_id = values.text("sinkId")
    is_plain = all(char.isascii() and (char.isalnum() or char in "-_") for char in sink_id)
    if not is_plain or len(sink_id) > _SINK_ID_CHARS_MAX:
        raise values.error(
            "sinkId", sink_id,
            f"write up to {_SINK_ID_CHARS_MAX} letters, digits, - and _",
        )  # fmt: skip
    return sink_id


def _group(values: OptionValues) -> str:
    group = values.text("producerGroup", _GROUP)
    try:
        check_group(group)
    except IllegalNameError as error:
        raise OptionError(f"{_WHAT}: option producerGroup: {error.reason}") from error
    return group
