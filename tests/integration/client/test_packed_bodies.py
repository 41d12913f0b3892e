"""Compressed bodies that nobody can unpack, or should: consumers get them as they were sent."""

import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.client.pull_rig import PullRig, name, queue, until
from integration.client.push_rig import LATER, SUCCESS, Heard, hurry, push
from roketto.client.positions import Positions
from roketto.client.push_tuning import PushTuning
from roketto.protocol.compression import compress
from roketto.protocol.limits import DECOMPRESSED_BYTES_MAX
from roketto.protocol.sysflags import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
)
from servers import broker, name_server

KINDS: Final = (COMPRESSION_ZLIB, COMPRESSION_LZ4, COMPRESSION_ZSTD)
UNKNOWN: Final = COMPRESSION_TYPE
"""All its bits: nobody has so many kinds yet."""
TEXT: Final = b"two teas and a coffee, " * 200
BOMB_BYTES: Final = 16 * DECOMPRESSED_BYTES_MAX
UNPACKED_BYTES_MAX: Final = 4 * DECOMPRESSED_BYTES_MAX
"""What all of a test may take at its peak: output, the pieces that it is put together from, and
messages that wait. A bomb takes four times as much."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    config = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s"}
    with name_server(folder) as names, broker(folder, [names.address], config) as server:
        yield names.address, server.address


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def rig(servers: tuple[str, str]) -> AsyncIterator[PullRig]:
    async with PullRig(*servers) as made:
        yield made


def damaged() -> dict[bytes, int]:
    """Bodies, and the compression that each is said to have: changed, cut off, longer, of another
    kind, of none.
    """
    found: dict[bytes, int] = {}
    for kind in KINDS:
        packed = compress(TEXT, kind)
        found[packed[: len(packed) // 2]] = kind
        found[packed + b"!"] = kind
        found[b"\xff" * 8 + packed[8:]] = kind
        found[b"plain text, they say of kind %d" % kind] = kind
    found[compress(TEXT + b"of a kind to come", COMPRESSION_ZLIB)] = UNKNOWN
    return found


def bomb() -> bytes:
    packer = zlib.compressobj(9)
    zeros = bytes(1024 * 1024)
    parts = [packer.compress(zeros) for _ in range(BOMB_BYTES // len(zeros))]
    return b"".join([*parts, packer.flush()])


async def test_damaged_bodies_come_as_they_are_and_hold_nobody_up(
    rig: PullRig, caplog: pytest.LogCaptureFixture
) -> None:
    """They are marked as still packed, come again if the listener says so, also as dead letters;
    and what is behind them comes at once, unpacked.
    """
    topic = await rig.topic()
    bodies = damaged()
    for body, kind in bodies.items():
        await rig.send(topic, [body], sys_flag=COMPRESSED | kind)
    await rig.send(topic, [compress(TEXT, COMPRESSION_ZSTD)],
                   sys_flag=COMPRESSED | COMPRESSION_ZSTD)  # fmt: skip
    await rig.send(topic, [b"the end"])
    heard = Heard(lambda message: LATER if message.body in bodies else SUCCESS)
    group = name()
    tuning = PushTuning(reconsume_max=1)
    async with push(rig, topic, group, listener=heard, tuning=tuning) as consumer:
        await heard.more(len(bodies) + 2)
        first = heard.messages[: len(bodies) + 2]
        assert {message.body for message in first} == {*bodies, TEXT, b"the end"}
        await heard.more(len(bodies))
        again = heard.messages[len(bodies) + 2 :]
        assert {message.body for message in again} == set(bodies)
        assert {message.reconsume_times for message in again} == {1}
        for message in [*first, *again]:
            is_packed = message.record.sys_flag & COMPRESSED
            assert bool(is_packed) == (message.body in bodies)
            if is_packed:
                assert message.record.sys_flag & COMPRESSION_TYPE == bodies[message.body]
        positions = Positions(consumer.client)

        async def are_dead() -> bool:
            return await positions.max_offset(queue(f"%DLQ%{group}")) == len(bodies)

        await until(are_dead)
        assert consumer.offsets(topic) == {queue(topic): len(bodies) + 2}
    assert len(heard.messages) == 2 * len(bodies) + 2
    said = [record.getMessage() for record in caplog.records]
    assert sum("is given as it is" in text for text in said) >= 2 * len(bodies)


async def test_a_bomb_is_not_unpacked_beyond_the_bound(
    rig: PullRig, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes as it was sent, small as that is; what was sent behind it comes as well."""
    topic = await rig.topic()
    packed = bomb()
    assert len(packed) < BOMB_BYTES // 500
    heard = Heard()
    tracemalloc.start(1)
    try:
        before, _ = tracemalloc.get_traced_memory()
        async with push(rig, topic, listener=heard):
            await rig.send(topic, [packed], sys_flag=COMPRESSED | COMPRESSION_ZLIB)
            await rig.send(topic, [b"behind it"])
            await heard.more(2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {message.body for message in heard.messages} == {packed, b"behind it"}
    assert peak - before < UNPACKED_BYTES_MAX
    [said] = [record.getMessage() for record in caplog.records if "as it is" in record.getMessage()]
    assert f"unpacks to more than {DECOMPRESSED_BYTES_MAX} bytes" in said
