"""Proves that memory of the interpreter, and nothing else, is put into huge pages."""

import re
from pathlib import Path

import pytest

from roketto.store.huge_pages import collapse, find_madvise, whole_pages

PAGE = 2 << 20
MAPS = """\
00400000-00c00000 r-xp 00000000 fe:00 1234                               /usr/bin/python3
00c00000-01400000 rw-p 00800000 fe:00 1234                               /usr/bin/python3
02000000-02a00000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000801000 rw-p 00000000 00:00 0
7f0000900000-7f0000e00000 rw-p 00000000 00:00 0 \n\
7f0001000000-7f0001100000 rw-p 00000000 00:00 0
7f0002000000-7f0042000000 rw-s 00000000 fe:00 99                         /store/commitlog/0
7ffc00000000-7ffc00800000 rw-p 00000000 00:00 0                          [stack]
"""
EXPECTED = [(0x2000000, 0x2A00000), (0x7F0000A00000, 0x7F0000E00000)]


class System:
    """What Linux says of itself, and what it was asked for."""

    def __init__(self, folder: Path, enabled: str = "always [madvise] never") -> None:
        self.folder = folder
        self.asked: list[tuple[int, int, int]] = []
        self.answers: list[int] = []
        (folder / "enabled").write_text(f"{enabled}\n")
        (folder / "hpage_pmd_size").write_text(f"{PAGE}\n")
        (folder / "maps").write_text(MAPS)

    def madvise(self, begin: int, length: int, advice: int) -> int:
        self.asked.append((begin, begin + length, advice))
        return self.answers.pop() if self.answers else 0

    def collapse(self) -> int:
        return collapse(self.folder, self.folder / "maps", self.madvise)


def test_whole_pages_are_those_of_the_heap_and_of_nameless_memory() -> None:
    """Stacks have a guard page below them; a megabyte has no huge page in it."""
    assert whole_pages(MAPS.splitlines(), PAGE) == EXPECTED


def test_each_piece_of_memory_is_asked_for(tmp_path: Path) -> None:
    system = System(tmp_path)
    assert system.collapse() == sum(end - begin for begin, end in EXPECTED)
    assert system.asked == [(begin, end, 25) for begin, end in EXPECTED]


def test_what_the_system_refuses_does_not_count(tmp_path: Path) -> None:
    system = System(tmp_path)
    system.answers = [-1]
    assert system.collapse() == EXPECTED[1][1] - EXPECTED[1][0]


def test_whoever_wants_none_gets_none(tmp_path: Path) -> None:
    system = System(tmp_path, "always madvise [never]")
    assert system.collapse() == 0
    assert not system.asked


@pytest.mark.parametrize("missing", ["enabled", "hpage_pmd_size", "maps"])
def test_a_system_that_does_not_say_is_left_alone(tmp_path: Path, missing: str) -> None:
    system = System(tmp_path)
    (tmp_path / missing).unlink()
    assert system.collapse() == 0
    assert not system.asked


def test_a_size_that_is_no_number_is_none(tmp_path: Path) -> None:
    system = System(tmp_path)
    (tmp_path / "hpage_pmd_size").write_text("?")
    assert system.collapse() == 0


def test_other_systems_have_none(tmp_path: Path) -> None:
    system = System(tmp_path)
    assert find_madvise("darwin") is None
    assert collapse(system.folder, system.folder / "maps", None) == 0


def test_memory_is_the_same_afterwards() -> None:
    """The real call, on the memory of this very process; where it works, the system counts it."""
    kept = [bytes([number]) * (8 << 20) for number in range(3)]
    collapsed = collapse()
    assert [set(piece) for piece in kept] == [{0}, {1}, {2}]
    if collapsed:
        rollup = Path("/proc/self/smaps_rollup").read_text()
        found = re.search(r"^AnonHugePages: +(\d+) kB$", rollup, re.MULTILINE)
        assert found is not None
        assert int(found[1]) * 1024 >= PAGE
