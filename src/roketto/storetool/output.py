"""How the tool speaks: progress on standard error, tables and JSON on standard output."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

Report = Callable[[int, int], None]
"""Takes how many bytes of how many have been read."""

_FILE_COLUMNS: Final = 10_000
"""A table that goes to a file or a pipe is as wide as it needs to be."""


@contextmanager
def progress_bar(label: str, *, is_wanted: bool) -> Iterator[Report | None]:
    """A bar on standard error; None where nobody would see it."""
    if not is_wanted or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), DownloadColumn(),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    # Lines on standard output appear above the bar, but only if they go to the same screen.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()
    ) as progress:
        task = progress.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report


def write_line(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(f"{text}\n")


def write_json(value: object, *, is_line: bool = False) -> None:
    """One JSON document; in one line where many follow each other."""
    write_line(json.dumps(value, ensure_ascii=False, indent=None if is_line else 2))


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()
) -> None:
    """A table on standard output; the columns in ``numbers`` are set to the right."""
    table = Table(box=None, pad_edge=False)
    for name in columns:
        is_number = name in numbers
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = _console(sys.stdout)
    console.print(table)


def _console(stream: TextIO) -> Console:
    is_screen = stream.isatty()
    return Console(
        file=stream, width=None if is_screen else _FILE_COLUMNS, highlight=False, soft_wrap=False
    )


def size_text(size: int) -> str:
    """A number of bytes as people say it: ``1.4 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
