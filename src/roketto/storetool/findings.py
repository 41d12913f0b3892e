"""What is wrong or worth knowing in a store, each with its place: the findings of a check."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FINDINGS_KEPT_MAX: Final = 1_000
"""Findings that are kept and shown; the rest is counted. Whoever has more has one cause of them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check.

    Damage needs somebody's care. What is no damage is what a running or a crashed broker leaves
    behind, and what the next start puts right by itself.
    """

    kind: str
    """What it concerns: file, record, queue, index, table, checkpoint."""
    path: Path
    offset: int
    """The byte in the file."""
    text: str
    is_damage: bool = True

    def __str__(self) -> str:
        word = "damage" if self.is_damage else "note"
        return f"{word}: {self.path} at byte {self.offset}: {self.text}"


class Findings:
    """Takes findings as they come; ``tell`` sees each of the first, the rest is counted."""

    def __init__(
        self,
        tell: Callable[[Finding], None] | None = None,
        kept_max: int = FINDINGS_KEPT_MAX,
    ) -> None:
        self._tell = tell
        self._kept_max = kept_max
        self.kept: list[Finding] = []
        self.damages: Counter[str] = Counter()
        """How much damage by kind."""
        self.notes = 0

    def add(self, finding: Finding) -> None:
        if finding.is_damage:
            self.damages[finding.kind] += 1
        else:
            self.notes += 1
        if len(self.kept) < self._kept_max:
            self.kept.append(finding)
            if self._tell is not None:
                self._tell(finding)

    def damage(self, kind: str, path: Path, offset: int, text: str) -> None:
        self.add(Finding(kind, path, offset, text))

    def note(self, kind: str, path: Path, offset: int, text: str) -> None:
        self.add(Finding(kind, path, offset, text, is_damage=False))

    @property
    def is_clean(self) -> bool:
        return not self.damages

    @property
    def left_out(self) -> int:
        """How many were counted and not kept."""
        return self.damages.total() + self.notes - len(self.kept)
