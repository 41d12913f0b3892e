"""A producer of ours in a process of its own, which is killed before its transaction has ended.

    python -m interop.client.leaving NAME_SERVERS GROUP TOPIC BODY CHECKED

It prints the id of its half message when a broker has that, and waits. CHECKED is what Java's
siblings say when they are asked.
"""

import asyncio
import os
import signal
import sys
from typing import Final

from roketto.client.message import Message
from roketto.client.transaction import TransactionProducer

_WAIT_S: Final = 60.0


async def leave(names: str, group: str, topic: str, body: str, checked: str) -> str:
    """Let such a process send, and kill it; the id of the half message that it leaves behind."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, names, group, topic, body, checked,
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_WAIT_S):
            message_id = (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        ended = await process.wait()
    assert message_id, "it has sent nothing"
    assert ended == -signal.SIGKILL, f"it was not the kill that ended it: {ended}"
    return message_id


async def send(names: str, group: str, topic: str, body: str, checked: str) -> None:
    """Be that process."""
    async with TransactionProducer(group, names) as producer:
        message = Message(topic, body.encode(), properties={"checked": checked})
        result = await producer.send_in_transaction(message, execute=lambda *_: None)
        print(result.message_id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(send(*sys.argv[1:]))
