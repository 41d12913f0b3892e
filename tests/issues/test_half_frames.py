"""Seen on 5.5.0: 200 connections with half a frame stay for minutes, hostile frames cost 450 MiB.

Here a frame has half a minute to come, and the memory of a broker hardly notices.
"""

import asyncio
import random
from pathlib import Path

from fault.broker.producers import Producers
from fault.broker.site import LARGE, Site
from fault.broker.wire import Queue, send_request
from fault.test_hostile_peers import PATIENCE_S, Attack, until
from fuzz.mutation import Mutator
from fuzz.test_frames import corpus
from fuzz.test_sockets import FRAMES_PER_CONNECTION, attack
from roketto.protocol.command import encode_command

HALF: int = 200
HOSTILE: int = 8_000
GROWTH_KB_MAX: int = 64 * 1024


async def test_half_frames_end_and_hostile_ones_cost_little_beside_producers(
    tmp_path: Path,
) -> None:
    """All at once, while eight producers send and are never refused."""
    frame = encode_command(send_request(Queue("T", 0), b"half", {}))
    producers = Producers([Queue("T", 0)], seed=1, pause_s=0.05)
    with Site(tmp_path, LARGE) as site:
        server = site.start()
        async with producers.sending_to(server.address):
            await producers.until_more(20, 10)
            before_kb = server.resident_kb()
            halves = Attack(server, HALF, frame[: len(frame) // 2])
            try:
                mutator, chance = Mutator(corpus(), 1), random.Random(1)
                for _ in range(HOSTILE // FRAMES_PER_CONNECTION):
                    await attack(server, mutator, chance)
                grown_kb = server.resident_kb() - before_kb
                assert halves.open_count() == HALF, "dropped before the deadline"
                await until(halves.ended, PATIENCE_S)
            finally:
                halves.close()
            await producers.until_more(8, 10)
            await asyncio.sleep(0)
        assert server.is_alive()
        site.stop()
        assert site.log.count("a frame was not complete after 30 s") == HALF
        assert "Traceback" not in site.log
    assert (producers.lost, producers.refusals) == (0, {})
    assert grown_kb < GROWTH_KB_MAX, f"{grown_kb} kB"
    print(f"{HOSTILE} hostile frames: {grown_kb} kB; {producers.acknowledged} requests beside them")
