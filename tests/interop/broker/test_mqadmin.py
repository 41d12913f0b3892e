"""mqadmin of 4.9.7 and 5.5.0: every command shows of our broker what it shows of Java's.

What each of them shows is in tests/golden/mqadmin; docs/mqadmin.md says where ours differs, and why
(tests/tidy/test_mqadmin_table.py compares the two). A line, a column or a number more or less fails
here.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import ndiff
from pathlib import Path
from typing import Final

from interop.broker.clients import WAIT_S, Clients, Transacting, eventually
from interop.broker.cluster import Cluster, JavaCluster
from interop.broker.mqadmin_lines import FILES, is_ours_only, lines_for
from interop.broker.mqadmin_text import (
    apply,
    java_file,
    normalize,
    our_file,
    read_exported,
    read_sections,
    split,
    write_sections,
)
from interop.peer import Peer, PeerFailedError

_RECORDS: Final = "ROKETTO_RECORD" in os.environ
_AGAIN_S: Final = 0.2
_SURELY_S: Final = 2.0
"""After which all that follows in its own time has followed."""
_HELP: Final = "help"

LINES_LEAST: Final = 80
"""The smaller version has somewhat more."""

Sections = dict[str, list[str]]


class Terminal:
    """Somebody who types one line after the other."""

    def __init__(self, peer: Peer, cluster: Cluster, values: dict[str, str]) -> None:
        self._peer = peer
        self._cluster = cluster
        self._values = values
        self._is_java = isinstance(cluster, JavaCluster)
        self.java = read_sections(java_file(peer.version))
        self.ours = read_sections(our_file(peer.version))

    def expected(self, line: str) -> list[str] | None:
        """What a line is to show; None if that is not written down."""
        java = self.java.get(line)
        return java if self._is_java else self.ours.get(line, java)

    def run_all(self) -> Sections:
        """What each line shows that this version has a command for, and the commands it has."""
        names = self._peer.mqadmin_commands()
        shown = {_HELP: names}
        for line in lines_for(self._peer.version, names):
            if not (self._is_java and is_ours_only(line)):
                shown[line] = self._type(line)
        return shown

    def _type(self, line: str) -> list[str]:
        typed, filters = split(line)
        if "endless" in filters:
            return self._watch(line, typed, filters)
        deadline_s = time.monotonic() + WAIT_S
        if _RECORDS and "until" in filters:
            time.sleep(_SURELY_S)
        while True:
            output = self._run(typed) + self._exported(filters)
            shown = apply(output, [one.format_map(self._values) for one in filters])
            is_done = "until" not in filters or shown == self.expected(line)
            if is_done or _RECORDS or time.monotonic() > deadline_s:
                return shown
            time.sleep(_AGAIN_S)

    def _watch(self, line: str, typed: str, filters: list[str]) -> list[str]:
        """What a command shows that never ends, until it is what is expected."""
        name_server = self._cluster.name_server
        started = self._peer.start_mqadmin(*self._words(typed), name_server=name_server)
        deadline_s = time.monotonic() + WAIT_S
        try:
            while True:
                shown = apply(self._normalize(started.log.read_text()), filters)
                is_done = shown == self.expected(line) and not _RECORDS
                if is_done or time.monotonic() > deadline_s or not started.running:
                    return shown
                time.sleep(_AGAIN_S)
        finally:
            started.kill()

    def _exported(self, filters: list[str]) -> list[str]:
        names = [one.removeprefix("file ") for one in filters if one.startswith("file ")]
        paths = [Path(self._values["files"]) / name for name in names]
        texts = [read_exported(path) for path in paths if path.exists()]
        return self._normalize("\n".join(texts))

    def _run(self, typed: str) -> list[str]:
        words, name_server = self._words(typed), self._cluster.name_server
        try:
            output = self._peer.mqadmin_output(*words, name_server=name_server)
        except PeerFailedError as failure:
            return [f"it failed: {failure}"]
        code = [f"exit code {output.exit_code}"] if output.exit_code else []
        return self._normalize(output.stdout + output.stderr) + code

    def _words(self, typed: str) -> list[str]:
        return [word.format_map(self._values) for word in typed.split()]

    def _normalize(self, text: str) -> list[str]:
        """Without the second master, which may be there or not."""
        found = normalize(text, self._values)
        return [line for line in found if "broker-b" not in line and "{second}" not in line]


@contextmanager
def prepared(peer: Peer, cluster: Cluster, clients: Clients, folder: Path) -> Iterator[Terminal]:
    """Topics with messages, a group that has read them, and who types."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    address = cluster.main.address
    for topic, queues in ("AdmOrders", 4), ("AdmSingle", 1), ("AdmSent", 4):
        clients.make_topic(topic, queues, [address])
    messages = [{"body": f"order {n}", "keys": f"key{n}", "tags": "tagA"} for n in range(8)]
    orders = clients.send("AdmOrders", messages)
    sent = clients.send("AdmSingle", messages[:3])
    producer = Transacting(clients, "admProducers")
    producer.send("AdmSent", "sent", "COMMIT_MESSAGE")
    with (
        clients.push("adm", "AdmOrders", group="admReaders") as reader,
        clients.push("admSingle", "AdmSingle") as single,
    ):
        reader.received(8)
        single.received(3)
        eventually(lambda: sorted(reader.offsets().values()) == [2, 2, 2, 2], "offsets")
        eventually(lambda: list(single.offsets().values()) == [3], "offsets")
        eventually(lambda: is_producing(peer, cluster), "a heartbeat of the producer")
        values = {
            "broker": address, "second": cluster.address_of("broker-b"),
            "namesrv": cluster.name_server, "files": str(folder),
            "store": str(cluster.log_files("broker-a")[0].parents[1]),
            "id": sent[1].offset_id, "unique": sent[1].id, "client": client_id(peer, cluster),
            "order": orders[0].offset_id,
        }  # fmt: skip
        yield Terminal(peer, cluster, values)
    producer.end()


def client_id(peer: Peer, cluster: Cluster) -> str:
    """The id of the consumer, as the broker tells it."""
    shown = peer.mqadmin("consumerConnection", "-g", "admReaders", name_server=cluster.name_server)
    found = re.search(r"\S+@\S+", shown)
    assert found is not None, shown
    return found[0]


def is_producing(peer: Peer, cluster: Cluster) -> bool:
    """Whether the broker knows the producer: it says so some time after it was started."""
    asked = ("producerConnection", "-g", "admProducers", "-t", "AdmSent")
    return "JAVA" in peer.mqadmin_output(*asked, name_server=cluster.name_server).stdout


def record(peer: Peer, cluster: Cluster, terminal: Terminal, shown: Sections) -> None:
    """Write down what was shown, as what is expected from now on; of ours only what differs."""
    java, ours = java_file(peer.version), our_file(peer.version)
    write_sections(java if isinstance(cluster, JavaCluster) else ours, shown)
    terminal.java, terminal.ours = read_sections(java), read_sections(ours)
    if terminal.java:
        found = terminal.ours.items()
        terminal.ours = {line: said for line, said in found if terminal.java.get(line) != said}
        write_sections(ours, terminal.ours)


def test_mqadmin_shows_what_is_written_down(
    peer: Peer, cluster: Cluster, clients: Clients, tmp_path: Path
) -> None:
    """Of Java's broker and of ours: every line of every command, with errors and exit codes."""
    with prepared(peer, cluster, clients, tmp_path) as terminal:
        shown = terminal.run_all()
    if _RECORDS:
        record(peer, cluster, terminal, shown)
    differing = [
        "\n".join([f"$ {line}", *ndiff(terminal.expected(line) or [], found)])
        for line, found in shown.items()
        if found != terminal.expected(line)
    ]
    assert not differing, "\n" + "\n".join(differing)
    assert len(shown) > LINES_LEAST
