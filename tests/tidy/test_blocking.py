"""The blocking API is what its generator makes of the asyncio one, and both look the same."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MARK = "``./dev blocking`` writes it"


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "dev_tools"))
    try:
        yield importlib.import_module("make_blocking")
    finally:
        sys.path.remove(str(ROOT / "dev_tools"))


def test_the_blocking_files_are_those_that_are_made(generator: ModuleType) -> None:
    made: dict[Path, str] = generator.make_all()
    kept = {path for path in (ROOT / "src").rglob("*.py") if MARK in path.read_text()}
    assert kept == set(made), "run ./dev blocking, and remove what it no longer writes"
    changed = [str(path) for path, text in made.items() if path.read_text() != text]
    assert not changed, "run ./dev blocking"


def pairs(generator: ModuleType) -> Iterator[tuple[type, type]]:
    for package, modules in generator.PACKAGES.items():
        for name in modules:
            module = importlib.import_module(f"{package}.{name}")
            blocking = importlib.import_module(f"{package}.blocking.{name}")
            for one in blocking.__all__:
                if inspect.isclass(getattr(module, one)):
                    yield getattr(module, one), getattr(blocking, one)


def shape(function: Any) -> list[tuple[str, object, object]]:
    given = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in given]


def test_every_method_is_there_and_takes_the_same(generator: ModuleType) -> None:
    """Nothing public is missing but what the tables name, and nothing is a coroutine function."""
    compared = 0
    for original, blocking in pairs(generator):
        hidden = set().union(
            *(generator.LEFT_OUT.get(base.__name__, ()) for base in original.__mro__)
        )
        if original.__module__.startswith("roketto.client."):
            hidden |= generator.ASKED_BY_OTHERS
        for name, member in inspect.getmembers(original, inspect.isfunction):
            if name.startswith("_") or name in hidden:
                continue
            twin = getattr(blocking, name)
            assert not inspect.iscoroutinefunction(twin), f"{blocking}.{name}"
            assert shape(member) == shape(twin), f"{blocking}.{name}"
            compared += 1
        if "__init__" in vars(blocking):
            assert shape(vars(original)["__init__"]) == shape(vars(blocking)["__init__"]), blocking
    assert compared > 100


def test_an_attribute_without_a_type_is_noticed(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is added to the asyncio API is in the blocking one, or somebody says why not."""
    monkeypatch.setattr(generator, "ATTRIBUTES", {})
    with pytest.raises(generator.UnknownError, match="which type has it"):
        generator.make_all()
