"""``mqbroker`` and ``roketto up`` as processes: what they print and refuse, how they stop."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers import name_server

COMMANDS = {
    "mqbroker": [sys.executable, "-c", "from roketto.broker.cli import main; exit(main())"],
    "roketto": [sys.executable, "-m", "roketto", "broker"],
    "up": [sys.executable, "-m", "roketto", "up"],
}
BANNER = re.compile(
    r"The broker\[broker-a, 127\.0\.0\.1:(\d+)\] boot success\. serializeType=JSON"
    r"(?: and name server is (\S+))?\n"
)
STOP_TIMEOUT_S = 10


def run(*arguments: str, command: str = "mqbroker") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMANDS[command], *arguments], capture_output=True, text=True, timeout=30, check=False
    )


@contextmanager
def started(*arguments: str, command: str = "mqbroker") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMANDS[command], *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    """Ask it to stop; return what it had on standard error."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=STOP_TIMEOUT_S)
    assert process.returncode == 0, errors
    assert output == ""
    assert "Traceback" not in errors
    return errors


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(
        "# a broker of a test\nbrokerName = broker-a\nlistenPort = 0\nbindAddress=127.0.0.1\n"
        f"storePathRootDir={tmp_path}/store\nmappedFileSizeCommitLog=1048576\n"
        "maxHashSlotNum=100\nmaxIndexNum=400\n"
    )
    return path


# --- starting and stopping ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "number"), [("mqbroker", signal.SIGTERM), ("roketto", signal.SIGINT)]
)
def test_starts_on_a_free_port_serves_and_stops_cleanly(
    config: Path, tmp_path: Path, command: str, number: signal.Signals
) -> None:
    with started("-c", str(config), command=command) as process:
        (line,) = lines_of(process, 1)
        banner = BANNER.fullmatch(line)
        assert banner, line
        assert banner[2] is None
        assert (tmp_path / "store" / "abort").exists()
        with socket.create_connection(("127.0.0.1", int(banner[1])), timeout=5):
            stop(process, number)
    assert not (tmp_path / "store" / "abort").exists()


def test_name_server_is_in_the_banner(config: Path, tmp_path: Path) -> None:
    with (
        name_server(tmp_path) as names,
        started("-c", str(config), "-n", names.address) as process,
    ):
        (line,) = lines_of(process, 1)
        banner = BANNER.fullmatch(line)
        assert banner, line
        assert banner[2] == names.address
        stop(process)


def test_log_goes_to_files_as_json(config: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with started("-c", str(config), "--log-dir", str(logs), "--log-format", "json") as process:
        lines_of(process, 1)
        assert stop(process) == ""
    records = [json.loads(line) for line in (logs / "mqbroker.log").read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= records[0].keys()
    assert "asked to stop" in [record["message"] for record in records]


# --- printing -------------------------------------------------------------------------------------


def test_help_names_the_options_of_java() -> None:
    done = run("-h")
    assert done.returncode == 0
    for option in ("--configFile", "--namesrvAddr", "--printConfigItem", "--printImportantConfig"):
        assert option in done.stdout


def test_configuration_is_printed_as_a_property_file(config: Path) -> None:
    done = run("-c", str(config), "-p")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert {"brokerName=broker-a", "listenPort=0", "popPollingSize=1024"} <= set(lines)
    assert not [line for line in lines if "=" not in line]


def test_keys_without_effect_are_one_warning(config: Path) -> None:
    add(config, "sendMessageThreadPoolNums=4\npullMessageThreadPoolNums=4\n")
    done = run("-c", str(config), "-m")
    assert done.returncode == 0
    (warning,) = done.stderr.splitlines()
    assert "sendMessageThreadPoolNums, pullMessageThreadPoolNums have no effect here" in warning


# --- refusing -------------------------------------------------------------------------------------


def refused(*arguments: str, command: str = "mqbroker") -> str:
    """Run one that cannot start; return its only line."""
    done = run(*arguments, "--log-level", "ERROR", command=command)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_busy_port_is_one_line_and_not_zero(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("-c", str(config), "--port", str(port))
    assert line == f"mqbroker: cannot listen on 127.0.0.1:{port}: Address already in use"


def test_store_of_another_broker_is_one_line_and_not_zero(config: Path, tmp_path: Path) -> None:
    with started("-c", str(config)) as process:
        lines_of(process, 1)
        line = refused("-c", str(config))
        stop(process)
    assert line == (
        f"mqbroker: {tmp_path}/store/lock is locked: another broker has this store open;"
        " stop it first"
    )


def test_store_that_cannot_be_read_is_one_line_and_not_zero(config: Path, tmp_path: Path) -> None:
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    for name in ("00000000000000000000", "00000000000001048576"):
        (log / name).write_bytes(b"\1" * 1_000)
    line = refused("-c", str(config))
    assert line.startswith(f"mqbroker: {log}/0000")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brokerRole=SLAVE", "this broker does not replicate yet"),
        ("listenPrt=1", "unknown key 'listenPrt'; did you mean listenPort?"),
        ("storePathCommitLog=/elsewhere", "storePathCommitLog is /elsewhere; it can only be"),
        ("tls.server.mode=enforcing", "tls.server.certPath"),
        ("storePathRootDir=/dev/null/x", "/dev/null/x"),
        ("brokerIP1=no..host", "brokerIP1 is 'no..host'; its address cannot be found"),
        ("bindAddress=203.0.113.1", "cannot listen on 203.0.113.1:0: "),
    ],
)
def test_bad_configuration_is_one_line_and_not_zero(config: Path, text: str, said: str) -> None:
    add(config, text + "\n")
    line = refused("-c", str(config))
    assert line.startswith("mqbroker: ")
    assert said in line


# --- roketto up -----------------------------------------------------------------------------------


def test_up_says_in_three_lines_where_everything_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--data", str(data), "--port", "0", "--namesrv-port", "0")
    with started(*arguments, command="up") as process:
        where, kept, connect = lines_of(process, 3)
        ports = re.findall(r"127\.0\.0\.1:(\d+)", where)
        assert len(ports) == 2
        for port in ports:
            socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
        assert str(data / "store") in kept
        assert f"127.0.0.1:{ports[0]}" in connect
        line = refused(*arguments, command="up")
        assert line.startswith(f"roketto up: {data}/store/lock is locked")
        assert stop(process, signal.SIGINT) == ""
    assert not (data / "store" / "abort").exists()


def test_up_names_the_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--data", str(tmp_path), "--port", "0", "--namesrv-port", str(port))
        line = refused(*arguments, command="up")
    assert line == f"roketto up: cannot listen on 127.0.0.1:{port}: Address already in use"
