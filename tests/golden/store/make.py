"""Make the golden files of a store: run the real brokers, use and stop them, keep the tables."""

import shutil
import tempfile
import time
from pathlib import Path

from interop.peer import VERSIONS, Peer

HERE = Path(__file__).parent
SAVE_INTERVAL_S = 12
"""Brokers write filters and delay offsets every ten seconds."""

CREATE = ("updateTopic", "-c", "DefaultCluster", "-r", "2", "-w", "2", "-t")
UPDATE_GROUP = ("updateSubGroup", "-c", "DefaultCluster", "-g")
RETRY = (
    '{"type":"EXPONENTIAL",'
    '"exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}'
)  # fmt: skip


def use(peer: Peer, name_server: str) -> None:
    """Give every table something to hold."""
    commands: list[tuple[str, ...]] = [(*CREATE, "Golden"), (*CREATE, "GoldenOrdered")]
    if peer.version.startswith("4."):
        commands.append((*UPDATE_GROUP, "GoldenRetry", "-r", "3"))
    else:
        commands += [
            (*CREATE, "GoldenFifo", "-a", "+message.type=FIFO"),
            (*UPDATE_GROUP, "GoldenRetry", "-p", RETRY),
            (*UPDATE_GROUP, "GoldenQuiet", "-m", "false"),
            ("setConsumeMode", "-c", "DefaultCluster", "-t", "Golden", "-g", "GoldenPop",
             "-m", "POP", "-q", "2"),
        ]  # fmt: skip
    for command in commands:
        peer.mqadmin(*command, name_server=name_server)
    clients = peer.start("GoldenClients", name_server, "Golden", "GoldenOrdered")
    clients.wait_for_output("READY", timeout_s=180)
    if not peer.version.startswith("4."):
        peer.run("PopConsumer", name_server, "Golden", "GoldenPop", "3")
    peer.run("SendReceive", name_server, "GoldenMany", "50")
    time.sleep(SAVE_INTERVAL_S)
    clients.stop()


def make(version: str, store: Path) -> None:
    with Peer(version) as peer:
        name_server = peer.name_server()
        broker = peer.broker(
            [name_server.address],
            {
                "enablePropertyFilter": "true",
                "transactionCheckInterval": "2000",
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
            },
        )
        use(peer, name_server.address)
        broker.stop()


def keep(version: str, store: Path) -> None:
    target = HERE / version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in (store / "checkpoint", *sorted((store / "config").glob("*.json"))):
        shutil.copy(path, target)


if __name__ == "__main__":
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            make(version, Path(folder))
            keep(version, Path(folder))
