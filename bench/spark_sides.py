"""The two sides of the Spark sections, a session and its broker each, asked for the same."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_servers import Server
from spark_process import SparkProcess, go_on, hold_still
from spark_sizes import TOPICS

ROKETTO: Final = "roketto"
KAFKA: Final = "kafka"

Job = dict[str, Any]

PLACED: Final = {ROKETTO: "queueId", KAFKA: "partition"}
"""The column by which a row says where it goes."""


class RowsMissingError(Exception):
    """A side has other rows than were written: its rates mean nothing."""


@dataclass(frozen=True, slots=True)
class Side(ABC):
    """A Spark session and the broker that it reads from and writes to."""

    name: str
    spark: SparkProcess
    pids: Sequence[int]
    """Of the session, the broker and what belongs to it."""

    @abstractmethod
    def source(self, topic: str) -> Job:
        """Read a topic from its beginning, all columns."""

    @abstractmethod
    def two_columns(self, topic: str) -> Job:
        """Read only the offset and the body."""

    @abstractmethod
    def bodies(self, topic: str) -> Job:
        """Read what a sink takes: the body, under the name that the sink knows it by."""

    @abstractmethod
    def sink(self, topic: str, delivery: str = "") -> Job:
        """Write to a topic."""

    @abstractmethod
    def make_topic(self, topic: str) -> None:
        """A topic with as many queues as TOPICS says."""

    @abstractmethod
    def rows_of(self, topic: str) -> int:
        """How many messages its queues have, as the broker says."""

    @property
    @abstractmethod
    def body(self) -> str:
        """The column that has the body."""

    def hold_still(self) -> None:
        for pid in self.pids:
            hold_still(pid)

    def go_on(self) -> None:
        for pid in reversed(self.pids):
            go_on(pid)

    def write(self, rows: Path, topic: str, *, placed: bool = False) -> float:
        """Write rows of Parquet through the sink; seconds. ``placed``: spread over the queues."""
        select = [f"body AS {self.body}"]
        if placed:
            select.append(f"cast(id % {TOPICS[topic]} AS int) AS {PLACED[self.name]}")
        source = {"format": "parquet", "options": {}, "path": str(rows), "select": select}
        seconds: float = self.spark.do("write", **{"from": source}, mode="append",
                                       **self.sink(topic))  # fmt: skip
        return seconds

    def check_rows(self, topic: str, wanted: int) -> None:
        """All that was written must be there, and nothing else."""
        if (found := self.rows_of(topic)) != wanted:
            raise RowsMissingError(f"{self.name}: {topic} has {found:,} rows instead of {wanted:,}")

    def check_read(self, job: Job, rows: int, body_bytes: int) -> None:
        """What a job reads must be exactly that; it warms the path up, too."""
        found = self.spark.do("count", **job, sized=self.body)
        if found != [rows, rows * body_bytes]:
            raise RowsMissingError(
                f"{self.name}: {job['format']} read {found[0]:,} rows with {found[1]:,} bytes"
                f" instead of {rows:,} with {rows * body_bytes:,}"
            )


@dataclass(frozen=True, slots=True)
class Ours(Side):
    """PySpark of this environment, our source and sink, our broker."""

    server: Server
    store: Path

    @property
    def body(self) -> str:
        return "body"

    def source(self, topic: str) -> Job:
        where = {"nameServer": self.server.name_server, "topic": topic}
        return {"format": "rocketmq", "options": {**where, "startingOffsets": "earliest"}}

    def two_columns(self, topic: str) -> Job:
        return {**self.source(topic), "schema": "queueOffset bigint, body binary"}

    def bodies(self, topic: str) -> Job:
        return {**self.source(topic), "schema": "body binary"}

    def scan(self, topic: str) -> Job:
        """Read the files of the store, past the broker."""
        return {
            "format": "rocketmq-store", "options": {"storePath": str(self.store), "topic": topic}
        }  # fmt: skip

    def sink(self, topic: str, delivery: str = "") -> Job:
        where = {"nameServer": self.server.name_server, "topic": topic}
        chosen = {"delivery": delivery} if delivery else {}
        return {"format": "rocketmq", "options": {**where, **chosen}}

    def make_topic(self, topic: str) -> None:
        self.server.create_topic(topic, TOPICS[topic])

    def rows_of(self, topic: str) -> int:
        return sum(self.server.queue_ends(topic, TOPICS[topic]))


@dataclass(frozen=True, slots=True)
class Kafka(Side):
    """PySpark of the peer's environment, Spark's own connector with its defaults, Kafka."""

    address: str

    @property
    def body(self) -> str:
        return "value"

    def source(self, topic: str) -> Job:
        where = {"kafka.bootstrap.servers": self.address, "subscribe": topic}
        return {"format": "kafka", "options": {**where, "startingOffsets": "earliest"}}

    def two_columns(self, topic: str) -> Job:
        return {**self.source(topic), "select": ["offset", "value"]}

    def bodies(self, topic: str) -> Job:
        return {**self.source(topic), "select": ["value"]}

    def sink(self, topic: str, delivery: str = "") -> Job:
        where = {"kafka.bootstrap.servers": self.address, "topic": topic}
        return {"format": "kafka", "options": where}

    def make_topic(self, topic: str) -> None:
        self.spark.do("make_kafka_topic", servers=self.address, topic=topic, queues=TOPICS[topic])

    def rows_of(self, topic: str) -> int:
        rows: int = self.spark.do("kafka_rows", servers=self.address, topic=topic)
        return rows
