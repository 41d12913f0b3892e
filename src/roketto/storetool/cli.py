"""The command ``roketto store``: check, dump, stat and rebuild; one line when it cannot go on."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from roketto.clock import monotonic_s, wall_ms
from roketto.protocol.errors import ProtocolError, RequestError
from roketto.protocol.tags import parse_tags
from roketto.store.delay_levels import DELAY_LEVELS, DelayLevels
from roketto.store.errors import StoreError, StoreLockedError
from roketto.store.files import Files
from roketto.storetool.check import Check
from roketto.storetool.directory import Options, State, StoreDirectory
from roketto.storetool.dump import Dump, Wanted
from roketto.storetool.findings import Finding, Findings
from roketto.storetool.messages import COLUMNS, local_zone, parse_time, to_json, to_row
from roketto.storetool.output import progress_bar, write_json, write_line, write_table
from roketto.storetool.rebuild import LogDamagedError, Part, Rebuild
from roketto.storetool.reports import checked_json, write_checked, write_rebuilt, write_stat
from roketto.storetool.stat import measure

EXIT_DAMAGED: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_INTERRUPTED: Final = 130

_ROWS_AT_ONCE: Final = 500
"""Rows of a table that are lined up with each other and kept in memory."""
_BODY_CHARS: Final = 60
_NUMBERS: Final = ("queue", "offset", "log offset")

Command = TypeVar("Command", bound=Callable[..., Any])


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        # Not store.main: that has opinions of its own about pipes and exit codes.
        with store.make_context("roketto store", list(given)) as context:
            code = store.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:  # --help
        return ended.exit_code
    except BrokenPipeError:
        # Whoever read this has seen enough. The interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        failed = getattr(error, "ctx", None)
        where = failed.command_path if failed is not None else "roketto store"
        return _fail(where, " ".join(error.format_message().split()))
    except (StoreError, ProtocolError, RequestError, OSError) as error:
        return _fail("roketto store", str(error))
    return code if isinstance(code, int) else 0


def _fail(where: str, reason: str) -> int:
    sys.stderr.write(f"{where}: {reason}\n")
    return EXIT_UNUSABLE


# --- options --------------------------------------------------------------------------------------


def _time(text: str) -> int:
    """A moment: milliseconds, or a date and time."""
    try:
        return parse_time(text, local_zone())
    except ValueError:
        raise click.UsageError(
            f"{text!r} is no time; write milliseconds (1700000000000) or a date and time"
            " (2024-05-01T12:30:00, with +02:00 behind it for another zone than this machine's)"
        ) from None


def _common(command: Command) -> Command:
    """What every command takes."""
    add = click.option
    at_least_one = click.IntRange(min=1)
    for option in (
        add("--index-entries", type=at_least_one,
            help="Entries of an index file (maxIndexNum), if they cannot be told."),
        add("--index-slots", type=at_least_one,
            help="Slots of an index file (maxHashSlotNum), if they cannot be told."),
        add("--queue-file-bytes", type=click.IntRange(min=20),
            help="Length of a queue file (mappedFileSizeConsumeQueue), if most are damaged."),
        add("--commitlog", type=click.Path(path_type=Path),
            help="The log (storePathCommitLog), if it is not ROOT/commitlog."),
        click.argument("root", type=click.Path(path_type=Path)),
    ):  # fmt: skip
        command = option(command)
    return command


def _options(given: dict[str, Any]) -> Options:
    names = ("commitlog", "queue_file_bytes", "index_slots", "index_entries")
    options = Options(**{name: given.pop(name) for name in names})
    if bool(options.index_slots) != bool(options.index_entries):
        raise click.UsageError("--index-slots and --index-entries go together; give both")
    if options.queue_file_bytes is not None and options.queue_file_bytes % 20:
        raise click.UsageError(
            f"--queue-file-bytes is {options.queue_file_bytes}, it must be a multiple of 20"
        )
    return options


@contextmanager
def _open(root: Path, options: Options, *, has_lock: bool = False) -> Iterator[StoreDirectory]:
    opened = StoreDirectory(root, Files(), wall_ms(), options, has_lock=has_lock)
    try:
        yield opened
    finally:
        opened.close()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
)
def store() -> None:
    """Look into the directory of a store, a running broker's or Java's, too.

    Everything but `rebuild --write` only reads.
    """


# --- check ----------------------------------------------------------------------------------------


@store.command()
@_common
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
@click.option("--quiet", "-q", is_flag=True, help="No progress bar.")
def check(root: Path, as_json: bool, quiet: bool, **given: Any) -> int:
    """Verify the store in ROOT: every record, and queues, index and tables against the log.

    Prints one line for each finding, with file and byte, and a summary. What a running broker has
    not written yet, or the next start after a crash puts right, is a note. The exit code is 0 if
    all is well, 1 if something is damaged, 2 if the store could not be read.
    """
    findings = Findings(None if as_json else _tell)
    with _open(root, _options(given)) as opened:
        with progress_bar("checking", is_wanted=not quiet) as report:
            checked = Check(opened, findings, wall_ms(), report).run()
        if as_json:
            write_json(checked_json(root, checked, findings))
        else:
            write_checked(checked, findings)
    return 0 if findings.is_clean else EXIT_DAMAGED


def _tell(finding: Finding) -> None:
    write_line(str(finding))


# --- dump -----------------------------------------------------------------------------------------


@store.command()
@_common
@click.option("--topic", "-t", help="Messages of this topic.")
@click.option("--queue", "-i", "queue_id", type=click.IntRange(min=0), help="Of this queue of it.")
@click.option("--offset", "-o", type=click.IntRange(min=0), help="With this offset in the queue.")
@click.option("--from-offset", type=click.IntRange(min=0), help="From this offset on.")
@click.option("--to-offset", type=click.IntRange(min=0), help="Up to this offset, it included.")
@click.option(
    "--begin", "begin_ms", type=_time, metavar="TIME", help="Stored then or later: ms, or ISO 8601."
)
@click.option("--end", "end_ms", type=_time, metavar="TIME", help="Stored then or earlier.")
@click.option("--key", "-k", help="With this key, or this unique key.")
@click.option("--tag", help="With this tag; 'a || b' for several.")
@click.option("--log-offset", type=click.IntRange(min=0), help="At this place in the log.")
@click.option("--id", "message_id", help="With this id, the broker's or the producer's.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="At most so many.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table",
              show_default=True, help="json: one object a line, with everything.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No progress bar.")
def dump(
    root: Path,
    offset: int | None,
    tag: str | None,
    limit: int | None,
    form: str,
    quiet: bool,
    **given: Any,
) -> int:
    """Print messages of the store in ROOT, in the order they were stored.

    All conditions must hold. Bodies are unpacked, and shown as text if they are, else in hex
    (table) or base64 (json). The exit code is 1 if something on the way could not be read.
    """
    options = _options(given)
    if offset is not None:
        if given["from_offset"] is not None or given["to_offset"] is not None:
            raise click.UsageError("--offset is one offset; leave out --from-offset, --to-offset")
        given["from_offset"] = given["to_offset"] = offset
    wanted = Wanted(tags=parse_tags(tag) if tag else None, **given)
    findings = Findings(_warn)
    is_barred = quiet or sys.stdout.isatty()
    with (
        _open(root, options) as opened,
        progress_bar("reading", is_wanted=not is_barred) as report,
    ):
        records = islice(Dump(opened, wanted, findings, report), limit)
        if form == "json":
            for record in records:
                write_json(to_json(record), is_line=True)
        else:
            while page := list(islice(records, _ROWS_AT_ONCE)):
                rows = [to_row(record, local_zone(), _BODY_CHARS) for record in page]
                write_table(COLUMNS, rows, _NUMBERS)
    return 0 if findings.is_clean else EXIT_DAMAGED


def _warn(finding: Finding) -> None:
    sys.stderr.write(f"{finding}\n")


# --- stat -----------------------------------------------------------------------------------------


@store.command()
@_common
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a page.")
def stat(root: Path, as_json: bool, **given: Any) -> int:
    """Tell what the store in ROOT holds: files, times, topics, disk use, how it was left."""
    with _open(root, _options(given)) as opened:
        measured = measure(opened)
    if as_json:
        write_json(measured.to_json())
    else:
        write_stat(measured)
    return 0


# --- rebuild --------------------------------------------------------------------------------------


@store.command()
@_common
@click.option("--write", is_flag=True, help="Really do it: this command changes the store.")
@click.option("--only", type=click.Choice(["queues", "index"]), help="Leave the other as it is.")
@click.option("--delay-levels", default=DELAY_LEVELS, show_default=True,
              help="The broker's messageDelayLevel: when delayed messages are due.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No progress bar.")
def rebuild(
    root: Path, write: bool, only: str | None, delay_levels: str, quiet: bool, **given: Any
) -> int:
    """Make queues and index of the store in ROOT anew from its log.

    The log is verified first; if it is damaged, or a broker has the store open, nothing is
    changed. If this is killed half-way, the next start completes it from the log.
    """
    options = _options(given)
    try:
        delays = DelayLevels(delay_levels)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not write:
        raise click.UsageError(
            f"this replaces queues and index of {root}; give --write if you mean it"
        )
    with _open(root, options) as looked_at:
        if looked_at.state is State.OPEN:
            raise StoreLockedError(f"{root} is open in a running broker; stop it first")
    files = Files()
    lock = files.lock(root / "lock")
    try:
        return _rebuild(root, options, Part(only or "both"), delays, is_wanted=not quiet)
    finally:
        lock.release()


def _rebuild(
    root: Path, options: Options, part: Part, delays: DelayLevels, *, is_wanted: bool
) -> int:
    with _open(root, options, has_lock=True) as opened:
        findings = Findings(_warn)
        with progress_bar("verifying the log", is_wanted=is_wanted) as report:
            work = Rebuild(opened, part, delays, wall_ms, report)
            try:
                work.verify(findings)
            except LogDamagedError as error:
                sys.stderr.write(f"roketto store rebuild: {error}\n")
                return EXIT_DAMAGED
        with progress_bar("rebuilding", is_wanted=is_wanted) as report:
            work.progress = report
            started_s = monotonic_s()
            done = work.run()
            elapsed_s = monotonic_s() - started_s
        write_rebuilt(part, done, elapsed_s)
    return 0
