"""The tables of docs/spark.md are those of the code: options, columns and errors, all of them."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from roketto.spark.columns import LOG_COLUMNS, SOURCE_COLUMNS
from roketto.spark.options import CONNECTION_OPTIONS
from roketto.spark.row_schema import SINK_COLUMNS
from roketto.spark.sink_options import SINK_OPTIONS
from roketto.spark.source_options import SOURCE_OPTIONS, SourceOptions
from roketto.spark.store_options import _OPTIONS as STORE_OPTIONS

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "spark.md").read_text()


def table(mark: str) -> list[list[str]]:
    """The cells of the rows of a table."""
    text = PAGE.split(f"<!-- {mark} -->\n")[1].split(f"<!-- /{mark} -->")[0]
    rows = [row.removeprefix("|").removesuffix("|") for row in text.splitlines()[2:]]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows]


def names_in(text: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", text)


@pytest.mark.parametrize(
    ("mark", "names"),
    [
        ("source options", SOURCE_OPTIONS),
        ("sink options", SINK_OPTIONS),
        ("store options", [name for name in STORE_OPTIONS if name != "path"]),
        ("columns", SOURCE_COLUMNS),
        ("sink columns", SINK_COLUMNS),
    ],
)
def test_a_table_of_the_page_has_all_names(mark: str, names: list[str]) -> None:
    shown = [name for row in table(mark) for name in names_in(row[0])]
    assert sorted(shown) == sorted(names)


def test_connection_options_are_said_to_be_those_of_both() -> None:
    """The sink's table leaves them out."""
    assert not set(CONNECTION_OPTIONS) & set(SINK_OPTIONS)
    assert set(CONNECTION_OPTIONS) < set(SOURCE_OPTIONS)


def test_the_types_of_columns_are_those_of_the_code() -> None:
    from roketto.spark.columns import default_schema

    shown = {names_in(row[0])[0]: row[1] for row in table("columns")}
    assert shown == {field.name: field.dataType.simpleString() for field in default_schema()}
    assert all(f"`{name}`" in PAGE for name in LOG_COLUMNS)


def test_numbers_of_the_page_are_defaults_of_the_source() -> None:
    """Of those options that have one number, or several in the order of their names."""
    options = SourceOptions.of({"nameServer": "a:1", "topic": "T"}, is_stream=True)
    connection = options.connection
    wanted = {
        "latestOffsetWaitMs": options.wait_ms,
        "discoveryIntervalMs": options.discovery_interval_ms,
        "pullTimeoutMs": options.pull_timeout_ms,
        "fetchOffset.numRetries": options.retries_max,
        "fetchOffset.retryIntervalMs": options.retry_interval_ms,
        "requestTimeoutMs": connection.request_timeout_ms,
        "connectTimeoutMs": connection.connect_timeout_ms,
    }
    shown = {
        name: int(value)
        for row in table("source options")
        for name, value in zip(names_in(row[0]), names_in(row[1]), strict=False)
        if value.isdecimal()
    }
    assert shown == wanted


def texts_of_the_code() -> list[str]:
    """What modules of the connector and of the client say, with ``{}`` for what is put in."""
    found = []
    for part in ("spark", "client"):
        for path in sorted((ROOT / "src" / "roketto" / part).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    pieces = (
                        str(one.value) if isinstance(one, ast.Constant) else "{}"
                        for one in node.values
                    )
                    found.append("".join(pieces))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


@pytest.mark.parametrize("shown", [row[0].strip("`") for row in table("errors")], ids=str)
def test_an_error_of_the_page_is_one_of_the_code(shown: str) -> None:
    """The parts of it stand in one text, in this order."""
    pattern = ".*".join(re.escape(part.strip()) for part in shown.split("…"))
    assert any(re.search(pattern, text, re.S) for text in texts_of_the_code()), shown
