"""Damaged frames over real sockets: the server stays up, its memory bounded, its clients served."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fuzz.mutation import Mutator
from fuzz.test_frames import corpus
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.remoting.pool import Pool
from servers import ServerProcess, name_server

FRAMES = 5_000
FRAMES_PER_CONNECTION = 5
MEMORY_GROWTH_KB_MAX = 48 * 1024


@contextlib.asynccontextmanager
async def healthy_client(server: ServerProcess) -> AsyncIterator[list[int]]:
    """Keep asking beside the attack; ``answers`` grows, and a failure surfaces at the end."""
    pool = Pool()
    answers: list[int] = []

    async def ask() -> None:
        while True:
            request = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
            answers.append((await pool.request(server.address, request, 10_000)).code)
            await asyncio.sleep(0.005)

    asking = asyncio.create_task(ask())
    try:
        yield answers
    finally:
        asking.cancel()
        [outcome] = await asyncio.gather(asking, return_exceptions=True)
        await pool.close()
        assert isinstance(outcome, asyncio.CancelledError), outcome


async def attack(server: ServerProcess, mutator: Mutator, chance: random.Random) -> None:
    """One connection that sends some damaged frames, cut at random places, and hangs up."""
    data = b"".join(mutator.next() for _ in range(FRAMES_PER_CONNECTION))
    loop = asyncio.get_running_loop()
    with socket.socket() as attacker, contextlib.suppress(ConnectionError):
        attacker.setblocking(False)
        await loop.sock_connect(attacker, ("127.0.0.1", server.port))
        cut = chance.randrange(len(data) + 1)
        await loop.sock_sendall(attacker, data[:cut])
        await asyncio.sleep(0)
        await loop.sock_sendall(attacker, data[cut:])


async def run(server: ServerProcess, seed: int, frames: int) -> int:
    """Attack with so many frames; return how many answers the healthy client got meanwhile."""
    mutator = Mutator(corpus(), seed)
    chance = random.Random(seed)
    async with healthy_client(server) as answers:
        for _ in range(frames // FRAMES_PER_CONNECTION):
            await attack(server, mutator, chance)
        before = len(answers)
        async with asyncio.timeout(10):
            while len(answers) < before + 3:  # noqa: ASYNC110 (answers come from the server)
                await asyncio.sleep(0.01)
    assert set(answers) == {0}
    return len(answers)


async def test_damaged_frames_over_sockets_leave_the_server_alive(tmp_path: Path) -> None:
    """5,000 mutated frames: the process lives, its memory is bounded, its neighbour is served."""
    with name_server(tmp_path) as server:
        await run(server, 1, 200)
        before_kb = server.resident_kb()
        answered = await run(server, 2, FRAMES)
        assert server.is_alive()
        assert answered > 10
        assert server.resident_kb() - before_kb < MEMORY_GROWTH_KB_MAX
        log = server.log.read_text()
        assert "broke the protocol" in log, "no damage was noticed"
        assert "Traceback" not in log, log[log.index("Traceback") :][:3_000]
    print(f"seed 2: {FRAMES} frames, {log.count('broke the protocol')} connections were closed;")
    print(f"{answered} answers to a neighbour meanwhile")


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_many_more_damaged_frames_over_sockets(tmp_path: Path) -> None:
    """The long tier: half a million."""
    with name_server(tmp_path) as server:
        for seed in range(50):
            await run(server, seed, 10_000)
        assert server.is_alive()
