"""``roketto store`` reads what Java's brokers wrote, while they run and after, and rebuilds it."""

import json
import shutil
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.peer import NameServer, Peer
from interop.stores.compare import body_digest, check_view
from interop.stores.java_view import JavaView, Message, look
from interop.stores.killed import copy_as_killed
from roketto.protocol.names import SCHEDULE_TOPIC
from roketto.protocol.sysflags import COMPRESSED
from roketto.store.store import Store, StoreSettings
from roketto.storetool.cli import main
from unit.storetool.stores import fingerprint, patch

WAIT_S = 20.0
SETTINGS = StoreSettings(
    segment_bytes=16_777_216, queue_file_bytes=60_000, index_slots=10_000, index_entries=40_000
)
"""As the broker is configured; the tool finds it out by itself."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The store of a broker that runs, what Java's clients saw of it, and a copy of that moment."""

    view: JavaView
    root: Path
    copy: Path


@pytest.fixture(scope="module")
def filled(
    peer: Peer, java_name_server: NameServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """A broker of its own: with an undecided transaction it is never idle again."""
    names = {"brokerName": "broker-tool", "brokerClusterName": "Tool"}
    broker = peer.broker([java_name_server.address], names)
    root = broker.process.log.parent / "store"
    steps = ["fill:Tool:60:2500", "dump"]
    view = look(peer, java_name_server.address, broker, root, steps)
    copy = tmp_path_factory.mktemp("tool") / "copy"
    copy_as_killed(broker, root, copy)
    yield Filled(view, root, copy)
    broker.kill()


class Tool:
    """Runs the command and reads its JSON."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(list(map(str, arguments)))
        return code, *self._capsys.readouterr()

    def check(self, root: Path) -> dict[str, object]:
        code, out, err = self("check", root, "--json")
        assert not err
        document: dict[str, object] = json.loads(out)
        assert code == (0 if document["is_clean"] else 1)
        return document

    def dump(self, root: Path, *arguments: object) -> list[dict[str, object]]:
        code, out, err = self("dump", root, "--format", "json", *arguments)
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return Tool(capsys)


@pytest.fixture
def clean(filled: Filled, tmp_path: Path) -> Iterator[Path]:
    """A copy without the abort mark: the broker had written everything when it was taken."""
    root = tmp_path / "clean"
    shutil.copytree(filled.copy, root)
    (root / "abort").unlink()
    yield root
    shutil.rmtree(root)


def as_seen(shown: dict[str, object]) -> Message:
    """What the tool prints of a message, as Java's client shows it."""
    text, packed = str(shown.get("body", "")), str(shown.get("body_base64", ""))
    body = text.encode() or b64decode(packed)
    names = (
        "topic", "queue_id", "queue_offset", "log_offset", "size", "store_time_ms", "born_time_ms",
        "sys_flag", "flag", "reconsume_times", "prepared_log_offset", "body_crc",
    )  # fmt: skip
    values = [shown[name] for name in names]
    values[7] = int(str(values[7])) & ~COMPRESSED  # Java's client says what it has unpacked
    return Message._make([*values, body_digest(body), shown["properties"]])


def test_a_running_broker_is_checked_without_a_complaint(filled: Filled, tool: Tool) -> None:
    """It goes on writing meanwhile, and nothing is asked of it."""
    checked = tool.check(filled.root)
    assert (checked["state"], checked["damages"]) == ("open", {}), checked["findings"]
    assert tool("stat", filled.root)[0] == 0
    assert tool("rebuild", filled.root, "--write")[0] == 2


def test_what_kill_9_leaves_is_checked_without_a_complaint(filled: Filled, tool: Tool) -> None:
    """Every record, unit and key of Java's is right, and no byte is changed by looking."""
    before = fingerprint(filled.copy)
    checked = tool.check(filled.copy)
    assert (checked["state"], checked["damages"]) == ("crashed", {}), checked["findings"]
    assert int(str(checked["records"])) >= len(filled.view.all_messages()) > 60
    assert int(str(checked["entries"])) > 100
    tool("stat", filled.copy)
    tool.dump(filled.copy)
    assert fingerprint(filled.copy) == before


def test_a_store_of_java_has_no_findings_at_all(clean: Path, tool: Tool) -> None:
    """Where nothing is excused: tags, delays, keys, times, tables and checkpoint agree."""
    checked = tool.check(clean)
    assert (checked["state"], checked["findings"]) == ("clean", [])
    assert int(str(checked["tables"])) >= 3


def test_the_dump_is_what_java_s_client_sees(filled: Filled, tool: Tool) -> None:
    """All messages of all topics, each queue in its order; bodies unpacked."""
    shown = [as_seen(it) for it in tool.dump(filled.copy)]
    by_queue: dict[tuple[str, int], list[Message]] = {}
    for message in shown:
        by_queue.setdefault((message.topic, message.queue_id), []).append(message)
    seen = {key: messages for key, messages in filled.view.messages.items() if messages}
    assert seen
    for key, messages in seen.items():
        assert by_queue[key][: len(messages)] == messages, key
        topic, queue_id = key
        asked = tool.dump(filled.copy, "--topic", topic, "--queue", queue_id)
        assert [as_seen(it) for it in asked][: len(messages)] == messages, key


def test_messages_of_java_are_found_by_key_and_id(filled: Filled, tool: Tool) -> None:
    """By what its producers were told, with and without the topic."""
    assert filled.view.sent
    for sent in filled.view.sent[:20]:
        place = (sent.topic, sent.queue_id, sent.queue_offset)
        for arguments in (
            ("--id", sent.message_id),
            ("--id", sent.unique_key, "--topic", sent.topic),
            ("--key", sent.unique_key, "--topic", sent.topic),
        ):
            found = [
                (it["topic"], it["queue_id"], it["queue_offset"])
                for it in tool.dump(filled.copy, *arguments)
            ]
            assert found == [place], arguments


def test_the_figures_are_those_that_java_tells(filled: Filled, tool: Tool) -> None:
    """Messages per topic, and the sizes that nobody has told the tool."""
    stat = json.loads(tool("stat", filled.copy, "--json")[1])
    assert (stat["segment_bytes"], stat["queue_file_bytes"]) == (16_777_216, 60_000)
    assert (stat["index_slots"], stat["index_entries_max"]) == (10_000, 40_000)
    told = {it["topic"]: it["messages"] for it in stat["topics"]}
    for topic in {topic for topic, _ in filled.view.queues if topic.startswith("Tool")}:
        ends = [ends for key, ends in filled.view.queues.items() if key[0] == topic]
        assert told.get(topic, 0) == sum(end - first for first, end in ends), topic


def test_what_is_rebuilt_is_what_java_had_built(clean: Path, filled: Filled, tool: Tool) -> None:
    """Queue files byte for byte and the same entries in the index; then it opens and has it all."""
    queues, entries = queue_files(clean), index_entries(clean)
    assert entries
    for path in (clean / "consumequeue").rglob("*"):
        if path.is_file() and path.parent.parent.name.startswith("Tool"):
            patch(path, 0, b"\x11" * 200)
    assert tool.check(clean)["damages"]
    code, out, err = tool("rebuild", clean, "--write")
    assert (code, err) == (0, ""), err
    assert "MB/s" in out
    assert tool.check(clean)["findings"] == []
    assert written(queue_files(clean)) == written(queues)
    assert index_entries(clean) == entries
    store = Store(clean, SETTINGS)
    store.open(1)
    try:
        assert check_view(store, filled.view) > 60
    finally:
        store.close()


def queue_files(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


def written(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files with units: Java makes some before it has any."""
    return {name: content for name, content in files.items() if any(content)}


def index_entries(root: Path) -> list[tuple[int, int, int, int]]:
    """Hash, log offset, seconds and predecessor of each entry."""
    found = []
    for path in sorted((root / "index").iterdir()):
        content = path.read_bytes()
        (count,) = struct.unpack_from(">i", content, 36)
        entries = content[40 + 4 * 10_000 + 20 : 40 + 4 * 10_000 + 20 * count]
        found += list(struct.iter_unpack(">iqii", entries))
    return found


def test_damage_to_a_store_of_java_is_found(clean: Path, filled: Filled, tool: Tool) -> None:
    """One byte of one body, and one tag of one unit."""
    message = next(it for it in filled.view.all_messages() if it.topic != SCHEDULE_TOPIC)
    path = clean / "commitlog" / f"{0:020d}"
    body_at = message.log_offset + 90
    patch(path, body_at, lambda old: bytes([old[0] ^ 1]), 1)
    queue = clean / "consumequeue" / message.topic / str(message.queue_id) / f"{0:020d}"
    patch(queue, message.queue_offset * 20 + 19, lambda old: bytes([old[0] ^ 1]), 1)
    code, out, _ = tool("check", clean)
    assert code == 1
    lines = [line for line in out.splitlines() if line.startswith("damage")]
    assert [line.split(": ")[1] for line in lines] == [
        f"{path} at byte {message.log_offset}",
        f"{queue} at byte {message.queue_offset * 20}",
    ]
