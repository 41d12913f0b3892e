"""README and docs are true: commands run, names exist, links lead somewhere, tables are current."""

import importlib
import importlib.machinery
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from roketto.broker.config import BrokerConfig
from roketto.namesrv.config import NamesrvConfig
from roketto.namesrv.handlers import HANDLERS, SIMPLE_HANDLERS
from roketto.options import Config, Option, fields_of
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record
from roketto.store.store import Store, StoreSettings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BIN = Path(sys.executable).parent
_TIMEOUT_S = 120


def commands() -> list[tuple[str, str]]:
    """Every line of every ``sh`` block, with the page it stands on."""
    return [
        (page.name, line)
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]


def load_dev() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("dev", str(ROOT / "dev"))
    spec = importlib.util.spec_from_loader("dev", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def run(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder), **more}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True,
        timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda text: text)
def test_a_command_in_the_docs_works(page: str, command: str, tmp_path: Path) -> None:
    """Each command is typed as it stands there, in a folder with the file that it names."""
    words = shlex.split(command)
    if words[0] == "./dev":
        # check and test are what is running now; demo and the rest have tests of their own.
        assert words[1] in load_dev().COMMANDS
    elif words[:2] == ["pip", "install"]:
        done = run(
            [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--no-deps",
             "--target", str(tmp_path / "site"), str(ROOT)],
            tmp_path, ROKETTO_PURE="1",  # compiling takes minutes, and has tests of its own
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "site" / "roketto" / "py.typed").exists()
        assert (tmp_path / "site" / "bin" / "mqnamesrv").exists()
        assert (tmp_path / "site" / "bin" / "mqbroker").exists()
    elif words[0] == "mqnamesrv":
        try_server(words, ["--port", "0"], "The Name Server boot success", tmp_path)
    elif words[0] == "mqbroker":
        try_server(words, ["--port", "0"], "boot success", tmp_path)
    elif words[:2] == ["roketto", "up"]:
        try_server(
            words, ["--port", "0", "--namesrv-port", "0"], "name server 127.0.0.1:", tmp_path
        )
    elif words[:2] == ["roketto", "store"]:
        try_store_tool(words, tmp_path)
    else:
        pytest.fail(f"{page}: nothing here knows how to try {command!r}")


def try_store_tool(words: list[str], folder: Path) -> None:
    """Run it beside a store that has what it names."""
    store = Store(
        folder / "store",
        StoreSettings(segment_bytes=65_536, queue_file_bytes=400, index_slots=100,
                      index_entries=400),
    )  # fmt: skip
    store.open(1)
    host = encode_host("127.0.0.1", 10911)
    for number in range(20):
        properties = encode_properties({"KEYS": f"order-{number}", "TAGS": "TagA"})
        record = Record("Orders", b"order %d" % number, properties, store_host=host)
        store.append(record)
    store.close()
    done = run(words, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or "--begin" in words


CONFIGURATIONS = {
    "namesrv.conf": "orderMessageEnable=true\n",
    "broker.conf": "brokerName=broker-a\nmappedFileSizeCommitLog=1048576\nmaxIndexNum=400\n",
}
"""Files that the pages name."""


def try_server(words: list[str], free_ports: list[str], banner: str, folder: Path) -> None:
    """Run it to its end, or until it serves; free ports take the place of those it would take."""
    for name, text in CONFIGURATIONS.items():
        (folder / name).write_text(text)
    if words[-1] in ("-p", "-m", "--help"):
        assert run(words, folder).returncode == 0
        return
    environment = {**os.environ, "HOME": str(folder)}
    with subprocess.Popen(
        [str(BIN / words[0]), *words[1:], *free_ports],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        while line and banner not in line:
            line = process.stdout.readline()
        process.terminate()
        _, stderr = process.communicate(timeout=20)
    assert banner in line, stderr
    assert process.returncode == 0, stderr


def test_the_demo_runs_without_java(tmp_path: Path) -> None:
    """./dev demo --no-java, as a newcomer types it."""
    done = run([str(ROOT / "dev"), "demo", "--no-java"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The Name Server boot success" in done.stdout
    assert "The broker[broker-a, " in done.stdout
    assert "it ended with signal 9" in done.stdout
    assert "2001 orders are there, of 2001 that were acknowledged" in done.stdout
    assert "Everything is stopped" in done.stdout


def test_dev_explains_itself() -> None:
    """Every command of the README's table exists, and every command is in it."""
    named = set(re.findall(r"^\| `\./dev (\w+)`", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named | {"demo"} == set(load_dev().COMMANDS)


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        (
            ["broker/second/test_a.py::test_a[java-5.5.0]@peer-5.5.0"],
            ["broker/second/test_a.py::test_a[java-5.5.0]"],
        ),
        (
            ["broker/test_a.py::test_a[4.9.7-java]@peer-4.9.7"],
            ["broker/test_a.py::test_a[4.9.7-java]"],
        ),
        (["broker/test_a.py::test_java_is_asked[4.9.7-ours]@peer-4.9.7"], []),
        (["test_peer.py::test_a[5.5.0]@peer-5.5.0"], ["test_peer.py::test_a[5.5.0]"]),
        (["broker/test_a.py::test_a[ours-5.5.0]@peer-5.5.0"], []),
        (["broker/test_a.py::test_a[java-5.5.0]", "broker/test_a.py::test_b[ours-5.5.0]"], []),
        ([f"broker/test_a.py::test_a[java-{n}]" for n in range(13)], []),
    ],
)
def test_scenarios_against_java_itself_are_run_again(failed: list[str], again: list[str]) -> None:
    """And only if nothing else has failed, and not many of them."""
    folder = "tests/interop/"
    found = load_dev().once_more([folder + name for name in failed], [])
    assert found == [folder + name for name in again]


def test_what_was_only_late_is_run_again_unless_something_was_wrong() -> None:
    once_more = load_dev().once_more
    late = [
        "tests/fault/broker/test_a.py::test_a",
        "tests/interop/test_b.py::test_b[ours]@peer-5.5.0",
        "tests/unit/test_c.py::test_c",
    ]
    java = "tests/interop/broker/test_a.py::test_a[java-5.5.0]"
    again = [late[0], "tests/interop/test_b.py::test_b[ours]", java]
    assert once_more([*late[:2], java], late) == again
    assert once_more([*late[:2], "tests/fault/test_d.py::test_d"], late) == []
    assert once_more(late, late) == []  # nobody keeps a unit test waiting but the test itself
    assert once_more([], late) == []


@pytest.mark.parametrize("page", ["one_message.md", "one_request.md", "store.md"])
def test_every_name_on_the_way_of_a_request_exists(page: str) -> None:
    """These pages name functions; each can be imported."""
    names = re.findall(r"`(roketto\.[\w.]+)`", (ROOT / "docs" / page).read_text())
    assert len(names) > 10
    for name in names:
        parts = name.split(".")
        for split in range(len(parts), 0, -1):
            try:
                found: object = importlib.import_module(".".join(parts[:split]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[split:]:
                found = getattr(found, attribute)
            break


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_documented_requests_are_the_ones_served() -> None:
    """The table of docs/namesrv.md and the table of handlers have the same codes."""
    section = (ROOT / "docs" / "namesrv.md").read_text().split("## What it answers")[1]
    table = section.split("It asks brokers")[0]
    codes = {int(code) for row in re.findall(r"\| ([\d, ]+) \|$", table, re.MULTILINE)
             for code in row.split(",")}  # fmt: skip
    assert codes == set(map(int, HANDLERS | SIMPLE_HANDLERS))


def option_table(config: Config) -> str:
    """The options of a server as its page shows them."""
    lines = ["| key | default | at run time | note |", "|---|---|---|---|"]
    for key, (name, kind, option) in fields_of(type(config)).items():
        default = str(getattr(config, name)).replace(str(Path.home()), "~")
        default = OF_THE_MACHINE.get(key, default)
        shown = default.lower() if kind is bool else default
        change = "yes" if option.changeable else ""
        lines.append(f"| `{key}` | {f'`{shown}`' if shown else ''} | {change} | {note(option)} |")
    return "\n".join(lines)


OF_THE_MACHINE = {
    "rocketmqHome": "$ROCKETMQ_HOME",
    "namesrvAddr": "$NAMESRV_ADDR",
    "brokerName": "the host's name",
    "brokerIP1": "the host's address",
    "brokerIP2": "the host's address",
}
"""Defaults that are found when a server starts."""


def note(option: Option) -> str:
    if not option.effective:
        return "no effect here"
    if option.choices:
        few = " or ".join(f"`{choice}`" for choice in option.choices)
        return few if len(option.choices) > 1 else f"only {few}"
    return "" if option.java else "ours"


@pytest.mark.parametrize(
    ("page", "config"), [("namesrv.md", NamesrvConfig()), ("broker.md", BrokerConfig())]
)
def test_the_option_table_is_the_configuration(page: str, config: Config) -> None:
    """The table of a page is made from the configuration; replace it when this fails."""
    text = (ROOT / "docs" / page).read_text()
    shown = text.split("<!-- options -->\n")[1].split("\n<!-- /options -->")[0]
    assert shown == option_table(config), f"the table should read:\n{option_table(config)}"
