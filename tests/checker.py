"""The checker: compares what producers were told with what readers found, by seven rules.

1. Every ok value is there, at its acknowledged offset: else it is lost or moved.
2. Every value found was sent, and none that has failed: else it is a phantom.
3. Offsets of a queue have no gaps, and every reader finds the same value at the same offset.
4. A value is there no more often than it was sent.
5. A producer's values are in each queue in the order in which it sent them.
6. The logs of all replicas that have caught up are the same bytes up to the commit point.
7. Every group saw every value, and its consume offset never passed one that it had not seen.

It knows nothing of stores, brokers or networks; a test hands it the evidence of its producers and
what each reader found when it read all queues from the start::

    report = check(evidence, reads, logs=logs, commit=..., groups=groups, faults={"kill -9": 20})
    report.raise_if_bad()
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from evidence import Evidence, Outcome, Place, Send

_SHOWN_MAX: Final = 10
"""Problems of one kind that the text shows; all are counted."""

KINDS: Final = (
    "lost", "moved", "phantom", "gap", "differing", "duplicate", "out of order", "diverged",
    "unseen", "skipped",
)  # fmt: skip
"""What can be wrong; rules 1, 1, 2, 3, 3, 4, 5, 6, 7, 7."""


class Found(NamedTuple):
    """One message as a reader found it; ``message_id`` may be left empty, then nobody compares."""

    queue_offset: int | None
    value: str
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class QueueRead:
    """A queue as one reader (a replica, or the same one later) found it, from its first offset on.

    Whatever was acknowledged below ``first_offset`` has been removed on purpose. What has no place
    in a queue (offset None) is compared by value and id, in the order in which it was found.
    """

    reader: str
    queue: str
    found: Sequence[Found]
    first_offset: int = 0


class LogCopy(NamedTuple):
    """The bytes of a caught-up replica's log from ``start`` on."""

    reader: str
    start: int
    data: bytes | memoryview


class Saw(NamedTuple):
    """A group was given a message."""

    queue: str
    queue_offset: int
    value: str


class Committed(NamedTuple):
    """A group's consume offset was stored: all below counts as consumed."""

    queue: str
    consume_offset: int


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """What a group saw and committed, in order; ``starts`` is where it began, 0 without an entry.

    It must have seen all of ``queues`` that any reader found.
    """

    group: str
    queues: Sequence[str]
    events: Sequence[Saw | Committed]
    starts: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """The verdict, with its counts."""

    sent: int = 0
    ok: int = 0
    fail: int = 0
    unknown: int = 0
    read: int = 0
    """Messages found, by all readers together."""
    worst_gap: int = 0
    """The most offsets in a row that a reader missed in a queue."""
    faults: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """How many problems of each of KINDS."""
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, text: str) -> None:
        assert kind in KINDS, kind
        self.counts[kind] += 1
        shown = self.examples.setdefault(kind, [])
        if len(shown) < _SHOWN_MAX:
            shown.append(text)

    @property
    def lost(self) -> int:
        return self.counts["lost"]

    @property
    def is_good(self) -> bool:
        return not self.counts.total()

    def raise_if_bad(self, note: str = "") -> None:
        """AssertionError with the whole report; ``note`` says how to run it again: the seed."""
        if not self.is_good:
            raise AssertionError(f"{note}\n{self}".lstrip())

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults.items()) or "none"
        lines = [
            f"sent {self.sent}: ok {self.ok}, fail {self.fail}, unknown {self.unknown}",
            f"read {self.read}; worst gap {self.worst_gap}; faults: {faults}",
            ", ".join(f"{kind} {self.counts[kind]}" for kind in KINDS),
        ]
        for kind, shown in self.examples.items():
            lines += (f"  {kind}: {text}" for text in shown)
            if self.counts[kind] > len(shown):
                lines.append(f"  {kind}: and {self.counts[kind] - len(shown)} more")
        return "\n".join(lines)


def check(
    evidence: Evidence,
    reads: Iterable[QueueRead],
    *,
    logs: Sequence[LogCopy] = (),
    commit: int | None = None,
    groups: Iterable[GroupHistory] = (),
    faults: Mapping[str, int] | None = None,
) -> Report:
    """Apply all rules. ``commit`` is the log offset up to which ``logs`` must agree: all of them,
    to the end of the longest, if it is None."""
    report = Report(faults=dict(faults or {}))
    _count(report, evidence)
    by_value: dict[str, list[Send]] = {}
    for sent in evidence:
        by_value.setdefault(sent.value, []).append(sent)
    by_reader: dict[str, list[QueueRead]] = {}
    for read in reads:
        by_reader.setdefault(read.reader, []).append(read)
        report.read += len(read.found)
    assert by_reader, "nobody has read anything: nothing can be said"
    for reader, its_reads in by_reader.items():
        _check_presence(report, reader, its_reads, evidence)
        _check_values(report, reader, its_reads, by_value)
        for read in its_reads:
            _check_offsets(report, read)
            _check_order(report, read, by_value)
    _check_agreement(report, by_reader)
    _check_logs(report, logs, commit)
    for history in groups:
        _check_group(report, history, by_reader)
    return report


def _count(report: Report, evidence: Evidence) -> None:
    outcomes = Counter(sent.outcome for sent in evidence)
    report.sent = len(evidence)
    report.ok = outcomes[Outcome.OK]
    report.fail = outcomes[Outcome.FAIL]
    report.unknown = outcomes[Outcome.UNKNOWN]


# --- rules 1 to 5: one reader ---------------------------------------------------------------------


def _check_presence(
    report: Report, reader: str, reads: Sequence[QueueRead], evidence: Evidence
) -> None:
    """Rule 1."""
    where: dict[str, list[Place]] = {}
    first_offsets: dict[str, int] = {}
    for read in reads:
        first_offsets[read.queue] = read.first_offset
        for found in read.found:
            place = Place(read.queue, found.queue_offset, found.message_id)
            where.setdefault(found.value, []).append(place)
    for sent in evidence:
        told = sent.place
        if told is None:
            continue
        first_offset = first_offsets.get(told.queue, 0)
        if told.queue_offset is not None and told.queue_offset < first_offset:
            continue
        places = where.get(sent.value)
        if places is None:
            report.add("lost", f"{sent.value}, acknowledged at {told}, by {reader}")
        elif not any(_is_same(told, place) for place in places):
            found_at = ", ".join(map(str, places))
            report.add("moved", f"{sent.value} from {told} to {found_at}, by {reader}")


def _is_same(told: Place, place: Place) -> bool:
    if told[:2] != place[:2]:
        return False
    return not (told.message_id and place.message_id) or told.message_id == place.message_id


def _check_values(
    report: Report, reader: str, reads: Sequence[QueueRead], by_value: Mapping[str, list[Send]]
) -> None:
    """Rules 2 and 4."""
    times: Counter[str] = Counter(found.value for read in reads for found in read.found)
    for value, count in times.items():
        sends = by_value.get(value)
        if sends is None:
            report.add("phantom", f"{value} was never sent, found by {reader}")
            continue
        stored_max = sum(sent.outcome is not Outcome.FAIL for sent in sends)
        if not stored_max:
            report.add("phantom", f"{value} had failed, found by {reader}")
        elif count > stored_max:
            report.add(
                "duplicate", f"{value} is there {count} times, sent {stored_max}, by {reader}"
            )


def _check_offsets(report: Report, read: QueueRead) -> None:
    """Rule 3, for one reader."""
    expected = read.first_offset
    for found in read.found:
        if found.queue_offset is None:
            continue
        if found.queue_offset != expected:
            missing = found.queue_offset - expected
            report.worst_gap = max(report.worst_gap, missing)
            report.add(
                "gap",
                f"{read.queue} goes on with {found.queue_offset} instead of {expected},"
                f" by {read.reader}",
            )
        expected = found.queue_offset + 1


def _check_order(report: Report, read: QueueRead, by_value: Mapping[str, list[Send]]) -> None:
    """Rule 5. A value that was sent again may stand for any of its sends, so it says nothing."""
    newest: dict[str, Send] = {}
    for found in read.found:
        sends = by_value.get(found.value, ())
        if len(sends) != 1:
            continue
        sent = sends[0]
        before = newest.get(sent.producer)
        if before is not None and sent.number < before.number:
            report.add(
                "out of order",
                f"{sent.value} of {sent.producer} stands behind {before.value} in {read.queue},"
                f" by {read.reader}",
            )
        else:
            newest[sent.producer] = sent


# --- rules 3 and 6: readers against each other ----------------------------------------------------


def _check_agreement(report: Report, by_reader: Mapping[str, Sequence[QueueRead]]) -> None:
    """Rule 3, for all readers."""
    seen: dict[tuple[str, int], tuple[str, str]] = {}
    for reader, reads in by_reader.items():
        for read in reads:
            for found in read.found:
                if found.queue_offset is None:
                    continue
                value, other = seen.setdefault(
                    (read.queue, found.queue_offset), (found.value, reader)
                )
                if value != found.value:
                    report.add(
                        "differing",
                        f"{read.queue}@{found.queue_offset} is {value} for {other}"
                        f" and {found.value} for {reader}",
                    )


def _check_logs(report: Report, logs: Sequence[LogCopy], commit: int | None) -> None:
    """Rule 6: each copy against the one that goes furthest back, where both have bytes."""
    if not logs:
        return
    end = max(copy.start + len(copy.data) for copy in logs) if commit is None else commit
    oldest = min(logs, key=lambda copy: copy.start)
    for copy in logs:
        copy_end = copy.start + len(copy.data)
        if copy_end < end:
            report.add("diverged", f"the log of {copy.reader} ends at {copy_end}, not at {end}")
        at = _first_difference(oldest, copy, end)
        if at is not None:
            report.add(
                "diverged", f"the logs of {oldest.reader} and {copy.reader} differ at byte {at}"
            )


def _first_difference(left: LogCopy, right: LogCopy, end: int) -> int | None:
    start = max(left.start, right.start)
    end = min(end, left.start + len(left.data), right.start + len(right.data))
    ours = memoryview(left.data)[start - left.start : end - left.start]
    theirs = memoryview(right.data)[start - right.start : end - right.start]
    if ours == theirs:
        return None
    return start + next(n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)


# --- rule 7: groups -------------------------------------------------------------------------------


def _check_group(
    report: Report, history: GroupHistory, by_reader: Mapping[str, Sequence[QueueRead]]
) -> None:
    """Rule 7. What was seen counts from the moment on when it was seen."""
    seen: dict[str, set[int]] = {queue: set() for queue in history.queues}
    values: set[tuple[str, str]] = set()
    passed = {queue: history.starts.get(queue, 0) for queue in history.queues}
    for event in history.events:
        if isinstance(event, Saw):
            seen.setdefault(event.queue, set()).add(event.queue_offset)
            values.add((event.queue, event.value))
            continue
        begin = passed.get(event.queue, history.starts.get(event.queue, 0))
        unseen = [
            offset
            for offset in range(begin, event.consume_offset)
            if offset not in seen.get(event.queue, ())
        ]
        if unseen:
            report.add(
                "skipped",
                f"{history.group} committed {event.consume_offset} of {event.queue} before it had"
                f" seen {unseen[0]}" + (f" and {len(unseen) - 1} more" if unseen[1:] else ""),
            )
        passed[event.queue] = max(begin, event.consume_offset)
    missed: dict[tuple[str, int, str], None] = {}
    for reads in by_reader.values():
        for read in reads:
            if read.queue not in history.queues:
                continue
            start = history.starts.get(read.queue, 0)
            for found in read.found:
                if found.queue_offset is None or found.queue_offset < start:
                    continue
                if (read.queue, found.value) not in values:
                    missed[read.queue, found.queue_offset, found.value] = None
    for queue, offset, value in missed:
        report.add("unseen", f"{history.group} never saw {value} at {queue}@{offset}")
