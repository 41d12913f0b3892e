"""S2: damaged frames over sockets; the broker lives, bad connections end, messages stay whole."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from fault.broker.wire import Queue, ask, connected, read_queue, send, send_request
from fault.broker_hostile.target import Target, target
from fault.broker_hostile.watched import share_a_decoder
from fuzz.mutation import Mutator
from interop.peer import VERSIONS
from interop.peer.golden import read_golden
from roketto.broker.dispatch import ROUTES
from roketto.protocol.bodies.base import decode_body
from roketto.protocol.bodies.route import KVTable
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command, encode_command
from roketto.protocol.frame import COMPACT, JSON
from roketto.remoting.connection import Connection

FRAMES = 5_000
FRAMES_PER_CONNECTION = 5
CONNECTIONS_AT_ONCE = 4
MEMORY_GROWTH_KB_MAX = 64 * 1024
HEALTHY = Queue("Healthy", 0)
VICTIM = Queue("Victim", 1)
WRITERS = {
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.CONSUMER_SEND_MSG_BACK,
}  # fmt: skip
PROPERTIES = {"UNIQ_KEY": "7F00000100000000000000000000000A", "TAGS": "a", "WAIT": "true"}


def requests(*, with_writers: bool = True) -> list[bytes]:
    """Frames that Java's clients have sent and a broker serves, and ours in both forms."""
    golden = [
        frame.frame
        for version in VERSIONS
        for frame in read_golden(version)
        if frame.code == frame.request_code and frame.code in ROUTES
        if with_writers or frame.code not in WRITERS
    ]
    ours: list[bytes] = []
    for serialization in (JSON, COMPACT) if with_writers else ():
        request = send_request(VICTIM, b"body", PROPERTIES)
        request.serialization = serialization
        ours.append(encode_command(request))
    return golden + ours * 10  # many of those that go the shortest way


async def attack(address: str, mutator: Mutator, chance: random.Random) -> bool:
    """Send some damaged frames, cut somewhere; whether the broker has closed the connection."""
    data = b"".join(mutator.next() for _ in range(FRAMES_PER_CONNECTION))
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        cut = chance.randrange(len(data) + 1)
        writer.write(data[:cut])
        await writer.drain()
        writer.write(data[cut:])
        await writer.drain()
        async with asyncio.timeout(0.02):
            while await reader.read(65_536):
                pass
    except TimeoutError:
        return False  # it still waits for the rest of a frame, or has nothing to object to
    except ConnectionError:
        return True
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return True


@asynccontextmanager
async def healthy_producer(address: str) -> AsyncIterator[list[bytes]]:
    """Keep sending beside the attack; everything must be taken, and is in the queue at the end."""
    sent: list[bytes] = []

    async def produce(connection: Connection) -> None:
        while True:
            body = b"healthy %d" % len(sent)
            await send(connection, HEALTHY, body, PROPERTIES)
            sent.append(body)
            await asyncio.sleep(0.005)

    async with connected(address) as connection:
        await send(connection, HEALTHY, b"first", PROPERTIES)
        producing = asyncio.create_task(produce(connection))
        try:
            yield sent
        finally:
            producing.cancel()
            [outcome] = await asyncio.gather(producing, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError), outcome
        found = [bytes(record.body) for record in await read_queue(connection, HEALTHY)]
        # The one under way when it was stopped may be there, too.
        assert found[-len(sent) - 1 :][: len(sent)] == sent or found[-len(sent) :] == sent


async def run(address: str, corpus: list[bytes], seed: int, frames: int) -> int:
    """Attack with so many frames; how many connections the broker has closed."""
    mutator, chance = Mutator(corpus, seed), random.Random(seed)
    closed = 0
    for _ in range(frames // FRAMES_PER_CONNECTION // CONNECTIONS_AT_ONCE):
        attacks = [attack(address, mutator, chance) for _ in range(CONNECTIONS_AT_ONCE)]
        closed += sum(await asyncio.gather(*attacks))
    return closed


async def log_end(connection: Connection) -> int:
    answer = await ask(connection, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    return int(decode_body(KVTable, answer.body).table["commitLogMaxOffset"])


async def attack_beside_a_producer(
    broker: Target, seed: int, frames: int, patience_s: float = 15
) -> None:
    async with healthy_producer(broker.address) as sent:
        closed = await run(broker.address, requests(), seed, frames)
        before = len(sent)
        async with asyncio.timeout(patience_s):
            while len(sent) < before + 3:  # noqa: ASYNC110 (answers come from the broker)
                await asyncio.sleep(0.01)
    assert closed > frames // FRAMES_PER_CONNECTION // 10, "hardly any damage was noticed"
    broker.check_alive()
    print(
        f"seed {seed}: {frames} frames, {closed} connections closed, {len(sent)} sent beside them"
    )


async def test_damaged_frames_harm_nobody_but_their_sender(tmp_path: Path) -> None:
    """5,000 of them: the process lives in bounded memory, its producer loses nothing."""
    with target(tmp_path) as broker:
        await attack_beside_a_producer(broker, 1, 500)
        before_kb = broker.server.resident_kb()
        await attack_beside_a_producer(broker, 2, FRAMES)
        assert broker.server.resident_kb() - before_kb < MEMORY_GROWTH_KB_MAX
        assert "broke the protocol" in broker.log


async def test_damaged_frames_that_are_no_sends_store_nothing(tmp_path: Path) -> None:
    """Whatever becomes of all other requests, the log ends where it did."""
    with target(tmp_path) as broker:
        async with connected(broker.address) as connection:
            await send(connection, HEALTHY, b"alone", PROPERTIES)
            before = await log_end(connection)
            assert before > 0
            await run(broker.address, requests(with_writers=False), 3, 2_000)
            assert await log_end(connection) == before
            [record] = await read_queue(connection, HEALTHY)
            assert record.body == b"alone"


async def test_frames_that_run_into_those_of_others_are_noticed(tmp_path: Path) -> None:
    """Planted: the producer pays for the damage of others."""
    with (
        pytest.raises((AssertionError, TimeoutError)),
        target(tmp_path, bug=share_a_decoder) as broker,
    ):
        await attack_beside_a_producer(broker, 4, 200, patience_s=3)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
async def test_many_more_damaged_frames(tmp_path: Path) -> None:
    """The long tier: half a million."""
    with target(tmp_path) as broker:
        for seed in range(100, 150):
            await attack_beside_a_producer(broker, seed, 10_000)
