"""The file of a broadcasting consumer's offsets passes from Java's client to ours and back."""

from pathlib import Path

from interop.peer import Peer
from roketto.client.offset_file import read_offsets, write_offsets
from roketto.protocol.bodies.route import MessageQueue


def test_java_and_we_read_the_offsets_of_each_other(peer: Peer, tmp_path: Path) -> None:
    """Java's own class writes one, we change it, and it reads what we have written."""
    path = tmp_path / "offsets.json"
    peer.run("OffsetFiles", "write", str(path))
    offsets = read_offsets(path)
    assert offsets[MessageQueue("broker-a", 0, "Orders")] == 12
    offsets[MessageQueue("broker-ü", 3, "%RETRY%group")] = 2**62 + 1
    write_offsets(path, offsets)
    lines = peer.run("OffsetFiles", "read", str(path)).splitlines()
    rows = [line.split("\t") for line in lines if line.count("\t") == 3]
    assert {
        MessageQueue(broker_name, int(queue_id), topic): int(offset)
        for topic, broker_name, queue_id, offset in rows
    } == offsets
