"""Brokers of Java's and ours over stores that change hands, at one name server of Java's."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from interop.broker.clients import Clients
from interop.peer import Broker, NameServer, Peer
from servers import ServerProcess, broker

_SMALL: Final = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "autoCreateTopicEnable": "false",
}


class Handover:
    """Starts brokers, each with a name of its own, whoever had their store before.

    with ExitStack() as stack:
        site = Handover(peer, name_server, folder, stack, {"timerWheelEnable": "true"})
        java = site.start_java("first", site.root("first"))
        ...
        ours, stop = site.start_ours("second", site.root("first"))
    """

    def __init__(
        self,
        peer: Peer,
        name_server: NameServer,
        folder: Path,
        stack: ExitStack,
        config: Mapping[str, str],
    ) -> None:
        self._peer = peer
        self._name_server = name_server.address
        self._folder = folder
        self._stack = stack
        self._config = config
        self.clients = Clients(peer.clients([self._name_server]))

    def root(self, name: str) -> Path:
        return self._folder / name

    def _settings(self, name: str, root: Path) -> dict[str, str]:
        return {
            **_SMALL,
            "brokerName": name,
            "storePathRootDir": str(root),
            "storePathCommitLog": str(root / "commitlog"),
            **self._config,
        }

    def start_java(self, name: str, root: Path, config: Mapping[str, str] | None = None) -> Broker:
        settings = self._settings(name, root) | dict(config or {})
        started = self._peer.broker([self._name_server], settings, wait_registered=False)
        self._stack.callback(started.kill)
        return started

    def start_ours(self, name: str, root: Path) -> tuple[ServerProcess, ExitStack]:
        """And what stops it."""
        folder = self._folder / f"{name}-log"
        folder.mkdir()
        stack = self._stack.enter_context(ExitStack())
        running = broker(folder, [self._name_server], self._settings(name, root))
        return stack.enter_context(running), stack
