"""In a fresh environment with the wheel installed, Spark finds the formats by their names alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.spark.elsewhere import (
    SITE,
    make_environment,
    make_task,
    run_program,
    run_task,
    site_of,
)
from integration.spark.spark_rig import Rig

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel; what it depends on is taken from the one that runs this."""
    folder = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    environment = {**os.environ, "ROKETTO_PURE": "1"}  # compiling takes minutes
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], env=environment, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    python = make_environment(folder / "venv")
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    (site_of(python) / "others.pth").write_text(f"{SITE}\n")
    return python


@pytest.mark.slow
def test_the_formats_are_found_with_no_registration(rig: Rig, python: Path, tmp_path: Path) -> None:
    """Source and sink, batch and stream; what runs is what the wheel has installed."""
    seen = run_task(make_task(rig, "Fresh", tmp_path), str(python))
    assert seen.session == "pyspark.sql.session"
    seen.check_rows()
    (found,) = {place for *_, place, _ in seen.places}
    assert Path(found) == site_of(python) / "roketto" / "__init__.py"


FIND = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
for name in ("rocketmq", "rocketmq-store"):
    try:
        spark.read.format(name).option("topik", "Orders").load().collect()
    except Exception as error:
        print(name, "|", " ".join(str(error).split()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_broken", [False, True], ids=["alone", "beside-a-broken-one"])
def test_a_broken_neighbour_hides_every_source(
    python: Path, tmp_path: Path, is_broken: bool
) -> None:
    """Spark imports all modules that could have a source, and finds none if one of them fails.

    Should Spark learn to go on without it, this test says so, and docs may be changed.
    """
    if is_broken:
        neighbour = tmp_path / "pyspark_neighbour"
        neighbour.mkdir()
        (neighbour / "__init__.py").write_text("import a_library_that_is_not_there\n")
    program = tmp_path / "find.py"
    program.write_text(FIND)
    said = run_program([str(python), str(program)], tmp_path, {"PYTHONPATH": str(tmp_path)})
    topic, store = [line for line in said.splitlines() if line.startswith("rocketmq")]
    assert ("DATA_SOURCE_NOT_FOUND" in topic) == ("DATA_SOURCE_NOT_FOUND" in store) == is_broken
    assert ("did you mean" in topic or "topic" in topic.partition("topik")[2]) != is_broken
