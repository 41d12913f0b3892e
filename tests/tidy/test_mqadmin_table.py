"""The table of docs/mqadmin.md has every command, and says of each what was compared.

What commands show is compared by tests/interop/broker/test_mqadmin.py, with files that have what
Java's broker makes them show and, where that is another thing, what ours does.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from interop.broker.mqadmin_lines import VERSIONS, is_ours_only, lines, lines_for
from interop.broker.mqadmin_text import java_file, our_file, split
from interop.broker.mqadmin_text import read_sections as read

PAGE = Path(__file__).parents[2] / "docs" / "mqadmin.md"

SAME = "same"
DIFFERS = "differs because "
NOT_HERE = "does not apply because "
NOT_RUN = "not compared because "
ABSENT = "not there"
REFUSED = "is not served: "


@cache
def table() -> dict[str, dict[str, str]]:
    """By command and version, what the page says of it."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    found = {name: dict(zip(VERSIONS, cells, strict=True)) for name, *cells in rows}
    assert len(found) == len(rows), "a command is there twice"
    return found


@cache
def read_sections(path: Path) -> dict[str, list[str]]:
    return read(path)


def commands_of(version: str) -> list[str]:
    """What a version of mqadmin lists as its commands."""
    return read_sections(java_file(version))["help"]


def typed(version: str, command: str) -> list[str]:
    """The lines of a command."""
    found = lines_for(version, commands_of(version))
    return [line for line in found if line.split()[0] == command]


def test_every_command_has_its_row() -> None:
    """Those that any of the two versions has."""
    assert table().keys() == {name for version in VERSIONS for name in commands_of(version)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("command", sorted(table()))
def test_a_row_says_what_was_compared(command: str, version: str) -> None:
    """Same or not, refused or never typed: as the files have it."""
    said = table()[command][version]
    asked = typed(version, command)
    ours = [line for line in read_sections(our_file(version)) if line in asked]
    if said == SAME:
        assert asked
        assert not ours
    elif said.startswith(DIFFERS):
        assert ours
        assert not any(map(is_ours_only, ours))
    elif said.startswith(NOT_HERE):
        assert all(map(is_ours_only, asked))
        shown = read_sections(our_file(version))
        assert all(REFUSED in " ".join(shown[line]) for line in asked)
    elif said.startswith(NOT_RUN):
        assert not asked
    else:
        assert said == ABSENT
        assert command not in commands_of(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_else_is_written_down(version: str) -> None:
    """Every section is of a line that is typed, and every line that is typed has one."""
    java, ours = read_sections(java_file(version)), read_sections(our_file(version))
    asked = lines_for(version, commands_of(version))
    assert list(java) == ["help", *(line for line in asked if not is_ours_only(line))]
    assert [line for line in asked if is_ours_only(line)] == list(filter(is_ours_only, ours))
    assert ours.keys() <= set(asked)
    assert all(shown != java.get(line) for line, shown in ours.items())


@pytest.mark.parametrize(
    ("what", "bound"), [("keys", "Keys without their values"), ("digits", "No whole numbers")]
)
def test_the_page_says_of_what_only_a_part_is_compared(what: str, bound: str) -> None:
    """The commands whose lines have one of the filters that leave something out of each line."""
    named = re.search(rf"^- {bound}: (.*?)\.", PAGE.read_text(), re.MULTILINE)
    assert named is not None
    found = {line.split()[0] for line in lines() if what in split(line)[1]}
    assert re.findall(r"`(\w+)`", named[1]) == sorted(found)


def test_no_line_is_typed_twice() -> None:
    """It could only show one of two things."""
    assert len(lines()) == len(set(lines()))
