"""The command ``mqbroker``: options as Java's, one line on standard error when it cannot run."""

import argparse
from typing import TYPE_CHECKING

from roketto.options import ConfigError
from roketto.program import load_file, print_items, run_program, serve, server_parser

if TYPE_CHECKING:
    from roketto.broker.config import BrokerConfig


def main(arguments: list[str] | None = None) -> int:
    parser = server_parser("mqbroker", "Keep the messages of RocketMQ's topics and hand them out.")
    parser.add_argument(
        "-n", "--namesrvAddr", help="the name servers: host:port, several separated by ;"
    )
    parser.add_argument(
        "-m",
        "--printImportantConfig",
        dest="print_important",
        action="store_true",
        help="print the important part of the configuration and exit",
    )
    return run_program("mqbroker", parser.parse_args(arguments), _run)


def _run(options: argparse.Namespace) -> None:
    config = _configure(options)
    if options.print_config or options.print_important:
        print_items(config, important_only=not options.print_config)
        return
    from roketto.allocator import keep_freed_memory
    from roketto.broker.app import Broker
    from roketto.remoting.loop import run
    from roketto.store.errors import StoreError

    keep_freed_memory()
    broker = Broker(config)
    where = f"{config.bind_address}:{config.listen_port}"
    try:
        run(serve(broker, where, lambda: banner(config, broker.port)))
    except StoreError as error:
        raise ConfigError(str(error)) from error


def _configure(options: argparse.Namespace) -> "BrokerConfig":
    from roketto.broker.config import BrokerConfig

    config = BrokerConfig()
    if options.configFile:
        load_file(config, options.configFile)
        config.override({"brokerConfigPath": str(options.configFile)})
    # The default comes from the environment, which must be as right as a file.
    name_servers = options.namesrvAddr or config.namesrv_addr
    said = {"listenPort": options.port, "namesrvAddr": name_servers}
    config.override({key: str(value) for key, value in said.items() if value is not None})
    return config


def banner(config: "BrokerConfig", port: int) -> str:
    """What Java's broker prints when it serves; scripts wait for it."""
    name_servers = f" and name server is {config.namesrv_addr}" if config.namesrv_addr else ""
    where = f"{config.broker_name}, {config.broker_ip1}:{port}"
    return f"The broker[{where}] boot success. serializeType=JSON{name_servers}"
