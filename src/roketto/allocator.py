"""What the C library does with memory that was freed.

A request of a megabyte takes several of them for a moment: what was received, its records, their
copy. glibc asks the system for each anew and gives it back right after, and so the system fills
every page with zeros before it is written to, again and again: a quarter of what a broker does with
batches of a Spark task. Kept, the same pages serve the next request.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Final

__all__ = ["KEPT_BYTES", "find_mallopt", "keep_freed_memory", "raise_bounds"]

KEPT_BYTES: Final = 32 * 1024 * 1024
"""The most that stays with the process when nobody uses it, and the least that is too large to come
from there. It is the most that glibc takes for the latter."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

Mallopt = Callable[[int, int], int]
"""Parameter and value; 0 if it was refused."""


def find_mallopt(platform: str) -> Mallopt | None:
    """The call that sets how memory is kept; None where the C library has no such.

    >>> find_mallopt("darwin") is None
    True
    """
    found: Mallopt | None = None
    if platform == "linux":
        found = getattr(ctypes.CDLL(None), "mallopt", None)
    return found


def keep_freed_memory(platform: str = sys.platform) -> bool:
    """Keep some of it for what comes next; whether that can be asked for here.

    It is for the whole process, so for programs to call and not for libraries.
    """
    mallopt = find_mallopt(platform)
    return mallopt is not None and raise_bounds(mallopt)


def raise_bounds(mallopt: Mallopt) -> bool:
    """Both together: one of them alone would give back what the other one keeps."""
    settings = (_MMAP_THRESHOLD, KEPT_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES)
    return all(mallopt(parameter, value) for parameter, value in settings)
