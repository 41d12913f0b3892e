"""The hot modules of the protocol can be compiled by mypyc as they are, and work the same then."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOT = ("errors", "limits", "frame", "compact_header", "command", "utf8", "crc", "properties",
       "record_layout", "record", "javahash")  # fmt: skip
"""On the way of every message. They run uncompiled; this keeps the other way open."""

CHECKED = ("frame", "compact_header", "command", "properties", "record", "javahash")


@pytest.mark.timeout(600)
def test_hot_modules_compile_unchanged_and_pass_their_own_tests(tmp_path: Path) -> None:
    """mypyc turns them into extension modules, and their unit tests run on those."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    shutil.copytree(ROOT / "src" / "roketto", tmp_path / "roketto")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = True\n[mypy-lz4.*]\nignore_missing_imports = True\n"
    )
    sources = [f"roketto/protocol/{name}.py" for name in HOT]
    compiled = subprocess.run(
        [sys.executable, "-m", "mypyc", *sources],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    for name in HOT:
        assert list((tmp_path / "roketto" / "protocol").glob(f"{name}.*.so")), (
            f"{name} is not compiled"
        )
    tests = [str(ROOT / "tests" / "unit" / "protocol" / f"test_{name}.py") for name in CHECKED]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT),
         "-c", str(ROOT / "pyproject.toml"), *tests],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3_000:]
    where = subprocess.run(
        [sys.executable, "-c", "import roketto.protocol.command as c; print(c.__file__)"],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.strip().endswith(".so"), "the tests did not run on the compiled modules"
