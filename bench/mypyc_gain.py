"""What compiling the hot modules with mypyc gives: the same appends and pulls, in turns.

The package is copied, and the modules on the way of a message are compiled in the copy, unchanged;
nothing is built where the sources are. It needs mypy, which ``./dev setup`` installs, and a C
compiler.
"""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from report import Report, medians
from roketto.compiled import HOT_MODULES
from store_append import READ_NAMES
from store_load import KINDS, QUEUES_PER_TOPIC, Kind, append_rate, prepare, read_rate
from store_process import StoreProcess, open_store, store_file
from store_sizes import QUICK, Sizes, scratch

_ROOT: Final = Path(__file__).resolve().parents[1]
_COMPILE: Final = (
    "import sys, pathlib, hatch_build; hatch_build.compile_into(pathlib.Path(sys.argv[1]))"
)
"""As a wheel is built: hatch_build.py knows the modules, and how they are compiled."""
_COMPILE_TIMEOUT_S: Final = 960


class CompilerMissingError(Exception):
    """mypyc or the C compiler is not here, or they refuse; the text says what to do."""


def measure_mypyc(*, quick: bool) -> dict[str, object]:
    """Compile, and let both builds take turns."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    report.begin("mypyc", f"{len(HOT_MODULES)} modules compiled with mypyc, against plain Python")
    with scratch() as folder:
        compile_package(folder)
        _compare(report, sizes, folder)
    return {"modules": list(HOT_MODULES), "figures": report.result}


def compile_package(folder: Path) -> None:
    """Copy the package into ``folder`` and compile its hot modules there."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, folder],
        cwd=_ROOT, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise CompilerMissingError("\n".join(["the modules are not compiled:", *said[-20:]]))


def _compare(report: Report, sizes: Sizes, packages: Path) -> None:
    reads: dict[tuple[Kind, bool], list[float]] = {}
    measured = [
        ((kind, compiled), partial(_one_round, kind, sizes, packages, compiled, reads))
        for kind in KINDS
        for compiled in (False, True)
    ]
    rates = medians(sizes.rounds, measured)
    for kind in KINDS:
        _report(report, kind.name, rates[kind, False], rates[kind, True])
    for kind in KINDS:
        plain, compiled = (sorted(reads[kind, build]) for build in (False, True))
        middle = len(plain) // 2
        _report(report, READ_NAMES[kind], plain[middle], compiled[middle])


def _report(report: Report, name: str, plain: float, compiled: float) -> None:
    report.add(f"plain: {name}", plain, "messages/s")
    report.add(f"compiled: {name}", compiled, "messages/s")
    report.add(f"compiled: {name}, ratio", compiled / plain, "x")


def _one_round(
    kind: Kind, sizes: Sizes, packages: Path, compiled: bool,
    reads: dict[tuple[Kind, bool], list[float]],
) -> float:  # fmt: skip
    build = packages if compiled else None
    with (
        scratch() as folder,
        StoreProcess(folder, sizes.settings, sizes.second_s, build) as process,
    ):
        loaded = Path(process.call(store_file))
        assert loaded.is_relative_to(packages) == compiled, f"the store is that of {loaded}"
        assert (loaded.suffix != ".py") == compiled, f"{loaded} is not what is to be measured"
        process.call(open_store)
        process.call(prepare, kind, QUEUES_PER_TOPIC, sizes.messages)
        rate = process.call(append_rate, kind, sizes.round_s)
        reads.setdefault((kind, compiled), []).append(process.call(read_rate, sizes.read_s))
        return rate
