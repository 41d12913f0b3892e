"""The pages of the client are made of its classes: settings, fields, errors, and every name."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import MISSING, Field, fields
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import roketto.admin
import roketto.client
from roketto.client import (
    BatchSettings,
    ClientSettings,
    LiteLimits,
    Message,
    OutboxSettings,
    PushTuning,
    SendSettings,
)

ROOT = Path(__file__).parents[2]
CLIENT = (ROOT / "docs" / "client.md").read_text()
ADMIN = (ROOT / "docs" / "admin.md").read_text()

SETTINGS = (ClientSettings, SendSettings, BatchSettings, PushTuning, LiteLimits, OutboxSettings)


# --- settings -------------------------------------------------------------------------------------


def notes_of(made: type) -> dict[str, str]:
    """Field -> the text below it in the source."""
    (node,) = ast.parse(inspect.getsource(made)).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for one, following in zip(node.body, node.body[1:], strict=False):
        is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and is_text:
            assert isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)  # noqa: PT018
            found[one.target.id] = str(following.value.value)
    return found


def default_of(field: "Field[Any]") -> str:
    assert field.default is not MISSING, f"{field.name} has no default that could be shown"
    return str(field.default) if isinstance(field.default, Enum) else repr(field.default)


def settings_table(made: type) -> str:
    """The settings of a class as its page shows them."""
    notes = notes_of(made)
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for field in fields(made):
        note = " ".join(notes.get(field.name, "").replace("``", "`").split())
        lines.append(f"| `{field.name}` | `{default_of(field)}` | {note.replace('|', '&#124;')} |")
    return "\n".join(lines)


@pytest.mark.parametrize("made", SETTINGS, ids=lambda made: made.__name__)
def test_a_table_of_settings_is_its_class(made: type) -> None:
    """The table is made from the class; replace it when this fails."""
    section = CLIENT.split(f"\n### {made.__name__}\n")[1].split("\n#")[0]
    shown = section.split("<!-- settings -->\n")[1].split("\n<!-- /settings -->")[0]
    assert shown == settings_table(made), f"the table should read:\n{settings_table(made)}"


@pytest.mark.parametrize("made", SETTINGS, ids=lambda made: made.__name__)
def test_every_setting_says_what_it_is(made: type) -> None:
    assert list(notes_of(made)) == [field.name for field in fields(made)]


def test_all_fields_of_a_message_are_explained() -> None:
    table = CLIENT.split("<!-- fields Message -->\n")[1].split("<!-- /fields -->")[0]
    shown = [name for row in table.splitlines()[2:] for name in names_in(row.split(" | ")[0])]
    assert shown == [field.name for field in fields(Message)]


# --- names ----------------------------------------------------------------------------------------


def names_in(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def errors_of(package: Any) -> set[str]:
    found = {name: getattr(package, name) for name in package.__all__}
    return {
        name for name, one in found.items() if isinstance(one, type) and issubclass(one, Exception)
    }


@pytest.mark.parametrize(
    ("page", "package", "too"),
    [(CLIENT, roketto.client, {"ClientError"}), (ADMIN, roketto.admin, set[str]())],
    ids=["client", "admin"],
)
def test_every_error_has_its_remedy(page: str, package: Any, too: set[str]) -> None:
    table = page.split("<!-- errors -->\n")[1].split("<!-- /errors -->")[0]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    assert {names_in(row[0])[0] for row in rows} == errors_of(package) - too
    assert all(len(row) == 3 and row[2].strip(" |") for row in rows)


def test_all_errors_of_the_client_can_be_imported_from_it() -> None:
    """But for those that are raised and caught inside."""
    folder = Path(roketto.client.__file__).parent
    made = {
        node.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and node.name[0] != "_"
    }
    assert made - set(roketto.client.__all__) == {"NotBegunError"}


@pytest.mark.parametrize("package", [roketto.client, roketto.admin], ids=lambda one: one.__name__)
def test_a_package_has_the_names_that_type_checkers_see(package: Any) -> None:
    """They are imported when somebody asks; what is said to type checkers must be the same."""
    tree = ast.parse(Path(package.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If) and node.body[1:]]
    imported = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == package._WHERE
    assert sorted(package.__all__) == sorted(imported)
    for name, module in imported.items():
        assert getattr(package, name) is getattr(importlib.import_module(str(module)), name)
    with pytest.raises(AttributeError, match="has no attribute 'Consumer'"):
        _ = package.Consumer


IMPORTED = """
import sys
from importlib import import_module

for package in map(import_module, sys.argv[1:]):
    for name in package.__all__:
        if not name.startswith("SqlAlchemy"):
            getattr(package, name)
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_clients_import_the_libraries_that_are_said_to_be_theirs() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    always = text.split("## Always installed")[1].split("\n## ")[0]
    installed = set(re.findall(r"^\| `(\w+)`", always, re.MULTILINE))
    (theirs,) = re.findall(r"^Producers, consumers and the admin API import (.+)$", always, re.M)
    packages = [f"roketto.{part}" for part in ("client", "client.blocking", "admin")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *packages], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) & installed == set(names_in(theirs.split(". ")[0]))


# --- links ----------------------------------------------------------------------------------------


def anchor_of(heading: str) -> str:
    """What a heading is linked by."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "docs/client.md", "docs/admin.md", "docs/spark.md"])
def test_links_lead_to_headings_that_are_there(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", path.read_text())
    for target, anchor in links:
        other = path.parent / target if target else path
        assert anchor in anchors_of(other), f"{target}#{anchor}"
