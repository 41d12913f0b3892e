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
