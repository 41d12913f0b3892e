"""A process that sends and says what memory it has before and after; run by test_memory.py.

    python -m fault.client.sending_process NAMES TOPIC WARM COUNT [leak]

WARM messages come first, so that whatever is made once is there. Half of all messages are sent one
by one, the others in batches that make themselves. With ``leak`` it has a bug: it keeps the results
of all sends.
"""

import asyncio
import gc
import json
import sys
from itertools import count as numbers
from pathlib import Path
from typing import Final

from roketto.client.client import Client
from roketto.client.message import Message, SendResult
from roketto.client.producer import Producer
from roketto.client.send_settings import BatchSettings, SendSettings
from roketto.client.settings import ClientSettings
from roketto.remoting.loop import loop_factory

COROUTINES: Final = 32
"""Of each kind."""
BODY: Final = b"x" * 64


class Sending:
    """Sends through one client; ``kept`` is the bug."""

    def __init__(self, topic: str, kept: list[SendResult] | None) -> None:
        self._topic = topic
        self._kept = kept
        self._left = 0

    async def send(self, producers: list[Producer], count: int) -> None:
        self._left = count
        await asyncio.gather(
            *(self._send_on(producer) for producer in producers for _ in range(COROUTINES))
        )

    async def _send_on(self, producer: Producer) -> None:
        for _ in numbers():
            if self._left <= 0:
                return
            self._left -= 1
            result = await producer.send(Message(self._topic, BODY, tags="t"))
            assert result.is_ok, result
            if self._kept is not None:
                self._kept.append(result)


def measure() -> dict[str, int]:
    """Blocks that Python has allocated, and memory that is the process's own."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    [anonymous] = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return {"blocks": sys.getallocatedblocks(), "kb": int(anonymous)}


async def main(names: str, topic: str, warm: str, count: str, bug: str = "") -> None:
    sending = Sending(topic, [] if bug == "leak" else None)
    batches = SendSettings(batches=BatchSettings(delay_ms=2))
    async with (
        Client(ClientSettings(name_servers=names, client_ip="127.0.0.1")) as client,
        Producer("plain", client=client, sending=SendSettings(timeout_ms=30_000)) as plain,
        Producer("batching", client=client, sending=batches) as batching,
    ):
        await sending.send([plain, batching], int(warm))
        before = measure()
        await sending.send([plain, batching], int(count))
        print(json.dumps([before, measure()]), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(*sys.argv[1:]))
