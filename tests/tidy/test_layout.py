"""The layout rules: who may import whom, how large things may get, what each must say."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "roketto"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAY_IMPORT = {
    "protocol": {"protocol"},
    "allocator": set[str](),
    "clock": set[str](),
    "compiled": {"protocol"},
    "options": {"protocol"},
    "server_options": {"options", "remoting"},
    "errand": set[str](),
    "safe_file": set[str](),
    "config_file": {"options", "protocol", "clock", "errand", "safe_file"},
    "logs": set[str](),
    "program": {"options", "server_options", "protocol", "remoting", "logs"},
    "auth": {"auth", "protocol"},
    "store": {"store", "protocol", "clock", "compiled"},
    "storetool": {"storetool", "store", "protocol", "clock"},
    "remoting": {"remoting", "protocol", "clock"},
    "replication": {"replication", "protocol", "store", "remoting", "clock"},
    "broker": {
        "broker", "protocol", "auth", "store", "remoting", "replication", "clock", "options",
        "server_options", "config_file", "program", "allocator", "compiled",
    },
    "namesrv": {
        "namesrv", "protocol", "remoting", "auth", "clock", "options", "server_options",
        "config_file", "errand", "safe_file", "program",
    },
    "up": {"allocator", "namesrv", "broker", "program", "options", "remoting", "store"},
    "testing": {"up", "client", "protocol", "remoting", "clock"},
    "pytest_plugin": {"testing"},
    "client": {"client", "protocol", "remoting", "clock"},
    "admin": {"admin", "client", "protocol", "clock"},
    "dashboard": {"dashboard", "admin"},
    "spark": {"spark", "client", "admin", "protocol", "remoting", "clock"},
}  # fmt: skip
"""Packages of ours and which of ours they may import; anything not listed is a mistake."""

NEVER_IN = {
    "protocol": {
        "asyncio", "logging", "os", "io", "pathlib", "random", "socket", "time", "threading",
        "selectors", "subprocess", "uuid", "secrets",
    },
    "store": {"asyncio", "socket"},
}  # fmt: skip
"""What a package must not know of in the standard library."""

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_packages_import_only_what_they_may(path: Path) -> None:
    """The table above is the dependency graph; the entry points are its only exceptions."""
    package = package_of(path)
    if package in ("__init__", "__main__"):
        return
    assert package in MAY_IMPORT, f"{package} is not in the table; add it with its reasons"
    for line, module in imports_of(path):
        first, *rest = module.split(".")
        if first == "roketto" and rest:
            assert rest[0] in MAY_IMPORT[package], f"{name_of(path)}:{line} imports {module}"
        assert first not in NEVER_IN.get(package, ()), f"{name_of(path)}:{line} imports {module}"


def test_the_protocol_asks_no_clock() -> None:
    """datetime may do calendar arithmetic there, but the present is always passed in."""
    asked = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        if package_of(path) == "protocol"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
    ]
    assert not asked


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_and_functions_stay_small(path: Path) -> None:
    """A file of over 600 lines has two nouns in it, a function of over 70 two verbs."""
    text = path.read_text()
    lines = text.count("\n")
    assert lines <= FILE_LINES_MAX, f"{lines} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= FUNCTION_LINES_MAX, f"{name_of(path)}:{node.lineno} {node.name}: {size}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    """The first line of its docstring is the module's purpose, one sentence."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, "no docstring"
    first = docstring.splitlines()[0]
    assert first.endswith((".", ":", "?")) and len(first) <= 100, first  # noqa: PT018


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_have_tests_of_their_own(path: Path) -> None:
    """tests/unit mirrors protocol and store one to one."""
    if package_of(path) not in ("protocol", "store"):
        return
    if path.name in ("__init__.py", "limits.py"):
        return
    relative = path.relative_to(PACKAGE)
    expected = ROOT / "tests" / "unit" / relative.parent / f"test_{relative.name}"
    assert expected.exists(), f"no {name_of(expected)}"


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_tests_say_what_they_prove(path: Path) -> None:
    """A test file's first line says what it proves, and each test's name is a claim."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_test = node.name.startswith("test_")
            assert not is_test or node.name.count("_") >= 3, f"{node.name} claims nothing"


def test_the_import_rules_can_fail() -> None:
    """The walker sees an import wherever it hides."""
    source = "def f():\n    from roketto.broker import app\n    import os.path\n"
    found = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert sorted(filter(None, found)) == ["os.path", "roketto.broker"]
