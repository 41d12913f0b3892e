"""How many transactions are open for each topic: ``config/transactionMetrics``.

Java counts up and down from what this file said at its start, so that it goes wrong with each kill.
Here the open transactions are found in the log at each start, and the file says what they are; it
is for operators, and for a broker of Java's that takes over the store.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import field

from roketto.clock import wall_ms
from roketto.protocol.bodies.base import Body, Long, encode_body
from roketto.protocol.bodies.topics import DataVersion
from roketto.store.files import Files
from roketto.store.table import Table
from roketto.store.unknown_members import merge_unknown

__all__ = ["TRANSACTION_METRICS_FILE", "TransactionMetricsTable"]

TRANSACTION_METRICS_FILE: Final = "transactionMetrics"


class TransactionMetric(Body):
    """The open transactions of one topic, and when their number last changed."""

    count: Long = 0
    time_stamp: Long = 0


class TransactionMetrics(Body):
    """The whole table."""

    data_version: DataVersion = field(default_factory=DataVersion)
    transaction_count: dict[str, TransactionMetric] = field(default_factory=dict)


class TransactionMetricsTable(Table[TransactionMetrics]):
    """Topic -> its open transactions. See ``Table``."""

    def __init__(
        self, files: Files, config: Path, *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        super().__init__(
            files, config / TRANSACTION_METRICS_FILE, TransactionMetrics, "transactionCount",
            clock_ms=clock_ms,
        )  # fmt: skip

    def text(self) -> bytes:
        """See ``Table.text``. Java writes this one without blanks."""
        return encode_body(merge_unknown(self._body, self._unknown))

    @property
    def counts(self) -> Mapping[str, int]:
        """What the file says."""
        return {topic: found.count for topic, found in self._body.transaction_count.items()}

    def note(self, counts: Mapping[str, int]) -> None:
        """These are open; a topic that has had some stays, with none."""
        table = self._body.transaction_count
        for topic in {**table, **counts}:
            count = counts.get(topic, 0)
            found = table.get(topic)
            if found is None or found.count != count:
                table[topic] = TransactionMetric(count, self._clock_ms())
                self._change()
