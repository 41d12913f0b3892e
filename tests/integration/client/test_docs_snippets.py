"""Every Python snippet of README, docs/client.md and docs/admin.md runs, and prints what is shown.

A snippet runs as it stands there, in a namespace and a directory of its own. One that ends with
``asyncio.run`` is a program, one with a function ``test_...`` is a file for pytest, and one that
awaits at its top level runs as at the prompt of ``python -m asyncio``.
"""

import ast
import asyncio
import inspect
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.test_namesrv import certificate_in
from roketto.testing import Broker
from roketto.up import Both, broker_config, names_config

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = ("README.md", "docs/client.md", "docs/admin.md")
ADDRESSES: Final = "ROCKETMQ_NAMESRV_ADDR"
OPTIONS: Final = {
    "recallMessageEnable": True, "enablePropertyFilter": True, "traceTopicEnable": True,
}  # fmt: skip
"""Those that the pages say a broker needs."""
_WAIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of Python on a page, and what the page says that it prints."""

    page: str
    section: str
    line: int
    code: str
    printed: str

    @property
    def is_program(self) -> bool:
        return "\nasyncio.run(" in self.code

    @property
    def is_spark(self) -> bool:
        """Whether it wants a session; test_spark_docs.py has one."""
        return "spark.readStream" in self.code

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets_of(page: str, text: str) -> Iterator[Snippet]:
    block = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
    for found in block.finditer(text):
        before = text[: found.start()]
        headings = re.findall(r"^#+ (.+)$", before, re.M) or [""]
        yield Snippet(
            page, headings[-1], before.count("\n") + 1, found.group(1), found.group(2) or ""
        )


SNIPPETS: Final = [
    snippet
    for page in PAGES
    for snippet in snippets_of(page, (ROOT / page).read_text())
    if not snippet.is_spark
]


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    """A name server and a broker for all of them."""
    with Broker(OPTIONS) as broker:
        yield broker


@pytest.fixture
def quiet(running: Broker) -> Iterator[Broker]:
    """The same; its side of the connections of a test is closed when the test ends."""
    before = sockets()
    yield running
    deadline_s = time.monotonic() + _WAIT_S
    while not sockets() <= before and time.monotonic() < deadline_s:
        time.sleep(0.002)


def sockets() -> set[str]:
    found: set[str] = set()
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue
    return {target for target in found if target.startswith("socket:")}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_a_snippet_of_the_docs_does_what_it_says(
    snippet: Snippet,
    quiet: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ADDRESSES, quiet.name_server)
    if snippet.is_program:
        printed = run_program(snippet, tmp_path)
    else:
        run_in_place(snippet, monkeypatch)
        printed = capsys.readouterr().out
    assert printed == snippet.printed


def run_in_place(snippet: Snippet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run it here; what it awaits in a loop of its own, which is not in debug mode."""
    code = compile(snippet.code, str(snippet), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    space: dict[str, Any] = {"__name__": "__main__"}
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, space)
        run_tests(space)
        return

    async def run() -> None:
        async with asyncio.timeout(_WAIT_S):
            if snippet.section == "TLS":
                async with with_certificates(Path.cwd()) as address:
                    monkeypatch.setenv(ADDRESSES, address)
                    await eval(code, space)
            else:
                await eval(code, space)

    asyncio.run(run(), debug=False)


def run_tests(space: dict[str, Any]) -> None:
    """Run the tests of a snippet with what the fixture of the pytest plugin is.

    That pytest finds that by itself is tested in test_testing.py.
    """
    for name, function in space.items():
        if name.startswith("test_"):
            assert list(inspect.signature(function).parameters) == ["rocketmq"]
            with Broker() as broker:
                function(broker)


@asynccontextmanager
async def with_certificates(folder: Path) -> AsyncIterator[str]:
    """Servers that speak TLS, and the certificate that a client trusts."""
    options = certificate_in(folder)
    names, broker = names_config(folder, 0), broker_config(folder, 0)
    for config in (names, broker):
        for name, value in options.items():
            setattr(config, name, value)
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())
    both = Both(names, broker)
    await both.start()
    try:
        yield both.name_server
    finally:
        await both.stop()


def run_program(snippet: Snippet, folder: Path, python: str = sys.executable) -> str:
    """Run it as a process until it has printed what it should, and end it as with Ctrl-C."""
    path = folder / "program.py"
    path.write_text(snippet.code)
    lines = snippet.printed.splitlines(keepends=True)
    with subprocess.Popen(
        [python, "-u", str(path)], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in lines)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=_WAIT_S)
    assert process.returncode in (0, -signal.SIGINT, 128 + signal.SIGINT), errors
    assert "Traceback" not in errors or errors.rstrip().endswith("KeyboardInterrupt"), errors
    return printed + rest


# --- the walker -----------------------------------------------------------------------------------


def test_the_first_snippet_of_the_readme_sends_and_receives() -> None:
    """In ten lines."""
    first = SNIPPETS[0]
    assert first.page == "README.md"
    assert "producer.send(" in first.code and "PushConsumer(" in first.code  # noqa: PT018
    assert len([line for line in first.code.splitlines() if line]) <= 10


def test_what_a_snippet_prints_stands_right_below_it() -> None:
    text = "# T\n```python\nprint(1)\n```\n\n```text\n1\n```\n## U\n```python\na = 1\n```\ntext\n"
    one, two = snippets_of("p.md", text)
    assert (one.section, one.line, one.code, one.printed) == ("T", 2, "print(1)\n", "1\n")
    assert (two.section, two.printed) == ("U", "")


def test_all_python_of_the_pages_is_found() -> None:
    """No block is indented, or fenced in another way, so that nobody would run it."""
    for page in PAGES:
        text = (ROOT / page).read_text()
        count = len(re.findall(r"^\s*(?:```|~~~)\s*(?:py|python|python3)\b", text, re.M))
        assert count == len(list(snippets_of(page, text))), page
