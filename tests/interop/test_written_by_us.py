"""What Roketto writes, the real Java classes of both versions read: bodies, records, batches."""

import random
from base64 import b64decode, b64encode
from pathlib import Path

from interop.peer import Peer
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.bodies import (
    assignment,
    auth,
    connections,
    controller,
    groups,
    ha,
    heartbeat,
    kv,
    lite,
    locks,
    offsets,
    pop,
    registration,
    route,
    running,
    stats,
    topics,
)
from roketto.protocol.bodies.base import decode_body, encode_body
from roketto.protocol.compression import compress
from roketto.protocol.fastjson import parse
from roketto.protocol.hosts import encode_host
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, encode_record
from roketto.protocol.sysflags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)
from unit.protocol.bodies.families import GOLDEN, golden, structs

FAMILIES = (
    assignment, auth, connections, controller, groups, ha, heartbeat, kv, lite, locks, offsets,
    pop, registration, route, running, stats, topics,
)  # fmt: skip
SEED = 20
RUNS = 60


def test_java_reads_our_bodies(peer: Peer, tmp_path: Path) -> None:
    """Java decodes each body that we wrote and writes it again: the same values come back."""
    java_class = {
        name.rpartition(".")[2].rpartition("$")[2] or name: name
        for name in (GOLDEN / f"classes-{peer.version}.txt").read_text().split()
    }
    bodies = {name: cls for module in FAMILIES for name, cls in structs(module).items()}
    texts = golden(f"{peer.version}.tsv")
    sent = {
        java_class[name]: encode_body(decode_body(bodies[name], text.encode())).decode()
        for name, text in texts.items()
        if name in bodies and name in java_class
    }
    assert len(sent) >= 35
    written, read = tmp_path / "written.tsv", tmp_path / "read.tsv"
    written.write_text("".join(f"{name}\t{text}\n" for name, text in sent.items()))
    peer.run("ReadBodies", str(written), str(read))
    answers = dict(line.split("\t", 1) for line in read.read_text().splitlines())
    for name, answer in answers.items():
        short = name.rpartition(".")[2].rpartition("$")[2]
        assert not answer.startswith("! "), f"{name}: {answer}"
        assert same(parse(answer.encode()), parse(texts[short].encode())), f"{name}: {answer}"
    assert len(answers) == len(sent)


def same(ours: object, theirs: object) -> bool:
    """Whether two parsed bodies agree; keys that are objects compare by their members."""
    return canonical(ours) == canonical(theirs)


def canonical(node: object) -> object:
    if isinstance(node, dict):
        return sorted(
            (repr(canonical(getattr(k, "members", k))), canonical(v)) for k, v in node.items()
        )
    if isinstance(node, list):
        return sorted((canonical(item) for item in node), key=repr)
    return node


def random_record(chance: random.Random) -> Record:
    """A record with any of the hosts, compressions and texts that a message can have."""
    hosts = [encode_host("10.1.2.3", 10911), encode_host("2001:db8::7", 65535)]
    properties = {f"名{n}": f"value {n} é" for n in range(chance.randrange(4))}
    body = chance.randbytes(chance.randrange(200)) * chance.choice((1, 30))
    sys_flag = chance.choice((0, 4, 8, 12))
    packed = body
    if chance.random() < 0.6 and body:
        kind = chance.choice((COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD))
        packed = compress(body, kind)
        sys_flag |= COMPRESSED | kind
    return Record(
        chance.choice(("T", "%RETRY%group", "x" * 127)),
        packed,
        encode_properties({"UNIQ_KEY": f"{chance.randrange(1 << 60):032X}", **properties}),
        queue_id=chance.randrange(1 << 31),
        flag=chance.randrange(-(1 << 31), 1 << 31),
        queue_offset=chance.randrange(1 << 63),
        log_offset=chance.randrange(1 << 63),
        sys_flag=sys_flag,
        born_time_ms=chance.randrange(1 << 45),
        born_host=chance.choice(hosts),
        store_time_ms=chance.randrange(1 << 45),
        store_host=chance.choice(hosts),
        reconsume_times=chance.randrange(20),
        prepared_log_offset=chance.randrange(1 << 40),
    )


def shown(record: Record) -> tuple[str, str, int, int, int, int, int, int, int]:
    """What both sides can print alike."""
    record.decompress()
    return (
        record.topic, b64encode(record.body).decode(), record.queue_id, record.flag,
        record.queue_offset, record.log_offset, record.born_time_ms, record.store_time_ms,
        record.reconsume_times,
    )  # fmt: skip


def test_java_reads_our_records_and_batches(peer: Peer, tmp_path: Path) -> None:
    """Runs of records with both kinds of hosts and all compressions, and batch bodies.

    Every other run has the checksum over the whole record, which 4.9 does not know.
    """
    chance = random.Random(SEED)
    runs = [[random_record(chance) for _ in range(chance.randrange(1, 5))] for _ in range(RUNS)]
    batches = [
        [BatchItem(chance.randbytes(9), encode_properties({"K": f"v{n}"}), n) for n in range(3)]
        for _ in range(5)
    ]
    texts = [
        b"".join(encode_record(record, append_crc=number % 2 == 1) for record in run)
        for number, run in enumerate(runs)
    ]
    lines = ["records " + b64encode(text).decode() for text in texts]
    lines += ["batch " + b64encode(encode_batch(batch)).decode() for batch in batches]
    written = tmp_path / "written"
    written.write_text("\n".join(lines) + "\n")
    printed = peer.run("ReadRecords", str(written)).split("\n\n")
    for run, text in zip(runs, printed, strict=False):
        rows = [row.split("\t") for row in text.strip("\n").split("\n")]
        assert len(rows) == len(run)
        for record, row in zip(run, rows, strict=True):
            topic, body, queue, flag, offset, log, born, _, stored, _, tries, *_ = row
            numbers = map(int, (queue, flag, offset, log, born, stored, tries))
            assert (topic, body, *numbers) == shown(record)
            assert dict(items(row[-1])).items() >= record.properties.items()
    for batch, text in zip(batches, printed[len(runs) :], strict=False):
        rows = [row.split("\t") for row in text.strip("\n").split("\n")]
        assert [(b64decode(row[1]), int(row[2])) for row in rows] == [
            (item.body, item.flag) for item in batch
        ]


def items(encoded: str) -> list[tuple[str, str]]:
    pairs = b64decode(encoded).decode().split(";")
    return [(name, value) for name, _, value in (pair.partition("=") for pair in pairs) if name]
