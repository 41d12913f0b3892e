"""``mqnamesrv`` as a process: what it prints, what it refuses in one line, how it stops."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roketto import __version__
from servers import name_server

COMMANDS = {
    "mqnamesrv": [sys.executable, "-c", "from roketto.namesrv.cli import main; exit(main())"],
    "roketto": [sys.executable, "-m", "roketto", "namesrv"],
}
BANNER = "The Name Server boot success. serializeType=JSON, address 127.0.0.1:"


def run(*arguments: str, command: str = "mqnamesrv") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMANDS[command], *arguments], capture_output=True, text=True, timeout=20, check=False
    )


@contextmanager
def started(*arguments: str, command: str = "mqnamesrv") -> Iterator[subprocess.Popen[str]]:
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


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "namesrv.conf"
    path.write_text(
        f"# a name server of a test\nlistenPort = 0\nbindAddress=127.0.0.1\n"
        f"kvConfigPath={tmp_path}/kv.json\n"
    )
    return path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_starts_on_a_free_port_serves_and_stops_cleanly(
    config: Path, command: str, number: signal.Signals
) -> None:
    with started("-c", str(config), command=command) as process:
        assert line_of(process) == f"load config properties file OK, {config}"
        banner = line_of(process)
        assert banner.startswith(BANNER)
        port = int(banner.removeprefix(BANNER))
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            process.send_signal(number)
            output, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert output == ""
    assert "Traceback" not in errors


def test_resident_memory_is_below_60_mb(tmp_path: Path) -> None:
    with name_server(tmp_path) as server:
        assert server.resident_kb() < 60 * 1024


def test_help_names_the_options_of_java() -> None:
    done = run("-h")
    assert done.returncode == 0
    for option in ("--configFile", "--namesrvAddr", "--printConfigItem", "--help"):
        assert option in done.stdout


def test_configuration_is_printed_as_a_property_file(config: Path) -> None:
    done = run("-c", str(config), "-p", "-n", "ignored:9876")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "listenPort=0" in lines
    assert "scanNotActiveBrokerInterval=5000" in lines
    assert f"configStorePath={config}" in lines
    assert not [line for line in lines if "=" not in line]


def test_password_is_not_printed(config: Path) -> None:
    with config.open("a") as file:
        file.write("tls.server.keyPassword=hunter2\n")
    done = run("-c", str(config), "-p")
    assert done.returncode == 0
    assert "hunter2" not in done.stdout + done.stderr


def test_key_without_effect_is_one_warning(config: Path) -> None:
    with config.open("a") as file:
        file.write("clientRequestThreadPoolNums=4\n")
    done = run("-c", str(config), "-p")
    assert done.returncode == 0
    (warning,) = done.stderr.splitlines()
    assert "clientRequestThreadPoolNums has no effect" in warning


def refused(*arguments: str) -> str:
    """Run a name server that cannot start; return its only line."""
    done = run(*arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("mqnamesrv: ")
    return line


def test_busy_port_is_one_line_and_not_zero(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("-c", str(config), "--port", str(port))
    assert line == f"mqnamesrv: cannot listen on 127.0.0.1:{port}: Address already in use"


def test_bad_address_is_one_line_and_not_zero(config: Path) -> None:
    with config.open("a") as file:
        file.write("bindAddress=203.0.113.1\n")
    assert "cannot listen on 203.0.113.1:0: " in refused("-c", str(config))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listenPrt=1", "unknown key 'listenPrt'; did you mean listenPort?"),
        ("listenPort=99999", "listenPort is '99999'; write an integer of 0..65535"),
        ("clusterTest=true", "clusterTest is 'true'; it can only be false"),
        ("tls.server.mode=enforcing", "tls.server.certPath"),
        ("kvConfigPath=/dev/null/x", "/dev/null/x"),
        ("listenPort=\\u00zz", "expected four hexadecimal digits"),
    ],
)
def test_bad_configuration_is_one_line_and_not_zero(config: Path, text: str, said: str) -> None:
    with config.open("a") as file:
        file.write(text + "\n")
    assert said in refused("-c", str(config))


def test_missing_file_is_one_line_and_not_zero(tmp_path: Path) -> None:
    assert "No such file" in refused("-c", str(tmp_path / "none.conf"))


def test_torn_kv_configuration_is_one_line_and_not_zero(config: Path, tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text('{"configTable":{"n"')
    assert f"{tmp_path}/kv.json" in refused("-c", str(config))


def test_bad_option_is_not_zero() -> None:
    done = run("--foo")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def roketto(argument: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "roketto", argument]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_roketto_shows_its_version_and_programs() -> None:
    version = roketto("--version")
    assert (version.returncode, version.stdout) == (0, f"roketto {__version__}\n")
    assert "namesrv" in roketto("--help").stdout


def test_unknown_program_is_not_zero() -> None:
    done = roketto("nope")
    assert done.returncode == 2
    assert "invalid choice: 'nope'" in done.stderr
