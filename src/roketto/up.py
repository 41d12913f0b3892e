"""The command ``roketto up``: a name server and a broker in one process, for development."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from roketto.options import ConfigError
from roketto.program import add_log_options, run_program, serve, start

if TYPE_CHECKING:
    from roketto.broker.config import BrokerConfig
    from roketto.namesrv.config import NamesrvConfig

HOST = "127.0.0.1"

SMALL_FILES = {
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 3_000),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}
"""So that it starts at once and an empty topic takes little disk."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="roketto up",
        description="Run a name server and a broker for development, on this machine only.",
    )
    add = parser.add_argument
    add("--data", type=Path, default=Path("roketto-data"), help="keep everything here")
    add("--namesrv-port", type=int, default=9876, help="of the name server; 0 picks a free one")
    add("--port", type=int, default=10911, help="of the broker; 0 picks a free one")
    add_log_options(parser, "WARNING")
    return run_program("roketto up", parser.parse_args(arguments), _run)


def _run(options: argparse.Namespace) -> None:
    from roketto.allocator import keep_freed_memory
    from roketto.remoting.loop import run
    from roketto.store.errors import StoreError

    keep_freed_memory()
    both = Both(
        names_config(options.data, options.namesrv_port), broker_config(options.data, options.port)
    )
    try:
        run(serve(both, HOST, both.describe))
    except StoreError as error:
        raise ConfigError(str(error)) from error


def names_config(data: Path, port: int) -> "NamesrvConfig":
    """A name server on loopback with its files in ``data``."""
    from roketto.namesrv.config import NamesrvConfig

    folder = data.absolute() / "namesrv"
    config = NamesrvConfig(
        bind_address=HOST,
        kv_config_path=folder / "kvConfig.json",
        config_store_path=folder / "namesrv.properties",
    )
    config.override({"listenPort": str(port)})
    return config


def broker_config(data: Path, port: int) -> "BrokerConfig":
    """A broker on loopback with its store in ``data``, which makes topics when they are used."""
    from roketto.broker.config import BrokerConfig

    config = BrokerConfig(
        broker_name="roketto",
        bind_address=HOST,
        auto_create_topic_enable=True,
        store_path_root_dir=data.absolute() / "store",
    )
    config.override({"listenPort": str(port), **SMALL_FILES})
    return config


class Both:
    """A name server, and a broker that registers with it."""

    def __init__(self, names: "NamesrvConfig", broker: "BrokerConfig") -> None:
        from roketto.broker.app import Broker
        from roketto.namesrv.app import NameServer

        self._names_config = names
        self._broker_config = broker
        self._names = NameServer(names)
        self._broker = Broker(broker)

    @property
    def name_server(self) -> str:
        return f"{HOST}:{self._names.port}"

    @property
    def address(self) -> str:
        """Where the broker is."""
        return f"{HOST}:{self._broker.port}"

    async def start(self) -> None:
        await start(self._names, f"{HOST}:{self._names_config.listen_port}")
        self._broker_config.namesrv_addr = self.name_server
        try:
            await start(self._broker, f"{HOST}:{self._broker_config.listen_port}")
        except BaseException:
            await self._names.stop()
            raise

    async def stop(self) -> None:
        await self._broker.stop()
        await self._names.stop()

    def describe(self) -> str:
        """Where everything is and how to get there, in three lines."""
        root = self._broker_config.store_path_root_dir
        return (
            f"name server {self.name_server}, broker {self.address}; Ctrl-C stops both\n"
            f"messages are kept in {root}; topics are created when they are first used\n"
            f'to connect: producer.setNamesrvAddr("{self.name_server}"), or'
            f" export NAMESRV_ADDR={self.name_server}"
        )
