"""What mqadmin prints, made comparable, and the files that say what is expected of it.

A file has a section for each line that is typed: "$ " and the line, then what it prints.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "mqadmin"

_CHANGING: Final = [
    (re.compile(pattern, re.MULTILINE), stands_for)
    for pattern, stands_for in (
        (r"\d{1,3}(?:\.\d{1,3}){3}@[-\w#@]+", "CLIENT"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}:\d{2,5}\b", "ADDRESS"),
        (r"\b20\d\d-\d\d-\d\d[ T#]\d\d:\d\d:\d\d(?:[,:.]\d{3})?", "TIME"),
        (r"\b1[789]\d{11}\b", "TIME"),
        (r"\b[0-9A-F]{32,56}\b", "ID"),
        (r"__CRC32#=\d+(?:, )?", ""),
        (r"(CommitLog Offset: |commitLogOffset=|physicOffset=|@)\d+\b", r"\1PLACE"),
        (r"([sS]toreSize|physicSize)=\d+", r"\1=SIZE"),
        (r"\bV\d_\d+_\d+(?:_SNAPSHOT)?\b", "VERSION"),
        (r"-?\b\d+\.\d+(?:E-?\d+)?\b", "RATE"),
        (r"\b\d+ ?ms\b", "RATE ms"),
        (r"\bOK, \d+$", "OK, COUNT"),
        (r"; known are [\w., ]+$", "; known are SOME"),
    )
]
"""What is another one at each run. Whatever has a point is a rate, and depends on the time; places
in the log depend on all that was sent. Our records have a checksum, 20 bytes, as a property.
"""

_NOISE: Final = re.compile(
    r"^\s+at |^\s*\.\.\. \d+ (?:more|common frames)|^(?:For more|RocketMQLog|See http)|^\s*$"
)
"""Stack traces say where in the tool something failed, not what; pages of help have moved."""


def normalize(text: str, values: Mapping[str, str]) -> list[str]:
    """The lines of an output without what changes from run to run."""
    for name, value in sorted(values.items(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"{{{name}}}")
    lines = [line for line in text.splitlines() if not _NOISE.search(line)]
    text = "\n".join(" ".join(line.split()) for line in lines)
    for pattern, stands_for in _CHANGING:
        text = pattern.sub(stands_for, text)
    return text.splitlines()


def flatten(tree: object, way: str = "") -> Iterator[str]:
    """A line for each value of a JSON text, with the way to it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from flatten(value, f"{way}.{key}" if way else str(key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from flatten(value, f"{way}.{number}")
    else:
        yield f"{way} = {tree}"


def read_exported(path: Path) -> str:
    """What a command has written to a file of JSON, flattened."""
    text = re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', path.read_text())  # Java's keys may be numbers
    path.unlink()
    return "\n".join(flatten(json.loads(text)))


def apply(lines: list[str], filters: Iterable[str]) -> list[str]:
    """The lines that are left of an output; mqadmin_lines.py says what filters do."""
    for words in map(str.split, filters):
        match words:
            case ["grep", *wanted]:
                lines = [
                    line
                    for line in lines
                    if line.startswith("#") or any(word in line for word in wanted)
                ]
            case ["drop", word]:
                lines = [line for line in lines if word not in line]
            case ["digits"]:
                lines = [re.sub(r"\b\d+\b", "N", line) for line in lines]
            case ["sort"]:
                lines = sorted(lines)
            case ["keys"]:
                lines = [re.split(r"\s*[:=]", line)[0] for line in lines]
            case ["file", _] | ["until"] | ["endless"] | ["ours"] | ["4.9.7"] | ["5.5.0"]:
                pass
            case _:
                raise AssertionError(f"there is no filter {words}")
    return lines


def read_sections(path: Path) -> dict[str, list[str]]:
    """By the line that is typed, what is expected; nothing without a file."""
    sections: dict[str, list[str]] = {}
    if not path.exists():
        return sections
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            current = sections.setdefault(line[2:], [])
        else:
            current.append(line)
    return sections


def write_sections(path: Path, sections: Mapping[str, Iterable[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    text = "".join(
        f"$ {line}\n" + "".join(f"{shown}\n" for shown in output)
        for line, output in sections.items()
    )
    path.write_text(text)


def java_file(version: str) -> Path:
    """What Java's broker is told to say by its own tools."""
    return GOLDEN / f"{version}.txt"


def our_file(version: str) -> Path:
    """What is different with our broker; all else is the same."""
    return GOLDEN / f"{version}-ours.txt"


def split(line: str) -> tuple[str, list[str]]:
    """A line without its filters, and these."""
    typed, *filters = line.split(" | ")
    return typed, filters
