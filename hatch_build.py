"""Build hook: compile the hot modules with mypyc where there is a C compiler, else go on without.

A wheel with compiled modules is for one Python on one platform; without, it is for all. The source
is the same, and so is what it does. ``ROKETTO_PURE=1`` asks for the second kind.
"""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src" / "roketto"
COMPILE_S_MAX = 1_500


class CompileError(Exception):
    """The modules were not compiled; the text says why."""


def hot_modules() -> list[str]:
    """HOT_MODULES of roketto/compiled.py, read without importing the package."""
    for node in ast.parse((SOURCE / "compiled.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "HOT_MODULES":
            assert node.value is not None
            return list(ast.literal_eval(node.value))
    raise CompileError("roketto/compiled.py has no HOT_MODULES")


def compile_into(folder: Path) -> list[Path]:
    """Copy the package to ``folder`` and compile the hot modules there; the files made by that."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CompileError(f"there is no C compiler {compiler}: install gcc, or set CC")
    shutil.copytree(
        SOURCE, folder / "roketto", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    (folder / "mypy.ini").write_text("[mypy]\nstrict = True\nignore_missing_imports = True\n")
    # Each module is an extension of a few lines beside the one that has all of the code.
    (folder / "setup.cfg").write_text(f"[build_ext]\nparallel = {os.cpu_count() or 1}\n")
    sources = [f"{module.replace('.', '/')}.py" for module in hot_modules()]
    done = subprocess.run(
        [sys.executable, "-m", "mypyc", *sources],
        cwd=folder, env=compile_environment(),
        capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise CompileError("\n".join(["mypyc refuses:", *said[-20:]]))
    shutil.rmtree(folder / "build", ignore_errors=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return sorted(path.relative_to(folder) for path in folder.rglob(f"*{suffix}"))


def compile_environment() -> dict[str, str]:
    """The caller's, in which ``MYPYC_OPT_LEVEL`` and ``CFLAGS`` are obeyed.

    Warnings about half a million lines that a program has written help nobody, and looking for them
    takes gcc as long as the whole rest of an optimised build.
    """
    flags = f"{os.environ.get('CFLAGS', '')} -w".strip()
    return {"MYPYC_OPT_LEVEL": "3", **os.environ, "CFLAGS": flags}


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """What hatchling calls when it builds a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("ROKETTO_PURE") == "1":
            return
        self._folder = tempfile.mkdtemp(prefix="roketto-build-")
        try:
            compiled = compile_into(Path(self._folder))
        except (CompileError, OSError, subprocess.TimeoutExpired) as error:
            self.app.display_warning(f"roketto is built without compiled modules: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in compiled:
            build_data["force_include"][str(Path(self._folder) / path)] = str(path)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if folder := getattr(self, "_folder", None):
            shutil.rmtree(folder, ignore_errors=True)
