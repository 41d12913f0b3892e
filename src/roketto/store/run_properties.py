"""The property strings of messages that follow each other in the log: each, and one text of all.

An 02 stands between two strings in the text, as it does between two properties
(protocol/properties.py)::

    UNIQ_KEY 01 A1 02 WAIT 01 true  02  UNIQ_KEY 01 A2 02 WAIT 01 true

One look at the text says whether any message has what is looked for, and the index keeps it as it
is until it files a thousand messages at once.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

SEPARATOR: Final = b"\x02"

Longs = npt.NDArray[np.int64]


class RunProperties:
    """The strings, in the order of their messages.

    ``each_bytes`` is how long each of them is where all of them, and all records, are known to be
    of one length, else -1.
    """

    __slots__ = ("_text", "each", "each_bytes")

    def __init__(self, each: list[bytes], each_bytes: int = -1) -> None:
        self.each: list[bytes] = each
        self.each_bytes: int = each_bytes
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """All of them; made when it is asked for."""
        if self._text is None:
            self._text = SEPARATOR.join(self.each)
        return self._text


class Runs(NamedTuple):
    """Where texts of one and of many messages follow each other: which message is in which."""

    owners: Longs
    """Of each message, the place of the text that it is in."""
    lengths: Longs
    """Of each message, the bytes of its property string."""
