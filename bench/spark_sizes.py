"""How large the Spark sections are: the real ones, and a first look."""

from dataclasses import dataclass
from typing import Final

BODY_BYTES: Final = 128

READ: Final = "BenchRead"
FROM: Final = "BenchFrom"
ONE_QUEUE: Final = "BenchOneQueue"
FEW_ROWS: Final = "BenchFewRows"
WAKE: Final = "BenchWake"
SUNK: Final = "BenchSunk"
COPIED: Final = "BenchCopied"
TOPICS: Final = {
    READ: 8, FROM: 8, ONE_QUEUE: 1, FEW_ROWS: 8, WAKE: 8, SUNK: 8, COPIED: 8,
}  # fmt: skip
"""Topics of both sides, and how many queues or partitions they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The defaults are the real ones."""

    rounds: int = 3
    rows: int = 1_000_000
    """Of the Parquet files that everything is filled from; of the sink, and of topic to topic."""
    fills: int = 2
    """How often these are in the topic that is read."""
    batch_rows: int = 1_000_000
    small_batch_rows: int = 100_000
    copy_batch_rows: int = 500_000
    floor_rows: int = 400
    """Of which ten are in a batch."""
    wake_rows: int = 8_000

    @property
    def read_rows(self) -> int:
        return self.rows * self.fills


QUICK: Final = Sizes(
    rounds=1,
    rows=20_000,
    batch_rows=20_000,
    small_batch_rows=5_000,
    copy_batch_rows=10_000,
    floor_rows=60,
    wake_rows=800,
)
