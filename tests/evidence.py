"""What a workload knows of its sends, written so that the kill of its process takes none of it.

One line per event, appended in one system call each; a line is in the kernel before the workload
goes on, and the last one may be torn::

    send VALUE PRODUCER QUEUE             written before the send: it may be stored from now on
    ok VALUE QUEUE OFFSET MESSAGE_ID      acknowledged; "-" for an offset where it has no place
    fail VALUE                            certainly not stored

A send without an outcome is unknown. Values are unique to a message; sending one again is a retry.
Words hold no blanks. A queue is any name that readers use, too: ``topic/3``.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

_NO_PLACE: Final = "-"


class Outcome(Enum):
    """What a producer was told of one send."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """Where a message is; an offset of None: it has none, an empty id: none is known."""

    queue: str
    queue_offset: int | None
    message_id: str = ""

    def __str__(self) -> str:
        return f"{self.queue}@{self.queue_offset} {self.message_id}".rstrip()


@dataclass(slots=True)
class Send:
    """One send. ``number`` counts all sends, in the order in which they began."""

    number: int
    value: str
    producer: str
    queue: str
    outcome: Outcome = Outcome.UNKNOWN
    place: Place | None = None


@dataclass(slots=True)
class Evidence:
    """All sends of a workload.

    evidence = Evidence()
    evidence.send("a", "producer-1", "T/0")
    evidence.ok("a", Place("T/0", 7, "0A00..."))       # or fail("a"), or nothing: unknown
    """

    sends: list[Send] = field(default_factory=list)
    _pending: dict[str, list[Send]] = field(default_factory=dict)

    def send(self, value: str, producer: str, queue: str) -> None:
        sent = Send(len(self.sends), value, producer, queue)
        self.sends.append(sent)
        self._pending.setdefault(value, []).append(sent)

    def ok(self, value: str, place: Place) -> None:
        sent = self._end(value, Outcome.OK)
        sent.place = place

    def fail(self, value: str) -> None:
        self._end(value, Outcome.FAIL)

    def _end(self, value: str, outcome: Outcome) -> Send:
        """The oldest send of this value without an outcome has this one."""
        pending = self._pending.get(value)
        assert pending, f"{outcome.value} for {value}, which nobody waits for"
        sent = pending.pop(0)
        sent.outcome = outcome
        if not pending:
            del self._pending[value]
        return sent

    def add_lines(self, text: bytes) -> None:
        """Take in what an EvidenceWriter has written; a torn last line does not count."""
        for line in text.split(b"\n")[:-1]:
            event, *words = line.decode().split(" ")
            if event == "send":
                self.send(*words)
            elif event == "ok":
                value, queue, offset, message_id = words
                place = None if offset == _NO_PLACE else int(offset)
                self.ok(value, Place(queue, place, message_id))
            elif event == "fail":
                self.fail(*words)
            else:
                raise ValueError(f"{line!r} is no evidence")

    def part(self, start: int) -> "Evidence":
        """The sends from ``start`` on, with what is known of them."""
        return Evidence(self.sends[start:])

    def __iter__(self) -> Iterator[Send]:
        return iter(self.sends)

    def __len__(self) -> int:
        return len(self.sends)


class EvidenceWriter:
    """Appends lines to a file, past which no acknowledgement may go."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, lines: Iterable[str]) -> None:
        """Hand the lines to the kernel, all at once."""
        text = "".join(f"{line}\n" for line in lines).encode()
        if text:
            written = os.write(self._descriptor, text)
            assert written == len(text), f"{written} of {len(text)} bytes of evidence written"

    def close(self) -> None:
        os.close(self._descriptor)


def send_line(value: str, producer: str, queue: str) -> str:
    return f"send {value} {producer} {queue}"


def ok_line(value: str, place: Place) -> str:
    offset = _NO_PLACE if place.queue_offset is None else place.queue_offset
    return f"ok {value} {place.queue} {offset} {place.message_id}"


def fail_line(value: str) -> str:
    return f"fail {value}"
