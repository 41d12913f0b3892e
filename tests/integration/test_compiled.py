"""A wheel has the hot modules compiled where there is a C compiler, and works the same without."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from patience import LateError

ROOT = Path(__file__).parents[2]

CHECKED = (
    "tests/unit/protocol/test_frame.py",
    "tests/unit/protocol/test_compact_header.py",
    "tests/unit/protocol/test_properties.py",
    "tests/unit/protocol/test_record.py",
    "tests/unit/protocol/test_javahash.py",
    "tests/unit/protocol/test_batch.py",
    "tests/unit/broker/test_dedup_window.py",
    "tests/unit/broker/test_id_table.py",
    "tests/unit/store/test_commitlog.py",
    "tests/unit/store/test_consumequeue.py",
    "tests/unit/store/test_index.py",
    "tests/unit/store/test_reading.py",
    "tests/unit/store/test_store.py",
    "tests/unit/store/test_stretch.py",
    "tests/unit/store/test_timer_log.py",
    "tests/unit/store/test_timer_wheel.py",
    "tests/unit/store/test_unit_blocks.py",
    "tests/unit/client/test_calls.py",
    "tests/unit/client/test_delivery.py",
    "tests/unit/client/test_listeners.py",
    "tests/unit/client/test_permits.py",
    "tests/unit/client/test_portal.py",
    "tests/unit/client/test_received.py",
    "tests/unit/client/test_sending.py",
    "tests/unit/client/test_pulling.py",
    "tests/unit/client/test_lite_stock.py",
    "tests/unit/client/test_pull_loop.py",
    "tests/unit/client/test_orderly.py",
    "tests/unit/client/test_owned_queue.py",
    "tests/integration/client/test_producer.py",
    "tests/integration/client/test_push.py",
    "tests/integration/client/test_push_order.py",
    "tests/integration/client/test_lite_pull.py",
    "tests/integration/client/test_blocking.py",
    "tests/fault/client/test_consume_kill.py::test_groups_skip_nothing_through_kills",
    "tests/fault/test_kill.py",
    "tests/fault/test_power_loss.py",
    "tests/fault/broker/test_stop.py",
    "tests/integration/test_broker_cli.py",
    "tests/integration/test_namesrv.py",
    "tests/integration/test_remoting.py",
)
"""What is run on the compiled modules: their own tests, kills and power losses, and the broker.

The unit tests of the broker use stand-ins for connections, which compiled code does not take; nor
can bugs be planted in it.
"""

SHOWN_CHARS = 5_000

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

SEND_AND_PULL = """
import asyncio, sys
from pathlib import Path
import roketto
from fault.broker.site import Site
from fault.broker.wire import Queue, connected, pull, send
from roketto.compiled import is_compiled

async def main():
    with Site(Path(sys.argv[1])) as site:
        site.start()
        async with connected(site.address) as connection:
            await send(connection, Queue("T", 0), b"two", {})
            (record,) = await pull(connection, Queue("T", 0))
        site.stop()
    print(roketto.__file__, bytes(record.body).decode())

assert not is_compiled()
asyncio.run(main())
"""
"""The broker is a process of its own, of the same package as this one."""

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
    """Nothing is compiled, nothing fails, and its broker takes a message and gives it back."""
    wheel = build_wheel(tmp_path, CC="/there/is/no/compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not extensions_in(wheel)
    sent = subprocess.run(
        [sys.executable, "-c", SEND_AND_PULL, str(tmp_path)],
        cwd=tmp_path, env=unpacked(wheel, tmp_path / "package"), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr[-SHOWN_CHARS:]
    assert sent.stdout.split() == [str(tmp_path / "package" / "roketto" / "__init__.py"), "two"]


def unpacked(wheel: Path, package: Path) -> dict[str, str]:
    """The environment in which Roketto is what is in a wheel, with the tests beside it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT / 'tests'}"}


@pytest.mark.long
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("level", ["0", pytest.param("3", marks=pytest.mark.slow)])
def test_compiled_modules_pass_their_own_tests(tmp_path: Path, level: str) -> None:
    """The wheel is unpacked, and the tests of its hot modules run on what was compiled.

    Without optimising, which takes most of the time; as users get it in the long tier.
    """
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    wheel = build_wheel(tmp_path / "wheel", MYPYC_OPT_LEVEL=level)
    assert "none-any" not in wheel.name
    environment = unpacked(wheel, tmp_path / "package")
    which = subprocess.run(
        [sys.executable, "-c", SHOW_PLAIN],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not which.stdout.strip(), "these are not compiled"
    run_tests(tmp_path, environment)
    killed = subprocess.run(
        [sys.executable, "-c", KILL_COMPILED, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(killed.stdout, killed.stderr[-SHOWN_CHARS:])
    _, _, error = killed.stderr.strip().rpartition("\n")
    if killed.returncode and error.startswith(("patience.LateError", "TimeoutError")):
        raise LateError(error)
    assert killed.returncode == 0, error
    assert killed.stdout.count("3 x kill -9") == 2


def run_tests(folder: Path, environment: dict[str, str]) -> None:
    """Run what is CHECKED in a process of its own, and tell its failures from what was late."""
    cache = folder / "cache"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-o", f"cache_dir={cache}",
         "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"),
         *(str(ROOT / test) for test in CHECKED)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(ran.stdout[-SHOWN_CHARS:], ran.stderr[-SHOWN_CHARS:])
    failed = in_cache(cache, "cache/lastfailed")
    if ran.returncode == 1 and failed and failed <= in_cache(cache, "roketto/late"):
        raise LateError(f"these were late: {', '.join(sorted(failed))}")
    assert ran.returncode == 0, f"pytest ended with {ran.returncode}: {sorted(failed)}"


def in_cache(cache: Path, name: str) -> set[str]:
    path = cache / "v" / name
    return set(json.loads(path.read_text())) if path.exists() else set()
