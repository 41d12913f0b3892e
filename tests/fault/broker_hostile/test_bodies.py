"""S14: a broker keeps bodies as they come, packed or not; bombs and broken ones do it no harm."""

import lzma
import random
import resource
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import lz4.frame
import pytest
import zstandard

from fault.broker.wire import Queue, ask, connected, read_queue, send_request
from fault.broker_hostile.target import Target, target
from fault.broker_hostile.watched import UNPACKED, note_unpacking, unpack_bodies
from roketto.protocol.batch import BatchItem, encode_batch
from roketto.protocol.codes import RequestCode, ResponseCode
from roketto.protocol.command import Command
from roketto.protocol.compression import decompress
from roketto.protocol.errors import ProtocolError
from roketto.protocol.headers.base import encode_header
from roketto.protocol.headers.pull import PullMessageRequest
from roketto.protocol.limits import DECOMPRESSED_BYTES_MAX
from roketto.protocol.properties import encode_properties
from roketto.protocol.record import decode_records
from roketto.protocol.sysflags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    PULL_SUBSCRIPTION,
)
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
    lz4_frame = lz4.frame.LZ4FrameCompressor(block_linked=False)
    lz4_bomb = lz4_frame.begin() + b"".join(lz4_frame.compress(zeros) for _ in range(rounds))
    lz4_bomb += lz4_frame.flush()
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


async def read_in_every_way(connection: Connection, queue: Queue) -> list[bytes]:
    """The bodies of a queue, however they can be asked for: all ways must give the same."""
    found: list[list[bytes]] = [
        [bytes(record.body) for record in await read_queue(connection, queue)]
    ]
    for kind, text in (("TAG", "*"), ("SQL92", "UNIQ_KEY IS NOT NULL")):
        bodies: list[bytes] = []
        while len(bodies) < len(found[0]):
            header = PullMessageRequest(
                consumer_group="readers", topic=queue.topic, queue_id=queue.queue_id,
                queue_offset=len(bodies), max_msg_nums=32, sys_flag=PULL_SUBSCRIPTION,
                consume_offset=0, suspend_timeout_ms=0, sub_version=0, subscription=text,
                expression_type=kind,
            )  # fmt: skip
            answer = await ask(connection, Command(RequestCode.PULL_MESSAGE, encode_header(header)))
            assert answer.code == ResponseCode.SUCCESS, (kind, answer.remark)
            bodies += [bytes(record.body) for record in decode_records(memoryview(answer.body))]
        found.append(bodies)
    assert found[0] == found[1] == found[2]
    return found[0]


async def bomb(folder: Path, bug: Callable[[], None]) -> None:
    """Send bombs one by one and in a batch, and read them; nobody may have unpacked any."""
    with target(folder, {"enablePropertyFilter": "true"}, bug=bug) as broker:
        async with connected(broker.address) as connection:
            made = [(body, flag) for body in bombs() for flag in FLAGS]
            queue = Queue("Bombs", 0)
            assert await store(connection, queue, made) == made
            items = [BatchItem(body, encode_properties(PROPERTIES)) for body in bombs()]
            for flag in FLAGS:
                body = encode_batch(items)
                request = send_request(queue, body, PROPERTIES, sys_flag=flag, is_batch=True)
                assert (await ask(connection, request)).code == ResponseCode.SUCCESS
            bodies = await read_in_every_way(connection, queue)
            assert bodies == [body for body, _ in made] + bombs() * len(FLAGS)
        unpacked = broker.config_file.with_name(UNPACKED)
        assert not unpacked.exists(), f"somebody unpacks: {unpacked.read_text()}"
    print(f"{len(bodies)} bombs of up to {PACKED_BYTES >> 20} MiB, none of them unpacked")


async def test_nothing_that_a_broker_does_with_a_body_unpacks_it(tmp_path: Path) -> None:
    """Sends, batches, pulls by tags and by properties, reads of ranges."""
    await bomb(tmp_path, note_unpacking)


async def test_a_broker_that_unpacks_bodies_is_noticed(tmp_path: Path) -> None:
    """Planted: it does so when they come."""
    with pytest.raises(AssertionError, match=r"somebody unpacks: \w"):
        await bomb(tmp_path, unpack_bodies)


@pytest.mark.parametrize("kind", [COMPRESSION_ZLIB, COMPRESSION_ZSTD, COMPRESSION_LZ4])
def test_a_bomb_is_refused_by_who_unpacks_it(kind: int) -> None:
    """The other end: a consumer of ours has a bound, and needs not much more memory than that."""
    number = (COMPRESSION_ZLIB, COMPRESSION_ZSTD, COMPRESSION_LZ4).index(kind)
    body = bombs()[number]
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ProtocolError, match="unpacks to more than"):
        decompress(body, COMPRESSED | kind)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < (DECOMPRESSED_BYTES_MAX >> 10) + MEMORY_GROWTH_KB_MAX, grown_kb


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
