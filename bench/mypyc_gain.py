"""What compiling the hot modules with mypyc gives: the same appends and pulls, in turns.

The package is copied, and the modules on the way of a message are compiled in the copy, unchanged;
nothing is built where the sources are. It needs mypy, which ``./dev setup`` installs, and a C
compiler.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import roketto
from report import Report, medians
from store_append import READ_NAMES
from store_load import KINDS, QUEUES_PER_TOPIC, Kind, append_rate, prepare, read_rate
from store_process import StoreProcess, open_store, store_file
from store_sizes import QUICK, Sizes, scratch

PROTOCOL: Final = (
    "batch", "crc", "hosts", "ids", "javahash", "properties", "record", "record_layout", "tags",
    "utf8",
)  # fmt: skip
STORE: Final = (
    "batch_records", "commitlog", "consumequeue", "dispatch", "index", "indexfile", "keyhashes",
    "put_status", "queues", "reading", "record_check", "segment", "segments", "store", "waiting",
)  # fmt: skip
MODULES: Final = tuple(
    f"roketto/{package}/{name}.py"
    for package, names in (("protocol", PROTOCOL), ("store", STORE))
    for name in names
)

_COMPILE_TIMEOUT_S: Final = 600


class CompilerMissingError(Exception):
    """mypyc or the C compiler is not here, or they refuse; the text says what to do."""


def measure_mypyc(*, quick: bool) -> dict[str, object]:
    """Compile, and let both builds take turns."""
    report = Report()
    sizes = QUICK if quick else Sizes()
    report.begin("mypyc", f"{len(MODULES)} modules compiled with mypyc, against plain Python")
    with scratch() as folder:
        compile_package(folder, MODULES)
        _compare(report, sizes, folder)
    return {"modules": list(MODULES), "figures": report.result}


def compile_package(folder: Path, modules: Sequence[str]) -> None:
    """Copy the package into ``folder`` and compile these modules of it in place."""
    mypyc = Path(sys.executable).with_name("mypyc")
    if not mypyc.exists():
        raise CompilerMissingError(f"there is no {mypyc}: run ./dev setup")
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CompilerMissingError(f"there is no C compiler {compiler}: install gcc, or set CC")
    source = Path(roketto.__file__).parent
    shutil.copytree(
        source, folder / "roketto", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = True\n[mypy-lz4.*]\nignore_missing_imports = True\n"
    )
    done = subprocess.run(
        [mypyc, *modules],
        cwd=folder, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]
        raise CompilerMissingError("\n".join(["mypyc refuses:", *said[:20]]))


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
        process.call(open_store)
        process.call(prepare, kind, QUEUES_PER_TOPIC, sizes.messages)
        rate = process.call(append_rate, kind, sizes.round_s)
        reads.setdefault((kind, compiled), []).append(process.call(read_rate, sizes.read_s))
        return rate
