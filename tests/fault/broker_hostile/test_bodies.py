"""S14: a broker keeps bodies as they come, packed or not; bombs and broken ones do it no harm."""

import lzma
import random
import zlib
from functools import cache
from pathlib import Path
from typing import Final

import lz4.frame
import pytest
import zstandard

from fault.broker.wire import Queue, ask, connected, read_queue, send_request
from fault.broker_hostile.target import Target, target
from roketto.protocol.codes import ResponseCode
from roketto.protocol.compression import decompress
from roketto.protocol.errors import ProtocolError
from roketto.protocol.sysflags import COMPRESSED, COMPRESSION_TYPE
from roketto.remoting.connection import Connection

MEMORY_GROWTH_KB_MAX: Final = 64 * 1024
PROPERTIES: Final = {"UNIQ_KEY": "7F00000100000000000000000000000A", "WAIT": "true"}
PACKED_BYTES: Final = 128 * 1024 * 1024
"""What each bomb unpacks to: far more than the bound on the broker's memory here."""
FLAGS: Final = tuple(COMPRESSED | kind for kind in range(0, COMPRESSION_TYPE + 1, 0x100))


@cache
def bombs() -> list[bytes]:
    """So many zeros in some kilobytes, by each way that clients have, and by others."""
    zeros = bytes(1 << 20)
    rounds = PACKED_BYTES // len(zeros)
    inflating = zlib.compressobj(9)
    zlib_bomb = b"".join(inflating.compress(zeros) for _ in range(rounds)) + inflating.flush()
    zstd = zstandard.ZstdCompressor().compressobj()
    zstd_bomb = b"".join(zstd.compress(zeros) for _ in range(rounds)) + zstd.flush()
    lz4_bomb = lz4.frame.compress(bytes(8 << 20)) * 8
    return [zlib_bomb, zstd_bomb, lz4_bomb, lzma.compress(zeros), zlib.compress(zlib_bomb)]


def broken(seed: int, count: int) -> list[bytes]:
    """Packed bodies that were cut or changed, and some that never were packed."""
    chance = random.Random(seed)
    text = b"a body like any other, " * 50
    packed = (
        zlib.compress(text),
        zstandard.compress(text),
        lz4.frame.compress(text),
        text,
        chance.randbytes(300),
    )
    found = []
    for _ in range(count):
        body = bytearray(chance.choice(packed))
        for _ in range(chance.randrange(4)):
            body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        found.append(bytes(body[: chance.randrange(1, len(body) + 1)]))
    return found


async def store(
    connection: Connection, queue: Queue, bodies: list[tuple[bytes, int]]
) -> list[tuple[bytes, int]]:
    """Send bodies with their flags, and read back what the queue has then."""
    for body, flag in bodies:
        answer = await ask(connection, send_request(queue, body, PROPERTIES, sys_flag=flag))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    records = await read_queue(connection, queue)
    return [(bytes(record.body), record.sys_flag) for record in records]


async def attack(broker: Target, seed: int, count: int) -> None:
    chance = random.Random(seed)
    bodies = [(body, chance.choice((0, *FLAGS))) for body in broken(seed, count)]
    async with connected(broker.address) as connection:
        assert await store(connection, Queue(f"Broken{seed}", 0), bodies) == bodies


async def test_bombs_are_kept_and_never_unpacked(tmp_path: Path) -> None:
    """Under every flag; memory stays what it was, and readers get the very bytes."""
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            made = [(body, flag) for body in bombs() for flag in FLAGS]
            assert max(len(body) for body, _ in made) < 4 << 20
            before_kb = broker.server.resident_kb()
            assert await store(connection, Queue("Bombs", 0), made) == made
            # The log is mapped: its pages count as resident, and no more than these.
            kept_kb = sum(len(body) for body, _ in made) * 2 // 1024
            assert broker.server.resident_kb() - before_kb < kept_kb + MEMORY_GROWTH_KB_MAX


def test_a_bomb_is_refused_by_who_unpacks_it() -> None:
    """The other end: a consumer of ours has a bound."""
    for body, flag in zip(bombs()[:2], (COMPRESSED | 0x300, COMPRESSED | 0x200), strict=True):
        with pytest.raises(ProtocolError):
            decompress(body, flag)


async def test_broken_bodies_are_kept_as_they_are(tmp_path: Path) -> None:
    """1,000 of them, cut and changed, with flags that may be wrong."""
    with target(tmp_path) as broker:
        await attack(broker, 1, 1_000)


async def test_broken_batches_are_refused_whole(tmp_path: Path) -> None:
    """A batch is taken apart by the broker, so what cannot be is not stored at all."""
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            for body in broken(2, 300):
                request = send_request(Queue("Batches", 0), body, {}, is_batch=True)
                answer = await ask(connection, request)
                assert answer.code != ResponseCode.SUCCESS, body.hex()
            assert await read_queue(connection, Queue("Batches", 0)) == []


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_many_more_broken_bodies(tmp_path: Path) -> None:
    """The long tier: a hundred thousand."""
    with target(tmp_path) as broker:
        for seed in range(100, 200):
            await attack(broker, seed, 1_000)
