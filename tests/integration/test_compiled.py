"""A wheel has the hot modules compiled where there is a C compiler, and works the same without."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHECKED = (
    "tests/unit/protocol/test_frame.py",
    "tests/unit/protocol/test_compact_header.py",
    "tests/unit/protocol/test_properties.py",
    "tests/unit/protocol/test_record.py",
    "tests/unit/protocol/test_javahash.py",
    "tests/unit/protocol/test_batch.py",
    "tests/unit/store/test_commitlog.py",
    "tests/unit/store/test_consumequeue.py",
    "tests/unit/store/test_index.py",
    "tests/unit/store/test_reading.py",
    "tests/unit/store/test_store.py",
    "tests/unit/store/test_stretch.py",
    "tests/unit/store/test_timer_log.py",
    "tests/unit/store/test_timer_wheel.py",
    "tests/fault/test_kill.py",
    "tests/fault/test_power_loss.py",
    "tests/fault/broker/test_stop.py",
    "tests/integration/test_broker_cli.py",
    "tests/integration/test_namesrv.py",
    "tests/integration/test_remoting.py",
)
"""What is run on the compiled modules: their own tests, kills and power losses, and the broker.

The unit tests of the broker use stand-ins for connections, which compiled code does not take.
"""

KILL_COMPILED = """
import asyncio, sys
from pathlib import Path
from fault.broker.test_kill import run_lives
for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
    folder = Path(sys.argv[1], flush)
    folder.mkdir()
    asyncio.run(run_lives(folder, flush, 3, seed=5, least=500))
"""
"""F1 and F2 for a broker of compiled modules, with fewer kills than in their own tests."""

SHOW_PLAIN = """
import importlib
from roketto.compiled import HOT_MODULES, is_compiled
assert is_compiled()
print(*[name for name in HOT_MODULES if importlib.import_module(name).__file__.endswith(".py")])
"""


def build_wheel(folder: Path, **environment: str) -> Path:
    """The wheel that pip makes of this tree, with what is installed here."""
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--wheel-dir", str(folder), str(ROOT)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def extensions_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith(".so")]


def test_without_a_compiler_the_wheel_is_for_every_platform(tmp_path: Path) -> None:
    """Nothing is compiled, nothing fails, and the same modules are there as plain Python."""
    wheel = build_wheel(tmp_path, CC="/there/is/no/compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not extensions_in(wheel)


@pytest.mark.long
@pytest.mark.timeout(2_400)
def test_compiled_modules_pass_their_own_tests(tmp_path: Path) -> None:
    """The wheel is unpacked, and the tests of its hot modules run on what was compiled."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    wheel = build_wheel(tmp_path / "wheel")
    assert "none-any" not in wheel.name
    package = tmp_path / "package"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT / 'tests'}"}
    which = subprocess.run(
        [sys.executable, "-c", SHOW_PLAIN],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not which.stdout.strip(), "these are not compiled"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider",
         "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"),
         *(str(ROOT / test) for test in CHECKED)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-1_000:]
    killed = subprocess.run(
        [sys.executable, "-c", KILL_COMPILED, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == 0, killed.stdout + killed.stderr[-3_000:]
    assert killed.stdout.count("3 x kill -9") == 2, killed.stdout
    print(killed.stdout)
