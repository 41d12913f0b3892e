"""What every test gets: asyncio in debug mode, and a failure for whatever it leaves behind.

What fault tests print (seeds, counts, the checker's verdict) is shown at the end of every run.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from patience import bound, is_late
from roketto.remoting.loop import loop_factory

REPORTING: Final = ("tests/fault/", "tests/fuzz/", "tests/issues/")
"""Where tests print what they have done: nobody would believe them if they only passed."""

REPORT_CHARS_MAX: Final = 600
FAILURE_CHARS_MAX: Final = 2000
_LATE: Final = "late"
_CRASHES: Final[list[object]] = []
_FIRST_FAILURES: Final[dict[str, bool]] = {}
"""Of each test that failed, whether it was only late; what comes behind that follows from it."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("PYTHONASYNCIODEBUG", "1")
    # What a shell starts in the background ignores Ctrl-C, and so does whatever that starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object | None) -> None:
    """A process of pytest-xdist has ended; with an error, tests were left that nobody runs."""
    if error:
        _CRASHES.append(error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the report say whether the test was only late: it goes from process to process."""
    report = yield
    if call.excinfo is not None and is_late(call.excinfo.value):
        report.user_properties.append((_LATE, True))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _FIRST_FAILURES.setdefault(report.nodeid, (_LATE, True) in report.user_properties)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Do not let a run that is not whole look like one in which single tests failed; and keep the
    names of those that were only late, for `./dev test`.
    """
    if _CRASHES:
        session.exitstatus = pytest.ExitCode.INTERRUPTED
    cache: pytest.Cache | None = getattr(session.config, "cache", None)  # it can be left out
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("roketto/late", [name for name, late in _FIRST_FAILURES.items() if late])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the longest tests begin first, so that all processes end at about the same time.

    With groups (pytest-xdist) the largest ones begin anyway, and these come right behind them.
    """
    default_s = float(config.getini("timeout") or 0)
    for item in items:
        bound(item, default_s)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop that servers run on; those of the transport on both."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    fastest = loop_factory()
    if fastest is not None:
        factories["uvloop"] = fastest
    if fastest is None or "remoting" in item.nodeid:
        factories["asyncio"] = asyncio.new_event_loop
    return factories


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why tests failed, and what those under REPORTING have printed that passed.

    Reports of other processes (pytest-xdist) have it with them. Where only the end of a long run is
    kept, the reasons have to be near it.
    """
    for report in (
        *terminalreporter.stats.get("failed", ()),
        *terminalreporter.stats.get("error", ()),
    ):
        terminalreporter.write_line(f"{report.nodeid}, {report.when}:")
        terminalreporter.write_line(report.longreprtext[-FAILURE_CHARS_MAX:])
    said = {
        report.nodeid: "; ".join(line.rstrip(";") for line in report.capstdout.splitlines())
        for report in terminalreporter.stats.get("passed", ())
        if report.when == "call" and report.capstdout and report.nodeid.startswith(REPORTING)
    }
    if said:
        terminalreporter.section("what fault tests report")
    for nodeid, text in sorted(said.items()):
        terminalreporter.write_line(f"{nodeid.removeprefix('tests/')}: {text[:REPORT_CHARS_MAX]}")


def _open_files() -> dict[str, str]:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        return {}
    found = {}
    for entry in descriptors.iterdir():
        try:
            found[entry.name] = str(entry.readlink())
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads, sockets or another answer to Ctrl-C behind."""
    threads = set(threading.enumerate())
    files = _open_files()
    on_interrupt = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is on_interrupt, "Ctrl-C does something else now"
    left = [
        f"{descriptor} -> {target}"
        for descriptor, target in _open_files().items()
        if files.get(descriptor) != target and target.startswith("socket:")
    ]
    assert not left, f"descriptors left open: {left}"
    started = [
        thread.name
        for thread in threading.enumerate()
        if thread not in threads and not thread.daemon
    ]
    assert not started, f"threads left running: {started}"
