"""Freed memory is kept where the C library can be told so, and nothing is asked for elsewhere."""

import subprocess
import sys

from roketto.allocator import KEPT_BYTES, find_mallopt, keep_freed_memory, raise_bounds

TRIM, MMAP = -1, -3


def test_both_bounds_are_raised_together() -> None:
    asked: list[tuple[int, int]] = []

    def mallopt(parameter: int, value: int) -> int:
        asked.append((parameter, value))
        return 1

    assert raise_bounds(mallopt)
    assert sorted(asked) == [(MMAP, KEPT_BYTES), (TRIM, KEPT_BYTES)]


def test_a_refusal_and_a_library_without_the_call_are_told() -> None:
    assert not raise_bounds(lambda parameter, value: 0)
    assert not keep_freed_memory("win32")
    assert find_mallopt("win32") is None


def test_a_whole_process_goes_on_with_it() -> None:
    """The real call, in a process of its own, for which it is for good."""
    script = (
        "from roketto.allocator import find_mallopt, keep_freed_memory\n"
        "import sys\n"
        "told = keep_freed_memory()\n"
        "assert told == (find_mallopt(sys.platform) is not None), told\n"
        "assert sum(bytearray(3_000_000)) == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
