"""The package is quick to import, gives all names it promises, and brings no server with it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roketto.client

PACKAGES = ("roketto.client", "roketto.client.blocking", "roketto.admin.blocking")


def fresh(statement: str) -> tuple[float, set[str]]:
    """What a statement takes of the processor in a new interpreter, and which modules it brings."""
    script = (
        "import sys, time; known = set(sys.modules); began = time.process_time();"
        f"{statement}; took_ms = 1000 * (time.process_time() - began);"
        "print([took_ms, *(set(sys.modules) - known)])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    took_ms, *modules = ast.literal_eval(done.stdout.decode())
    return took_ms, set(modules)


def test_the_package_brings_next_to_nothing() -> None:
    """What it brings is what it takes: six milliseconds where this was written."""
    took_ms, modules = fresh("import roketto.client")
    print(f"import roketto.client: {took_ms:.0f} ms")
    assert modules == {"roketto", "roketto.client", "roketto.client.lazy"}


@pytest.mark.parametrize(
    "statement",
    [
        "from roketto.client import Producer",
        "from roketto.client import PushConsumer",
        "from roketto.client.blocking import Producer",
        "from roketto.admin.blocking import Admin",
    ],
)
def test_a_client_brings_no_server_with_it(statement: str) -> None:
    took_ms, modules = fresh(statement)
    print(f"{statement}: {took_ms:.0f} ms")
    for other in ("store", "broker", "namesrv", "storetool"):
        assert f"roketto.{other}" not in modules
    assert not modules & {"numpy", "click", "rich", "sqlalchemy"}
    if "Producer" in statement:
        assert "roketto.client.push" not in modules


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_of_a_package_are_there(package: str) -> None:
    """Types, ``__all__`` and what is found when it is asked for are the same names."""
    module: Any = importlib.import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    typed = {
        (name.name, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    } - {("lazily", "roketto.client.lazy")}
    assert sorted(module.__all__) == sorted(name for name, _ in typed)
    assert typed == set(module._WHERE.items())
    for name in module.__all__:
        assert getattr(module, name).__name__ if name[0].isupper() else getattr(module, name)
        assert name in vars(module)  # and is not looked for again


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Prodcer'"):
        getattr(roketto.client, "Prodcer")  # noqa: B009 (mypy would say so before)
    with pytest.raises(ImportError, match="Prodcer"):
        exec("from roketto.client import Prodcer")
