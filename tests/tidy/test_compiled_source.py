"""What mypyc would compile to something else than Python means, and says nothing about."""

import ast
from pathlib import Path

import pytest

from roketto.compiled import HOT_MODULES

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize("module", HOT_MODULES)
def test_a_name_for_errors_has_one_type(module: str) -> None:
    """In compiled code ``error`` has the type of its first ``except``: any other is a TypeError."""
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            caught: dict[str, set[str]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                    caught.setdefault(node.name, set()).add(ast.unparse(node.type))
            twice = {name: sorted(types) for name, types in caught.items() if len(types) > 1}
            assert not twice, f"{module}.{function.name}: give each of them a name of its own"


def imported_names(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """What each name stands for that is imported from a module: the module, and its name there."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def open_classes(module: str) -> set[str]:
    """The classes of a hot module that others may inherit from: marked so, protocols, errors."""
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (
            any("allow_interpreted_subclasses" in ast.unparse(one) for one in node.decorator_list)
            or any(ast.unparse(base) in ("Protocol", "Exception") for base in node.bases)
        )
    }


def test_no_plain_class_inherits_from_a_compiled_one() -> None:
    """mypyc forbids it, at the first call of the constructor."""
    allowed = {module: open_classes(module) for module in HOT_MODULES}
    found = []
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if module in HOT_MODULES:
            continue
        tree = ast.parse(path.read_text())
        names = imported_names(tree)
        for node in ast.walk(tree):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                source, name = names.get(ast.unparse(base), ("", ""))
                if source in allowed and name not in allowed[source]:
                    found.append(f"{module}: {ast.unparse(base)} of {source}")
    assert not found, "mark them with mypyc_attr, or leave their module plain"
