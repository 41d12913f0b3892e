"""The command: what it prints, how it ends, and that it changes nothing unless told to."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.__main__ import main as roketto
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.store.store import Store
from roketto.storetool.cli import main
from unit.storetool.stores import (
    COUNT,
    SEGMENT_BYTES,
    SETTINGS,
    Clock,
    Sent,
    fingerprint,
    index_path,
    make_store,
    message,
    patch,
    segment_path,
)

TESTS = Path(__file__).parents[2]
WAIT_S = 30


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, list[Sent]]:
    root = tmp_path / "store"
    return root, make_store(root)


class Done:
    """What one run printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


class Tool:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Done:
        self._capsys.readouterr()
        code = main(list(map(str, arguments)))
        return Done(code, *self._capsys.readouterr())


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(capsys)


# --- the commands ---------------------------------------------------------------------------------


def test_a_sound_store_is_reported_as_such(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """Exit code 0 and a summary; the same as JSON."""
    root, _ = made
    done = tool("check", root)
    assert done.code == 0
    assert f"{COUNT} records" in done.out
    assert "the store is cleanly stopped" in done.out
    assert done.out.endswith("0 damages, 0 notes\n")
    document = json.loads(tool("check", root, "--json").out)
    assert (document["records"], document["is_clean"], document["findings"]) == (COUNT, True, [])
    assert document["state"] == "clean"


def test_damage_is_reported_with_file_and_byte(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """One line for each finding, and exit code 1."""
    root, sent = made
    path, at = segment_path(root, sent[20].log_offset)
    patch(path, at + 100, b"\x00")
    done = tool("check", root)
    assert done.code == 1
    assert done.out.startswith(f"damage: {path} at byte {at}: ")
    assert done.out.endswith("1 damage, 0 notes\n")
    document = json.loads(tool("check", root, "--json").out)
    assert document["damages"] == {"record": 1}
    assert document["findings"][0]["path"] == str(path)
    assert document["findings"][0]["offset"] == at


def test_messages_are_printed_as_a_table(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """One line a message, whole even where no screen is wide enough."""
    root, sent = made
    done = tool("dump", root, "--topic", "T", "--queue", 1, "--limit", 3)
    head, *rows = done.out.splitlines()
    assert head.split() == ["topic", "queue", "offset", "log", "offset", "stored", "tags", "keys",
                            "body"]  # fmt: skip
    mine = [it for it in sent if (it.topic, it.queue_id) == ("T", 1)][:3]
    assert [row.split()[:4] for row in rows] == [
        ["T", "1", str(it.queue_offset), str(it.log_offset)] for it in mine
    ]
    assert done.code == 0
    assert len(tool("dump", root).out.splitlines()) == COUNT + 1


def test_messages_are_printed_as_json_lines(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """Each with everything that was sent."""
    root, sent = made
    lines = tool("dump", root, "--format", "json").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [
        Sent(
            it["topic"], it["queue_id"], it["queue_offset"], it["log_offset"], it["size"],
            it["store_time_ms"], it["offset_id"], it["body"].encode(), it["keys"][0], it["tags"],
        )
        for it in found
    ] == sent  # fmt: skip
    assert found[5]["properties"]["UNIQ_KEY"] == found[5]["unique_id"] == f"{5:032X}"


def test_one_offset_or_a_range_is_asked_for(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """But not both."""
    root, _ = made
    done = tool("dump", root, "-t", "T", "-i", 0, "-o", 4, "--format", "json")
    assert [json.loads(line)["queue_offset"] for line in done.out.splitlines()] == [4]
    done = tool("dump", root, "-o", 4, "--from-offset", 2)
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_a_dump_that_cannot_read_everything_says_so(
    made: tuple[Path, list[Sent]], tool: Tool
) -> None:
    """On standard error, and with exit code 1."""
    root, sent = made
    path, at = segment_path(root, sent[20].log_offset)
    patch(path, at, b"\xff" * 50)
    done = tool("dump", root, "--format", "json")
    assert done.code == 1
    assert len(done.out.splitlines()) == COUNT - 1
    assert f"{path} at byte {at}" in done.err
    done = tool("dump", root, "--log-offset", sent[20].log_offset)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    done = tool("dump", root, "--log-offset", 10**12)
    assert "is outside" in done.err


def test_the_figures_of_a_store_are_told(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """Sizes, times, topics, index, checkpoint; the same as JSON."""
    root, sent = made
    document = json.loads(tool("stat", root, "--json").out)
    assert (document["state"], document["messages"]) == ("clean", COUNT)
    assert document["segment_bytes"] == SEGMENT_BYTES
    assert document["log_end"] == sent[-1].log_offset + sent[-1].size
    assert document["first_time_ms"] == sent[0].store_time_ms
    assert document["last_time_ms"] == sent[-1].store_time_ms
    assert document["topics"] == [
        {"topic": "Other", "queues": 1, "messages": COUNT // 3, "next_offsets": COUNT // 3},
        {"topic": "T", "queues": 2, "messages": COUNT // 3 * 2, "next_offsets": COUNT // 3 * 2},
    ]
    assert (document["index_files"], document["index_entries"]) == (1, 3 * COUNT)
    assert (document["index_slots"], document["index_entries_max"]) == (101, 1_000)
    assert document["disk_bytes"]["commitlog"] > 0
    page = tool("stat", root).out
    assert re.search(r"^state +cleanly stopped$", page, re.MULTILINE)
    assert re.search(rf"^T +2 +{COUNT // 3 * 2} +{COUNT // 3 * 2}", page, re.MULTILINE)
    (root / "commitlog" / f"{0:020d}").unlink()
    (root / "abort").write_bytes(b"4711\n")
    index_path(root).write_bytes(b"broken")
    document = json.loads(tool("stat", root, "--json").out)
    assert document["messages"] == sum(it.log_offset >= SEGMENT_BYTES for it in sent)
    assert sum(it["next_offsets"] for it in document["topics"]) == COUNT
    assert (document["state"], document["process_id"]) == ("crashed", "4711")
    assert document["index_entries"] == 0


def test_a_store_without_messages_has_figures_too(tmp_path: Path, tool: Tool) -> None:
    """A directory with an empty log is a store."""
    (tmp_path / "commitlog").mkdir()
    assert tool("stat", tmp_path).code == 0
    assert tool("check", tmp_path).code == 0
    assert tool("dump", tmp_path).out == ""


def test_rebuilding_needs_to_be_told_to_write(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """And then says what it did, and how fast."""
    root, _ = made
    before = fingerprint(root)
    done = tool("rebuild", root)
    assert (done.code, done.out) == (2, "")
    assert "--write" in done.err
    assert fingerprint(root) == before
    done = tool("rebuild", root, "--write")
    assert done.code == 0
    assert re.search(rf"^read {COUNT} messages in .* MB/s$", done.out, re.MULTILINE)
    assert "queues: 3 made anew" in done.out
    assert f"index: {3 * COUNT} entries in 1 file" in done.out
    assert tool("check", root).code == 0
    done = tool("rebuild", root, "--write", "--only", "index")
    assert "queues" not in done.out
    assert tool("rebuild", root, "--write", "--delay-levels", "soon").code == 2


def test_rebuilding_from_a_damaged_log_changes_nothing(
    made: tuple[Path, list[Sent]], tool: Tool
) -> None:
    """The place is named, exit code 1."""
    root, sent = made
    path, at = segment_path(root, sent[20].log_offset)
    patch(path, at + 100, b"\x00")
    tool("rebuild", root)
    before = fingerprint(root)
    done = tool("rebuild", root, "--write")
    assert (done.code, done.out) == (1, "")
    assert f"{path} at byte {at}" in done.err
    assert "nothing was changed" in done.err
    assert fingerprint(root) == before


def test_nothing_but_rebuild_changes_a_store(made: tuple[Path, list[Sent]], tool: Tool) -> None:
    """Names, lengths, times and contents of every file, clean and crashed."""
    root, _ = made
    for _ in range(2):
        before = fingerprint(root)
        for arguments in (
            ("check",), ("check", "--json"), ("dump",), ("dump", "-t", "T"), ("dump", "-k", "key5"),
            ("dump", "--id", f"{7:032X}"), ("stat",), ("stat", "--json"), ("rebuild",),
        ):  # fmt: skip
            tool(arguments[0], root, *arguments[1:])
        assert fingerprint(root) == before
        (root / "abort").write_bytes(b"1")


# --- a store that is in use -----------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A store that another process writes to as fast as it can."""
    root = tmp_path / "live"
    with subprocess.Popen(
        [sys.executable, "-m", "unit.storetool.writer", str(root)],
        env={**os.environ, "PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield root
        process.kill()


def test_a_store_that_is_being_written_is_no_damage(running: Path, tool: Tool) -> None:
    """What is not there yet is a note; and nobody rebuilds it."""
    for _ in range(3):
        done = tool("check", running)
        assert done.code == 0, done.out
        assert "open in a running broker" in done.out
    assert json.loads(tool("stat", running, "--json").out)["state"] == "open"
    lines = tool("dump", running, "-t", "T", "-i", 0, "-n", 50, "--format", "json").out.splitlines()
    assert [json.loads(line)["queue_offset"] for line in lines] == list(range(50))
    done = tool("rebuild", running, "--write")
    assert done.code == 2
    assert "open in a running broker; stop it first" in done.err


# --- errors and endings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "nowhere"),
        ("check", "."),
        ("check", "file"),
        ("dump", "store", "--begin", "yesterday"),
        ("dump", "store", "--limit", "0"),
        ("dump", "store", "--tag", "||"),
        ("dump", "store", "--format", "xml"),
        ("check", "store", "--index-slots", "5"),
        ("check", "store", "--queue-file-bytes", "30"),
        ("check",),
        ("paint", "store"),
        (),
    ],
)
def test_errors_are_one_line(
    made: tuple[Path, list[Sent]], tool: Tool, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:  # fmt: skip
    """With the exit code 2, and nothing on standard output."""
    monkeypatch.chdir(made[0].parent)
    Path("file").touch()
    done = tool(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert done.err.startswith("roketto store")


@pytest.mark.parametrize("command", ["check", "dump", "stat", "rebuild"])
def test_every_command_explains_itself(tool: Tool, command: str) -> None:
    """And the program lists them all."""
    done = tool(command, "--help")
    assert done.code == 0
    assert f"Usage: roketto store {command} [OPTIONS] ROOT" in done.out
    assert command in tool("--help").out


def test_the_program_is_one_of_roketto(
    made: tuple[Path, list[Sent]], capsys: pytest.CaptureFixture[str]
) -> None:
    """``roketto store``."""
    assert roketto(["store", "stat", str(made[0])]) == 0
    assert "cleanly stopped" in capsys.readouterr().out


def test_a_reader_that_leaves_early_is_no_error(made: tuple[Path, list[Sent]]) -> None:
    """``| head -1``: the pipe is full and then closed."""
    with subprocess.Popen(
        [sys.executable, "-m", "roketto", "store", "dump", str(made[0]), "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("is_quiet", [False, True])
def test_progress_is_shown_to_those_who_can_see_it(
    made: tuple[Path, list[Sent]], is_quiet: bool
) -> None:
    """On a terminal, and not if it is not wanted; standard output is the same."""
    screen, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "roketto", "store", "check", str(made[0]),
             *(["--quiet"] if is_quiet else [])],
            stdout=subprocess.PIPE, stderr=terminal, check=True, timeout=WAIT_S,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )  # fmt: skip
        os.write(terminal, b"END")
        shown = b""
        while b"END" not in shown:
            shown += os.read(screen, 65_536)
    finally:
        os.close(screen)
        os.close(terminal)
    assert (b"checking" in shown) is not is_quiet
    assert done.stdout.endswith(b"0 damages, 0 notes\n")


def test_delayed_messages_are_due_by_the_levels_given(tmp_path: Path, tool: Tool) -> None:
    """The option reaches the queues."""
    root = tmp_path / "store"
    store = Store(root, SETTINGS, clock_ms=Clock())
    store.open(1)
    record = message(1, SCHEDULE_TOPIC, 1)
    record.set_property("DELAY", "2")
    where = store.append(record)
    store.close()
    assert tool("rebuild", root, "--write", "--delay-levels", "1s 9s").code == 0
    [path] = (root / "consumequeue" / SCHEDULE_TOPIC / "1").iterdir()
    assert int.from_bytes(path.read_bytes()[12:20]) == where.store_time_ms + 9_000
