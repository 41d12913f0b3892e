"""What the programs of servers share: command line, configuration file, start, signals, stop."""

import argparse
import logging
import sys
from collections.abc import Callable
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL
from pathlib import Path
from signal import SIGINT, SIGTERM
from socket import gaierror
from typing import Final, Protocol

from roketto.logs import FORMATS, LEVELS, set_up_logs
from roketto.options import Config, ConfigError
from roketto.protocol.errors import BodyError
from roketto.protocol.properties_text import parse_properties

__all__ = [
    "Server",
    "add_log_options",
    "load_file",
    "print_items",
    "run_program",
    "say",
    "serve",
    "server_parser",
    "start",
]

log = logging.getLogger(__name__)

_LISTEN_ERRORS: Final = (EADDRINUSE, EADDRNOTAVAIL, EACCES)


class Server(Protocol):
    """What can be started, and stopped again."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def server_parser(program: str, description: str) -> argparse.ArgumentParser:
    """The options of Java's servers, and ours for ports and logs."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    add = parser.add_argument
    add("-c", "--configFile", type=Path, help="RocketMQ property file with the configuration")
    add(
        "-p",
        "--printConfigItem",
        dest="print_config",
        action="store_true",
        help="print the configuration and exit",
    )
    add("--port", type=int, help="listen here instead of at listenPort; 0 picks a free port")
    add_log_options(parser, "INFO")
    return parser


def add_log_options(parser: argparse.ArgumentParser, level: str) -> None:
    add = parser.add_argument
    said = f"{level} if not given"
    add("--log-level", type=str.upper, choices=LEVELS, default=level, help=said)
    add("--log-format", choices=FORMATS, default="text", help="text, or one JSON object a line")
    add("--log-dir", type=Path, help="write the log there, to files that rotate; not to stderr")


def run_program(
    program: str, options: argparse.Namespace, work: Callable[[argparse.Namespace], None]
) -> int:
    """Do the work and return the exit status; what prevents it is one line on standard error."""
    try:
        set_up_logs(
            program,
            level=options.log_level,
            lines=options.log_format,
            directory=options.log_dir,
        )
        work(options)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    return 0


def load_file(config: Config, path: Path) -> None:
    """Take the properties of a file; one warning names those that do nothing here."""
    try:
        unused = config.load(parse_properties(path.read_text("latin-1")))
    except (BodyError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if unused:
        verb = "has" if len(unused) == 1 else "have"
        log.warning("%s: %s %s no effect here", path, ", ".join(unused), verb)


def print_items(config: Config, *, important_only: bool = False) -> None:
    items = config.items(important_only=important_only)
    say("".join(f"{key}={value}\n" for key, value in items))


async def start(server: Server, where: str) -> None:
    """Start a server; ConfigError if it cannot listen at ``where``."""
    try:
        await server.start()
    except OSError as error:
        about_file = error.filename is not None
        if isinstance(error, gaierror) or (error.errno in _LISTEN_ERRORS and not about_file):
            reason = error.strerror or error
            raise ConfigError(f"cannot listen on {where}: {reason}") from error
        raise


async def serve(server: Server, where: str, banner: Callable[[], str]) -> None:
    """Start a server, print what it says then, and stop it when the process is asked to end.

    It ends at once when it is asked a second time.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        for number in (SIGTERM, SIGINT):
            loop.remove_signal_handler(number)

    for number in (SIGTERM, SIGINT):
        loop.add_signal_handler(number, stop)
    await start(server, where)
    say(f"{banner()}\n")
    await stopping.wait()
    log.info("asked to stop")
    await server.stop()


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
