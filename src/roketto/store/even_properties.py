"""The property strings of records that are all of one size: one text for all of them.

An 02 stands between two strings, as it does between two properties (protocol/properties.py)::

    UNIQ_KEY 01 A1 02 WAIT 01 true  02  UNIQ_KEY 01 A2 02 WAIT 01 true

Whoever looks for keys or tags looks at the whole text, and a string of its own is made for nobody
who does not ask.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

SEPARATOR: Final = 0x02

Longs = npt.NDArray[np.int64]


class EvenProperties:
    """``count`` strings of ``each_bytes`` in one ``text``."""

    __slots__ = ("count", "each_bytes", "text")

    def __init__(self, text: bytes, count: int, each_bytes: int) -> None:
        assert len(text) == count * (each_bytes + 1) - 1, (len(text), count, each_bytes)
        self.text: bytes = text
        self.count: int = count
        self.each_bytes: int = each_bytes

    def split(self) -> list[bytes]:
        """The strings."""
        text, each_bytes = self.text, self.each_bytes
        return [text[at : at + each_bytes] for at in range(0, len(text) + 1, each_bytes + 1)]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.split())


class Runs:
    """Where texts of single messages and of many follow each other: which message is in which."""

    __slots__ = ("_each_bytes", "_firsts", "_places", "_steps", "owners")

    def __init__(self, texts: int, runs: list[tuple[int, int, int, int]]) -> None:
        """``runs``: of each text with many messages its place, their count, and of each of these
        the bytes of its properties and of its record.
        """
        places, run_counts, each_bytes, steps = np.array(runs, np.int64).T
        counts = np.ones(texts, np.int64)
        counts[places] = run_counts
        self._places: Longs = places
        self._each_bytes: Longs = each_bytes
        self._steps: Longs = np.zeros(texts, np.int64)
        self._steps[places] = steps
        self._firsts: Longs = np.cumsum(counts) - counts
        self.owners: Longs = np.repeat(np.arange(texts), counts)
        """Of each message, the place of the text that it is in."""

    def lengths(self, lengths: Longs) -> Longs:
        """The lengths of all property strings, from those of the texts."""
        lengths = lengths.copy()
        lengths[self._places] = self._each_bytes
        return lengths[self.owners]

    def log_offsets(self, firsts: Longs) -> Longs:
        """The log offsets of all messages, from those of the first in each text."""
        owners = self.owners
        numbers = np.arange(owners.size) - self._firsts[owners]
        return firsts[owners] + numbers * self._steps[owners]
