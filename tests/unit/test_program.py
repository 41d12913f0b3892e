"""Whatever keeps a server from starting is one line that names it, and exit status 1."""

import argparse
import errno
import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from roketto.options import UNUSED, Config, ConfigError, Option
from roketto.program import load_file, print_items, run_program, server_parser, start


@dataclass(slots=True)
class EchoConfig(Config):
    program = "echo"
    listen_port: Annotated[int, Option(important=True)] = 7
    beats: Annotated[int, UNUSED] = 1
    bars: Annotated[int, UNUSED] = 1


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def start(self) -> None:
        raise self.error

    async def stop(self) -> None:
        raise AssertionError("it was never started")


def options() -> argparse.Namespace:
    return server_parser("echo", "Say it again.").parse_args([])


def test_work_that_is_done_is_status_0() -> None:
    assert run_program("echo", options(), lambda _: None) == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("port is 'x'"), "echo: port is 'x'\n"),
        (FileNotFoundError(2, "No such file", "a"), "echo: [Errno 2] No such file: 'a'\n"),
    ],
)
def test_what_prevents_the_work_is_one_line_and_status_1(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: argparse.Namespace) -> None:
        raise error

    assert run_program("echo", options(), work) == 1
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EADDRINUSE, "Address already in use"),
        OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"),
        PermissionError(errno.EACCES, "Permission denied"),
        socket.gaierror(-2, "Name or service not known"),
    ],
)
async def test_address_that_cannot_be_had_is_named(error: OSError) -> None:
    with pytest.raises(ConfigError) as caught:
        await start(Failing(error), "h:1")
    assert str(caught.value) == f"cannot listen on h:1: {error.strerror}"


@pytest.mark.parametrize(
    "error", [PermissionError(errno.EACCES, "Permission denied", "/store"), OSError(errno.EIO, "x")]
)
async def test_failure_of_a_disk_is_not_one_of_the_port(error: OSError) -> None:
    with pytest.raises(OSError) as caught:
        await start(Failing(error), "h:1")
    assert caught.value is error


def test_keys_that_do_nothing_are_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "echo.conf"
    path.write_text("beats=2\nlistenPort=8\nbars=3\n")
    config = EchoConfig()
    with caplog.at_level(logging.WARNING):
        load_file(config, path)
    assert config.listen_port == 8
    assert caplog.messages == [f"{path}: beats, bars have no effect here"]


def test_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "echo.conf"
    path.write_text("listenPrt=2\n")
    with pytest.raises(ConfigError, match="did you mean listenPort") as caught:
        load_file(EchoConfig(), path)
    assert str(caught.value).startswith(f"{path}: ")


def test_items_are_printed_as_a_property_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(EchoConfig())
    assert capsys.readouterr().out == "listenPort=7\nbeats=1\nbars=1\n"
    print_items(EchoConfig(), important_only=True)
    assert capsys.readouterr().out == "listenPort=7\n"
