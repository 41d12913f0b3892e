"""What pip installs is whole: in a new environment, with nothing but what the package declares."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.client.test_docs_snippets import ADDRESSES, SNIPPETS, run_program
from integration.spark.elsewhere import make_environment
from integration.spark.elsewhere import run_program as run_spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

ROOT: Final = Path(__file__).parents[2]
INSTALL_S: Final = 600.0
_WAIT_S: Final = 60.0

IMPORT_ALL = """
import importlib, pkgutil, sys

for package in sys.argv[1:]:
    names = [package]
    path = importlib.util.find_spec(package).submodule_search_locations
    names += [found.name for found in pkgutil.walk_packages(path, f"{package}.", lambda name: None)]
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            print(name, error.name)
print("all were tried")
"""
"""Each module that cannot be imported, and what is missing for it."""

PACK = """
import asyncio
from roketto.client import Compression, FromWhere, Message, Producer, PushConsumer, SendSettings

async def main():
    for kind in Compression:
        async with Producer("packer", sending=SendSettings(compression=kind)) as producer:
            await producer.send(Message("Packed", kind.name.encode() * 2_000))
    found = []
    async with PushConsumer(
        "unpackers", topics={"Packed": "*"}, from_where=FromWhere.FIRST
    ) as consumer:
        async for message in consumer:
            found.append(message.body == message.body[: len(message.body) // 2_000] * 2_000)
            if len(found) == len(Compression):
                message.ack()
                break
    print(found)

asyncio.run(main())
"""

READ = """
import sys
from roketto.spark import session

spark = session("installed", provide_java=False)
orders = spark.read.format("rocketmq").option("nameServer", sys.argv[1]).load("Orders")
print("orders", [bytes(row.body) for row in orders.select("body").collect()])
rows = orders.selectExpr("CAST(body AS STRING) AS body", "map('n', '1') AS properties")
writer = rows.write.format("rocketmq").options(nameServer=sys.argv[1], topic="Copies")
writer.mode("append").save()
copies = spark.read.format("rocketmq").option("nameServer", sys.argv[1]).load("Copies")
print("copies", [row.properties["n"] for row in copies.collect()])
spark.stop()
"""


def install(python: Path, what: str) -> None:
    """As users do, but for the compiler, which takes minutes and adds no dependency: the hot
    modules are the same source.
    """
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet",
         "--disable-pip-version-check", what],
        env={**environment(), "ROKETTO_PURE": "1"}, capture_output=True, text=True, check=False,
        timeout=INSTALL_S,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr[-4_000:]


def environment() -> dict[str, str]:
    """This process's, without the ways to what is installed here."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def said_by(command: Sequence[str | Path], folder: Path, **more: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={**environment(), **more},
        capture_output=True, text=True, check=False, timeout=_WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout


def missing(python: Path, folder: Path, *packages: str) -> set[tuple[str, str]]:
    """Modules that cannot be imported, and why."""
    *lines, last = said_by([python, "-c", IMPORT_ALL, *packages], folder).splitlines()
    assert last == "all were tried"
    return {(name, lacking) for name, _, lacking in (line.partition(" ") for line in lines)}


@contextmanager
def up(python: Path, folder: Path) -> Iterator[str]:
    """`roketto up`, until the block ends; the address of its name server."""
    command = [python.parent / "roketto", "up", "--namesrv-port", "0", "--port", "0"]
    with subprocess.Popen(
        [*map(str, command), "--data", str(folder / "data")], cwd=folder, env=environment(),
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert first.startswith("name server "), first
            yield first.removeprefix("name server ").partition(",")[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0


def test_what_is_declared_is_all_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First without extras, and then with Spark: servers, commands, the first program of the
    README, every compression, a read and a write; and every module can be imported.
    """
    python = make_environment(tmp_path / "venv")
    install(python, str(ROOT))
    lacking = missing(python, tmp_path, "roketto")
    of_extras = {name for name, _ in lacking if name.startswith("roketto.spark")}
    others = {(name, what) for name, what in lacking if name not in of_extras}
    assert of_extras, "Spark comes with its extra only"
    assert {what for name, what in lacking if name in of_extras} <= {"pyspark", "pyarrow"}
    assert others == OPTIONAL
    for program in ("mqnamesrv", "mqbroker"):
        assert program in said_by([python.parent / program, "--help"], tmp_path)
    with up(python, tmp_path) as names:
        monkeypatch.setenv(ADDRESSES, names)
        for name in [name for name in os.environ if name.startswith("PYTHON")]:
            monkeypatch.delenv(name)
        assert run_program(SNIPPETS[0], tmp_path, str(python)) == SNIPPETS[0].printed
        assert said_by([python, "-c", PACK], tmp_path) == "[True, True, True]\n"
        install(python, f"{ROOT}[spark]")
        lacking = missing(python, tmp_path, "roketto", "pyspark_rocketmq", "pyspark_rocketmq_store")
        assert lacking == OPTIONAL
        (tmp_path / "read.py").write_text(READ)
        said = run_spark([str(python), str(tmp_path / "read.py"), names], tmp_path)
    assert said.splitlines()[-2:] == ["orders [b'two teas']", "copies ['1']"]


OPTIONAL: Final = {
    ("roketto.client.dedup_sqlalchemy", "sqlalchemy"),
    ("roketto.client.outbox_sqlalchemy", "sqlalchemy"),
    ("roketto.client.sqlalchemy_database", "sqlalchemy"),
    ("roketto.pytest_plugin", "pytest"),
}
"""What wants something that users bring along: their database, their test runner."""
