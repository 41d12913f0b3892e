"""Golden frames: one line of JSON each, sorted, so that a new capture shows as a small change."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from .recorder import Recorded

DIRECTORY: Final = Path(__file__).resolve().parent.parent.parent / "golden" / "frames"

FRAME_BYTES_MAX: Final = 16 * 1024
"""Larger ones (thread dumps, full configurations) show nothing more and would fill the files."""

KEPT_PER_KIND: Final = 3
"""Frames kept of those that agree in all of `_kind`."""


@dataclass(frozen=True, slots=True)
class GoldenFrame:
    """A frame that a real peer sent; `request_code` is of the request that it is or answers."""

    name: str
    direction: str
    serialization: str
    link: str
    request_code: int
    code: int
    frame: bytes


def read_golden(version: str) -> list[GoldenFrame]:
    """Read the frames that were captured from that version of the peer."""
    lines = (DIRECTORY / f"{version}.jsonl").read_text().splitlines()
    frames = []
    for line in lines:
        values = json.loads(line)
        frames.append(GoldenFrame(**{**values, "frame": base64.b64decode(values["frame"])}))
    return frames


def write_golden(version: str, frames: Iterable[GoldenFrame]) -> Path:
    """Write the frames of that version of the peer, in place of those kept before."""
    path = DIRECTORY / f"{version}.jsonl"
    with path.open("w") as lines:
        for frame in frames:
            values = {**asdict(frame), "frame": base64.b64encode(frame.frame).decode()}
            lines.write(json.dumps(values) + "\n")
    return path


def select(recorded: Iterable[Recorded], names: Mapping[int, str]) -> list[GoldenFrame]:
    """Keep a few frames of every kind: of different shapes, and the smallest of each."""
    kinds: dict[tuple[str, str, int, int], list[Recorded]] = defaultdict(list)
    for one in sorted(recorded, key=lambda one: (len(one.frame), one.frame)):
        if len(one.frame) <= FRAME_BYTES_MAX:
            kinds[_kind(one)].append(one)
    chosen = []
    for (serialization, direction, request_code, code), candidates in sorted(kinds.items()):
        label = names.get(request_code, f"CODE_{request_code}")
        for number, one in enumerate(_different(candidates), 1):
            name = f"{label}.{direction}.{code}.{serialization}.{number}"
            frame = GoldenFrame(
                name, direction, serialization, one.link, request_code, code, one.frame
            )
            chosen.append(frame)
    return chosen


def _kind(one: Recorded) -> tuple[str, str, int, int]:
    direction = "response" if one.view.is_response else "request"
    return one.view.serialization, direction, one.request_code, one.view.code


def _different(candidates: list[Recorded]) -> list[Recorded]:
    """The first of every shape; candidates come smallest first."""
    shapes: dict[tuple[object, ...], Recorded] = {}
    for one in candidates:
        shape = (one.link, one.view.flag, one.view.fields, bool(one.view.body))
        shapes.setdefault(shape, one)
    return list(shapes.values())[:KEPT_PER_KIND]
