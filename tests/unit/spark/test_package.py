"""The package has the names that it says it has, and is quick to import: Spark always does it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import roketto.spark


def test_the_names_of_the_package_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(roketto.spark.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If) and node.body[1:]]
    imported = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == roketto.spark._WHERE
    assert sorted(roketto.spark.__all__) == sorted(imported)
    for name, module in imported.items():
        found = getattr(importlib.import_module(str(module)), name)
        assert getattr(roketto.spark, name) is found


IMPORT = """
import sys
from importlib.abc import MetaPathFinder

class Nothing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"msgspec", "librt", "lz4", "zstandard", "isal", "uvloop"}:
            raise ImportError(f"{name} is broken")

sys.meta_path.insert(0, Nothing())
import pyspark_rocketmq, pyspark_rocketmq_store
print(pyspark_rocketmq.DefaultSource.name(), pyspark_rocketmq_store.DefaultSource.name())
print(*(name for name in sys.modules if name.startswith("roketto.")))
"""


def test_our_modules_are_good_neighbours_without_their_libraries() -> None:
    """Spark imports all modules with sources, and finds none if one fails: ours never does."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    names, modules = done.stdout.splitlines()
    assert names.split() == ["rocketmq", "rocketmq-store"]
    assert len(modules.split()) < 10, "the rest is for those who read or write"


PLAN = """
import sys
import pyarrow
from pyspark.sql.types import BinaryType, StructField, StructType
import pyspark_rocketmq

schema = StructType([StructField("body", BinaryType())])
before = set(sys.modules)
source = pyspark_rocketmq.DefaultSource({"nameServer": "10.0.0.5:9876", "topic": "T"})
from roketto.spark.written import Written
for writer in (source.writer(schema, False), source.streamWriter(schema, False)):
    assert type(writer).__name__ in ("BatchWriter", "StreamWriter")
source.streamWriter(schema, False).commit([Written("sent", 5)], 7)
source.writer(schema, False).commit([Written("sent", 5)])
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - {"roketto"}))
"""


def test_a_batch_is_planned_and_committed_without_what_its_tasks_need() -> None:
    """Spark starts two processes for each batch of a stream; pandas alone would take a tenth of a
    second in each of them, and an Arrow array that is made at import would bring it."""
    done = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "msgspec", "pandas", "ssl", "librt", "lz4"}
    assert not heavy & set(done.stdout.split())
