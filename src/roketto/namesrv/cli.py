"""The command ``mqnamesrv``: options as Java's, one line on standard error when it cannot run."""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from roketto.namesrv.config import NamesrvConfig
from roketto.options import ConfigError
from roketto.protocol.errors import BodyError
from roketto.protocol.properties_text import parse_properties

log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        config, stored = _configure(options)
        if options.print_config:
            _print("".join(f"{key}={value}\n" for key, value in config.items()))
            return 0
        from roketto.remoting.loop import run

        run(_serve(config, stored))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"mqnamesrv: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mqnamesrv", description="Tell RocketMQ clients which brokers hold their topics."
    )
    add = parser.add_argument
    add("-c", "--configFile", type=Path, help="RocketMQ property file with the configuration")
    add("-n", "--namesrvAddr", help="accepted for compatibility; a name server needs none")
    add(
        "-p",
        "--printConfigItem",
        dest="print_config",
        action="store_true",
        help="print the configuration and exit",
    )
    add("--port", type=int, help="listen here instead of at listenPort; 0 picks a free port")
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    add("--log-level", type=str.upper, choices=levels, default="INFO", help="INFO if not given")
    return parser


def _configure(options: argparse.Namespace) -> tuple[NamesrvConfig, dict[str, str]]:
    """Return the configuration and the properties of its file."""
    config = NamesrvConfig()
    stored: dict[str, str] = {}
    if options.configFile:
        try:
            stored = parse_properties(options.configFile.read_text("latin-1"))
            unused = config.load(stored)
        except (BodyError, ConfigError) as error:
            raise ConfigError(f"{options.configFile}: {error}") from error
        config.config_store_path = options.configFile  # run-time changes go there, as in Java
        for key in unused:
            log.warning("%s: %s has no effect here", options.configFile, key)
        if not options.print_config:
            _print(f"load config properties file OK, {options.configFile}\n")
    if options.port is not None:
        config.load({"listenPort": str(options.port)})
    return config, stored


async def _serve(config: NamesrvConfig, stored: dict[str, str]) -> None:
    from roketto.namesrv.app import NameServer

    server = NameServer(config, stored)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        await server.start()
    except OSError as error:
        where = f"{config.bind_address}:{config.listen_port}"
        raise ConfigError(f"cannot listen on {where}: {error.strerror or error}") from error
    where = f"{config.bind_address}:{server.port}"
    _print(f"The Name Server boot success. serializeType=JSON, address {where}\n")
    await stopping.wait()
    log.info("the name server stops")
    await server.stop()


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
