"""The command ``mqnamesrv``: options as Java's, one line on standard error when it cannot run."""

import argparse

from roketto.program import load_file, print_items, run_program, say, serve, server_parser


def main(arguments: list[str] | None = None) -> int:
    parser = server_parser("mqnamesrv", "Tell RocketMQ clients which brokers hold their topics.")
    parser.add_argument(
        "-n", "--namesrvAddr", help="accepted for compatibility; a name server needs none"
    )
    return run_program("mqnamesrv", parser.parse_args(arguments), _run)


def _run(options: argparse.Namespace) -> None:
    from roketto.namesrv.config import NamesrvConfig

    config = NamesrvConfig()
    if options.configFile:
        load_file(config, options.configFile)
        config.config_store_path = options.configFile  # run-time changes go there, as in Java
        if not options.print_config:
            say(f"load config properties file OK, {options.configFile}\n")
    if options.port is not None:
        config.override({"listenPort": str(options.port)})
    if options.print_config:
        print_items(config)
        return
    from roketto.namesrv.app import NameServer
    from roketto.remoting.loop import run

    server = NameServer(config, config.given)

    def banner() -> str:
        where = f"{config.bind_address}:{server.port}"
        return f"The Name Server boot success. serializeType=JSON, address {where}"

    run(serve(server, f"{config.bind_address}:{config.listen_port}", banner))
