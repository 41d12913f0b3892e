"""The gate that refuses messages while the disk is full, and opens again by itself.

Two things close it, and each takes back only what it did:

* the disk is fuller than the warning ratio. It opens once cleaning, or somebody else, has brought
  the disk down to the ratio of forced cleaning; in between it stays as it is, as in Java;
* the system had no room for a file. It opens for a try at the next tick: whoever needs the room
  asks for it again, and closes it again if there is none. So a full disk costs one failed attempt
  a second, not one for each message.
"""

from pathlib import Path

__all__ = ["DiskGate"]


class DiskGate:
    """Whether messages are taken, as far as the disk decides. ``reason`` is None while it is open.

    gate.measure(path, used_percent, warning_percent=90, reopen_percent=85)    # at every tick
    gate.hold(str(error))                                                      # no room for a file
    gate.retry()                                                               # at every tick
    """

    __slots__ = ("_held", "_warning", "reason")

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why nothing is taken now: the path, how full it is, the bound and the remedy."""
        self._warning: str | None = None
        self._held: str | None = None

    def measure(
        self, path: Path, used_percent: int, *, warning_percent: int, reopen_percent: int
    ) -> None:
        """Take note of how full the disk of ``path`` is."""
        if used_percent <= min(warning_percent, reopen_percent):
            self._warning = None
        elif used_percent > warning_percent or self._warning is not None:
            self._warning = (
                f"the disk of {path} is {used_percent} % full, {warning_percent} % is the bound"
                " (diskSpaceWarningLevelRatio); messages are taken again at"
                f" {reopen_percent} % (diskSpaceCleanForciblyRatio): delete data or lower"
                " fileReservedTime"
            )
        self.reason = self._warning or self._held

    def hold(self, reason: str) -> None:
        """Close it until the next try: there was no room for something."""
        self._held = reason
        self.reason = self._warning or reason

    def retry(self) -> None:
        """Open it for a try, if it was held for want of room."""
        self._held = None
        self.reason = self._warning
