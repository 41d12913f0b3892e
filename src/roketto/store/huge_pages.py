"""The memory of the process in huge pages, where there are thousands of queues.

What an append needs of its queue then lies in another page than what the last one needed, and more
pages are in use than the processor remembers the places of: on a virtual machine it takes up to a
tenth of an append to look for them. A huge page takes the place of 512.

Linux is asked, once more after each round in which many queues were written, to put together what
is there by then. Whoever wants none sets ``/sys/kernel/mm/transparent_hugepage/enabled`` to never.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

__all__ = ["collapse", "find_madvise", "whole_pages"]

_SYSTEM: Final = Path("/sys/kernel/mm/transparent_hugepage")
_MAPS: Final = Path("/proc/self/maps")
_MADV_COLLAPSE: Final = 25
"""Since Linux 6.1."""

Advise = Callable[[int, int, int], int]
"""madvise: address, length, advice; 0 if it was taken."""


def find_madvise(platform: str) -> Advise | None:
    """The call that tells the system what memory is for; None where it has no huge pages.

    >>> find_madvise("darwin") is None
    True
    """
    if platform != "linux":
        return None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    found: Advise = madvise
    return found


_MADVISE: Final = find_madvise(sys.platform)


def collapse(system: Path = _SYSTEM, maps: Path = _MAPS, madvise: Advise | None = _MADVISE) -> int:
    """Put the memory of this process into huge pages; how many bytes are in such now.

    0 where the system cannot, or was told not to. It takes a fraction of a millisecond for each new
    one: for a thread that nobody waits for.
    """
    if madvise is None:
        return 0
    try:
        if "[never]" in (system / "enabled").read_text():
            return 0
        page_bytes = int((system / "hpage_pmd_size").read_text())
        lines = maps.read_text().splitlines()
    except (OSError, ValueError):
        return 0
    collapsed = 0
    for begin, end in whole_pages(lines, page_bytes):
        if madvise(begin, end - begin, _MADV_COLLAPSE) == 0:
            collapsed += end - begin
    return collapsed


def whole_pages(lines: Iterable[str], page_bytes: int) -> list[tuple[int, int]]:
    """The huge pages that lie within memory of the interpreter, by the system's list of maps.

    Not those of files, nor of stacks, of which little is in use: a guard page lies below each.

    >>> whole_pages(["1ff000-700000 rw-p 00000000 00:00 0 "], 0x200000)
    [(2097152, 6291456)]
    """
    found = []
    guard_end = -1
    for line in lines:
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in span.split("-"))
        if rights == "---p":
            guard_end = end
        elif rights == "rw-p" and begin != guard_end and (not name or name[0] == "[heap]"):
            first = begin + -begin % page_bytes
            last = end - end % page_bytes
            if first < last:
                found.append((first, last))
    return found
