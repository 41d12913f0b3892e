"""What the Spark sections share: both sides, started when first asked for, and filled alike."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from broker_servers import ROKETTO as OUR_KIND
from broker_servers import STORE, BrokerFailedError, Server
from interop.peer.java import Jdk, find_jdk
from servers import broker, name_server
from spark_kafka import connector, spark_python, start_kafka
from spark_process import start_spark
from spark_sides import KAFKA, ROKETTO, Kafka, Ours, Side
from spark_sizes import FEW_ROWS, FROM, ONE_QUEUE, READ, TOPICS, WAKE, Sizes

_FILES: Final = 8
_QUEUES: Final = 8
_BROKER: Final = {**STORE, "serverChannelMaxIdleTimeSeconds": "86400"}
"""Connections stay while a side is held still."""


class Rig:
    """Both sides in one folder that goes with them; Kafka's starts when a section asks for it.

    with Rig(Sizes()) as rig, rig.alone(rig.ours):
        rig.ours.spark.do("read", **rig.ours.source(READ))
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._jdk: Jdk = find_jdk()
        self._stack = ExitStack()
        self._sides: dict[str, Side] = {}
        self._ours: Ours | None = None
        self._streams = 0
        self.folder = Path()
        self.tokens_version: str | None = None
        """Of the helper that the peer's connector has; known when that was started."""

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(TemporaryDirectory(prefix="roketto-bench-"))
        self.folder = Path(folder)
        try:
            self.ours  # noqa: B018 (started now: it makes the rows)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for side in self._sides.values():
            side.go_on()  # a process that is held still does not end
        self._stack.close()

    @property
    def rows(self) -> Path:
        """The rows that both sides are filled with, as Parquet."""
        return self.folder / "rows"

    @property
    def ours(self) -> Ours:
        if self._ours is None:
            self._ours = self._start_ours()
            self._sides[ROKETTO] = self._ours
            for rows, name in (
                (self.sizes.rows, "rows"), (self.sizes.floor_rows, "few"),
                (self.sizes.wake_rows, "wake"),
            ):  # fmt: skip
                path = str(self.folder / name)
                self._ours.spark.do("make_rows", rows=rows, files=_FILES, path=path)
            self._fill(self._ours)
        return self._ours

    @property
    def kafka(self) -> Side:
        if KAFKA not in self._sides:
            self.ours.hold_still()
            try:
                self._sides[KAFKA] = self._start_kafka()
                self._fill(self._sides[KAFKA])
            finally:
                self.ours.go_on()
        return self._sides[KAFKA]

    @contextmanager
    def alone(self, side: Side) -> Iterator[None]:
        """Let only this side have the machine; it is awake when the block begins."""
        others = [other for other in self._sides.values() if other is not side]
        for other in others:
            other.hold_still()
        try:
            side.spark.do("read", **side.source(WAKE))
            yield
        finally:
            for other in others:
                other.go_on()

    def checkpoint(self) -> str:
        """A new place for what a stream keeps of itself."""
        self._streams += 1
        return str(self.folder / f"checkpoint-{self._streams}")

    def _start_ours(self) -> Ours:
        folder = self.folder / ROKETTO
        folder.mkdir()
        names = self._stack.enter_context(name_server(folder))
        try:
            ours = self._stack.enter_context(broker(folder, [names.address], _BROKER))
        except AssertionError as reason:
            raise BrokerFailedError(str(reason)) from None
        self._stack.callback(ours.popen.kill)  # its store goes with it
        server = Server(OUR_KIND, ours.address, names.address, ours.popen.pid, ours.start_s)
        self._stack.callback(server.close)
        spark = self._stack.enter_context(
            start_spark(ROKETTO, sys.executable, folder / "spark", {}, self._environment())
        )
        pids = [spark.pid, ours.popen.pid, names.popen.pid]
        return Ours(ROKETTO, spark, pids, server, folder / "store")

    def _start_kafka(self) -> Kafka:
        folder = self.folder / KAFKA
        python, found = spark_python(), connector(self._jdk)
        self.tokens_version = found.tokens_version
        kafka = self._stack.enter_context(start_kafka(self._jdk, folder, _QUEUES))
        config = {"spark.driver.extraClassPath": os.pathsep.join(map(str, found.jars))}
        environment = {**self._environment(), "PYTHONPATH": ""}
        spark = self._stack.enter_context(
            start_spark(KAFKA, python, folder / "spark", config, environment)
        )
        return Kafka(KAFKA, spark, [spark.pid, kafka[1]], kafka[0])

    def _environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return {**kept, "JAVA_HOME": str(self._jdk.home)}

    def _fill(self, side: Side) -> None:
        """The same rows in the same queues, through the side's own sink."""
        print(f"  ({side.name}: started, is being filled …)", flush=True)
        for topic in TOPICS:
            side.make_topic(topic)
        for _ in range(self.sizes.fills):
            side.write(self.rows, READ, placed=True)
        side.write(self.rows, FROM, placed=True)
        for topic, name in ((ONE_QUEUE, "few"), (FEW_ROWS, "few"), (WAKE, "wake")):
            side.write(self.folder / name, topic, placed=True)
        side.check_rows(READ, self.sizes.read_rows)
        side.check_rows(FROM, self.sizes.rows)
