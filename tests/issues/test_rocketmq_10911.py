"""#10911: frames of other connections were stored inside the body of a message.

Receive buffers are used again. A body that is still a view of one when it is stored, or read again
while its producer waits for the disk, becomes whatever came in next. Checksums do not help: they
are computed over the wrong bytes. So an append takes the bytes of its moment, and lets go.
"""

import threading
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from random import Random
from typing import Final

import pytest

from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, decode_command, encode_command
from roketto.protocol.frame import FrameDecoder
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import Record, decode_records
from roketto.store.files import Files, MappedFile
from roketto.store.flush import FlushSettings
from roketto.store.store import PutResult, Store, StoreSettings

WAIT_S: Final = 10.0
PROPERTIES: Final = encode_properties({"UNIQ_KEY": "U", "TAGS": "t"})
OTHER_FRAMES: Final = encode_command(Command(RequestCode.PULL_MESSAGE, body=b"?" * 50)) * 40
"""What comes in next, from somebody else."""


class Disk:
    """A disk that answers when it is told to."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def files(self) -> Files:
        gate = self.gate

        class GatedFile(MappedFile):
            __slots__ = ()

            def sync(self, start: int = 0, end: int = 0) -> None:
                assert gate.wait(WAIT_S)
                super().sync(start, end)

        class GatedFiles(Files):
            def create_mapped(self, path: Path, size: int) -> MappedFile:
                mapped = super().create_mapped(path, size)
                if path.parent.name == "commitlog":
                    mapped.__class__ = GatedFile
                return mapped

        return GatedFiles()


def settings(*, is_sync: bool, append_crc: bool) -> StoreSettings:
    return StoreSettings(
        segment_bytes=65_536, queue_file_bytes=2_000, index_slots=100, index_entries=1_000,
        is_flush_sync=is_sync, append_crc=append_crc,
        flush=FlushSettings(interval_ms=3_600_000),
    )  # fmt: skip


def append_single(store: Store, body: memoryview) -> int:
    return store.append(Record("T", body, PROPERTIES)).end


def append_batch(store: Store, body: memoryview) -> int:
    return store.append_batch(Record("T", body)).end


def store_while_the_buffer_changes(
    root: Path, settings: StoreSettings, append: Callable[[Store, memoryview], int], data: bytes
) -> list[bytes]:
    """Append from a receive buffer that is used again at once; the bodies as they are read."""
    disk = Disk()
    told = threading.Event()
    store = Store(
        root, settings, files=disk.files(), zone=UTC, on_flushed=lambda offset: told.set()
    )
    store.open(1)
    try:
        buffer = bytearray(OTHER_FRAMES)
        buffer[: len(data)] = data
        body = memoryview(buffer)[: len(data)]
        append(store, body)
        buffer[:] = OTHER_FRAMES  # its producer still waits for the disk
        body.release()
        buffer.clear()  # BufferError if anybody holds on to it
        if settings.is_flush_sync:
            assert not told.is_set()
            assert store.get("T", 0, 0, 32).count == 0
            disk.gate.set()
            assert told.wait(WAIT_S)
            store.advance()
        return read(store)
    finally:
        disk.gate.set()
        store.close()


def read(store: Store) -> list[bytes]:
    result = store.get("T", 0, 0, 32)
    return [bytes(r.body) for view in result.views for r in decode_records(view, strict=True)]


@pytest.mark.parametrize("append_crc", [False, True])
@pytest.mark.parametrize("is_sync", [False, True])
@pytest.mark.parametrize("shape", ["single", "batch"])
def test_a_body_is_what_it_was_when_it_was_appended(
    tmp_path: Path, shape: str, is_sync: bool, append_crc: bool
) -> None:
    """Whatever comes into the buffer later, before the disk has answered; and after a restart."""
    bodies = [b"first" * 20, b"second" * 20] if shape == "batch" else [b"the only one" * 20]
    data = encode_batch(BatchItem(body, PROPERTIES) for body in bodies)
    append = append_batch if shape == "batch" else append_single
    if shape == "single":
        data = bodies[0]
    chosen = settings(is_sync=is_sync, append_crc=append_crc)
    assert store_while_the_buffer_changes(tmp_path, chosen, append, data) == bodies
    store = Store(tmp_path, chosen, zone=UTC)
    store.open(2)
    assert read(store) == bodies
    store.close()


def test_a_body_that_is_copied_too_late_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: the bytes are taken once more when the disk has answered."""
    late: list[tuple[bytearray, PutResult]] = []
    honest_append, honest_advance = Store.append, Store.advance

    def append(self: Store, record: Record) -> PutResult:
        assert isinstance(record.body, memoryview)
        assert isinstance(record.body.obj, bytearray)
        late.append((record.body.obj, honest_append(self, record)))
        return late[-1][1]

    def advance(self: Store) -> int:
        while late:
            buffer, where = late.pop()
            stored = self._log.read(where.log_offset, where.size)
            at = bytes(stored).find(b"the only one")
            stored[at : at + 12] = buffer[:12].ljust(12, b"?")
        return honest_advance(self)

    monkeypatch.setattr(Store, "append", append)
    monkeypatch.setattr(Store, "advance", advance)
    chosen = settings(is_sync=True, append_crc=False)
    found = store_while_the_buffer_changes(tmp_path, chosen, append_single, b"the only one" * 20)
    assert found != [b"the only one" * 20]


# --- the way to the store: frames of many connections ---------------------------------------------


def bodies_of_connections(decoders: list[FrameDecoder], seed: int) -> list[list[bytes]]:
    """Feed the frames of each connection in pieces, in turns; look at the bodies at the end."""
    random = Random(seed)
    streams = [
        b"".join(encode_command(request(number, n)) for n in range(30))
        for number in range(len(decoders))
    ]
    kept: list[list[memoryview]] = [[] for _ in decoders]
    receive_buffer = bytearray(4_096)  # one for all connections, as an event loop has it
    while any(streams):
        number = random.choice([n for n, stream in enumerate(streams) if stream])
        size = min(random.randrange(1, 3_000), len(streams[number]))
        receive_buffer[:size] = streams[number][:size]
        streams[number] = streams[number][size:]
        for frame in decoders[number].feed(bytes(receive_buffer[:size])):
            kept[number].append(memoryview(decode_command(frame).body))
    return [[bytes(body) for body in bodies] for bodies in kept]


def request(connection: int, number: int) -> Command:
    body = b"connection %d, request %d;" % (connection, number) * (1 + number % 40)
    return Command(RequestCode.SEND_MESSAGE, body=body)


def expected_bodies(count: int) -> list[list[bytes]]:
    return [[bytes(request(c, n).body) for n in range(30)] for c in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_bodies_of_connections_do_not_mix(seed: int) -> None:
    """A body stays what it was though its connection and others have gone on receiving."""
    assert bodies_of_connections([FrameDecoder() for _ in range(4)], seed) == expected_bodies(4)


def test_a_decoder_that_uses_its_buffer_again_is_noticed() -> None:
    """The planted bug: frames are views of one buffer for all connections."""
    shared = bytearray(1 << 20)

    class Pooled(FrameDecoder):
        __slots__ = ()

        def feed(self, received: bytes) -> list[memoryview]:
            frames = super().feed(received)
            at = 0
            pooled = []
            for frame in frames:
                shared[at : at + len(frame)] = frame
                pooled.append(memoryview(shared)[at : at + len(frame)])
                at += len(frame)
            return pooled

    assert bodies_of_connections([Pooled() for _ in range(4)], 0) != expected_bodies(4)
