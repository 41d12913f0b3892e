"""Both brokers count open transactions by topic in one file, and each goes on with the other's."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.broker.clients import Clients, Transacting, eventually_equal
from interop.peer import Broker, NameServer, Peer
from servers import broker

TOPIC = "Counted"
OTHER = "CountedToo"
OPS = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
pytestmark = pytest.mark.timeout(240)


class Site:
    """A name server of Java's, and one store that brokers take over from each other."""

    def __init__(self, peer: Peer, name_server: NameServer, folder: Path) -> None:
        self._peer = peer
        self._name_servers = [name_server.address]
        self._folder = folder
        self.clients = Clients(peer.clients(self._name_servers))

    @property
    def _settings(self) -> dict[str, str]:
        root = self._folder / "store"
        return {
            "brokerName": "counting",
            "storePathRootDir": str(root),
            "storePathCommitLog": str(root / "commitlog"),
            "mappedFileSizeCommitLog": "1048576",
            "mappedFileSizeConsumeQueue": "60000",
            "mappedFileSizeTimerLog": "1048576",
            "maxHashSlotNum": "10000",
            "maxIndexNum": "40000",
            "transactionTimeOut": "3600000",
            "transactionMetricFlushInterval": "1000",
        }

    def java(self) -> Broker:
        return self._peer.broker(self._name_servers, self._settings)

    def ours(self, number: int) -> ExitStack:
        """What stops it."""
        stack = ExitStack()
        folder = self._folder / f"log-{number}"
        folder.mkdir()
        stack.enter_context(broker(folder, self._name_servers, self._settings))
        return stack

    def text(self) -> str:
        """What is in the file; nothing while Java, which moves the last one away, writes it."""
        try:
            return (self._folder / "store" / "config" / "transactionMetrics").read_text()
        except FileNotFoundError:
            return ""

    def expect(self, counts: dict[str, int]) -> str:
        """Wait until the file says this; the form of its text, each number in it 0."""
        texts: list[str] = []

        def read() -> dict[str, int]:
            texts.append(self.text())
            try:
                table = json.loads(texts[-1]).get("transactionCount", {})
            except json.JSONDecodeError:  # Java writes it in place
                return {}
            return {topic: found["count"] for topic, found in table.items()}

        eventually_equal(read, counts, "the counts in the file")
        return re.sub(r"\d+", "0", texts[-1])

    def expect_ended(self, count: int) -> None:
        """Wait until so many ends are in the log: Java writes them late, and forgets at its stop
        those that it has not written."""
        eventually_equal(lambda: sum(ends_in(self._folder / "store")), count, "the ends in the log")


def ends_in(root: Path) -> list[int]:
    """How many transactions each message of the op topic ends, as far as the log can be read."""
    asked = ["store", "dump", str(root), "-t", OPS, "--format", "json", "-q"]
    told = subprocess.run(
        [sys.executable, "-m", "roketto", *asked],
        capture_output=True, text=True, check=False, timeout=60,  # a broker is writing
    )  # fmt: skip
    return [json.loads(line)["body"].count(",") for line in told.stdout.splitlines()]


@pytest.fixture
def site(peer: Peer, tmp_path: Path) -> Iterator[Site]:
    """With a name server that knows no other broker, which a new topic could be made on."""
    if not peer.version.startswith("5."):
        pytest.skip("4.9 counts no transactions")
    name_server = peer.name_server()
    yield Site(peer, name_server, tmp_path)
    name_server.stop()


def test_each_broker_goes_on_with_the_counts_of_the_other(site: Site) -> None:
    """Java's, then ours, then Java's again; and the file looks the same."""
    java = site.java()
    producer = Transacting(site.clients, "counted")
    for ending in ("UNKNOW", "UNKNOW", "COMMIT_MESSAGE", "ROLLBACK_MESSAGE"):
        producer.send(TOPIC, "body", ending)
    producer.end()
    form = site.expect({TOPIC: 2})
    site.expect_ended(2)
    java.stop()
    with site.ours(1):
        producer = Transacting(site.clients, "countedToo")
        producer.send(OTHER, "body", "UNKNOW")
        producer.send(TOPIC, "body", "UNKNOW")
        producer.end()
        assert site.expect({TOPIC: 3, OTHER: 1}).startswith(form[:-2])
    java = site.java()
    producer = Transacting(site.clients, "countedAgain")
    producer.send(OTHER, "body", "UNKNOW")
    producer.end()
    site.expect({TOPIC: 3, OTHER: 2})
    java.stop()
