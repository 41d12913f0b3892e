"""The store by itself: what it promises, each in numbers, through its API and on a real disk."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from report import Report
from roketto.compiled import is_compiled
from store_append import measure_append
from store_flush import measure_flush
from store_queues import measure_queues
from store_recovery import measure_backlog, measure_rebuild
from store_sizes import QUICK, Sizes, file_system
from store_steps import measure_steps

SECTIONS: Final[dict[str, Callable[[Report, Sizes], None]]] = {
    "append": measure_append,
    "steps": measure_steps,
    "flush": measure_flush,
    "rebuild": measure_rebuild,
    "queues": measure_queues,
    "backlog": measure_backlog,
}
"""The backlog goes with the recovery: they share one store of 10 GiB."""


def measure_store(*, quick: bool, sections: Sequence[str] = ()) -> dict[str, object]:
    """Print what each section finds, and return all of it."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    disk = file_system(Path(gettempdir()).resolve())
    compiled = is_compiled()
    print(f"\nstore, in {gettempdir()} ({disk or 'file system unknown'}); TMPDIR says where")
    print(f"compiled: {compiled}", flush=True)
    for name in sections or SECTIONS:
        SECTIONS[name](report, sizes)
    return {"file_system": disk, "compiled": compiled, "figures": report.result}
