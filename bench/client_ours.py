"""Our client as programs of the benchmark: some send until they are told to stop, some consume.

python client_ours.py send-… NAME_SERVER TOPIC BODY_BYTES AT_ONCE
python client_ours.py consume-… NAME_SERVER TOPIC GROUP FIRST LAST SECONDS
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from client_child import Progress, say, say_sent, send_in_threads, wait_for_stop
from roketto.client import (
    BatchSettings,
    ConsumeContext,
    ConsumeResult,
    FromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    PushTuning,
    ReceivedMessage,
    SendSettings,
)
from roketto.client.blocking import Producer as BlockingProducer
from roketto.remoting.loop import run as run_on_uvloop

PRODUCER: Final = "ClientBench"
BATCH: Final = 32


# --- sending --------------------------------------------------------------------------------------


async def send(
    name_server: str, topic: str, body: bytes, at_once: int, sending: SendSettings | None = None
) -> None:
    """So many coroutines, each of which waits for its message and sends the next."""
    acknowledged = 0
    stopping = False

    async def work(producer: Producer) -> None:
        nonlocal acknowledged
        while not stopping:
            result = await producer.send(Message(topic, body))
            assert result.is_ok, result
            acknowledged += 1

    async with (
        Producer(PRODUCER, name_server, sending=sending) as producer,
        asyncio.TaskGroup() as workers,
    ):
        for _ in range(at_once):
            workers.create_task(work(producer))
        say("ready")
        await asyncio.to_thread(wait_for_stop)
        stopping = True
    say_sent(acknowledged)


def send_blocking(name_server: str, topic: str, body: bytes, threads: int) -> None:
    with BlockingProducer(PRODUCER, name_server) as producer:
        send_in_threads(lambda: producer.send(Message(topic, body)).is_ok, threads)


# --- consuming ------------------------------------------------------------------------------------


async def consume_pushed(
    name_server: str, topic: str, group: str, marks: tuple[int, int, float], tuning: PushTuning
) -> None:
    """A coroutine function listens."""
    done = asyncio.Event()
    progress = Progress(*marks, on_last=done.set)

    async def listen(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        progress.add(len(messages))
        return ConsumeResult.SUCCESS

    async with PushConsumer(
        group, name_server, topics={topic: "*"}, listener=listen, tuning=tuning,
        from_where=FromWhere.FIRST,
    ):  # fmt: skip
        await done.wait()
        await asyncio.to_thread(wait_for_stop)


async def consume_in_threads(
    name_server: str, topic: str, group: str, marks: tuple[int, int, float]
) -> None:
    """A plain function listens."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    progress = Progress(*marks, on_last=lambda: loop.call_soon_threadsafe(done.set))

    def listen(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        progress.add_safely(len(messages))
        return ConsumeResult.SUCCESS

    async with PushConsumer(
        group, name_server, topics={topic: "*"}, listener=listen, from_where=FromWhere.FIRST
    ):
        await done.wait()
        await asyncio.to_thread(wait_for_stop)


async def consume_polled(
    name_server: str, topic: str, group: str, marks: tuple[int, int, float]
) -> None:
    done = asyncio.Event()
    progress = Progress(*marks, on_last=done.set)
    async with LitePullConsumer(group, name_server, from_where=FromWhere.FIRST) as consumer:
        consumer.subscribe(topic)
        while not done.is_set():
            progress.add(len(await consumer.poll()))
        await asyncio.to_thread(wait_for_stop)


# --- which of them --------------------------------------------------------------------------------


def main(mode: str, name_server: str, topic: str, *rest: str) -> None:
    what, _, how = mode.partition("-")
    if what == "send":
        main_send(how, name_server, topic, b"x" * int(rest[0]), int(rest[1]))
    else:
        group, first, last, seconds = rest
        main_consume(how, name_server, topic, group, (int(first), int(last), float(seconds)))


def main_send(how: str, name_server: str, topic: str, body: bytes, at_once: int) -> None:
    if how == "blocking":
        send_blocking(name_server, topic, body, at_once)
        return
    sending = SendSettings(batches=BatchSettings()) if how == "batches" else None
    run(how, lambda: send(name_server, topic, body, at_once, sending))


def main_consume(
    how: str, name_server: str, topic: str, group: str, marks: tuple[int, int, float]
) -> None:
    if how == "threads":
        asyncio.run(consume_in_threads(name_server, topic, group, marks))
    elif how == "lite":
        asyncio.run(consume_polled(name_server, topic, group, marks))
    else:
        tuning = PushTuning(batch_max=BATCH if how == "batches" else 1)
        run(how, lambda: consume_pushed(name_server, topic, group, marks, tuning))


def run(how: str, begin: Callable[[], Coroutine[object, object, None]]) -> None:
    """On asyncio's own loop, unless uvloop is asked for."""
    if how == "uvloop":
        run_on_uvloop(begin())
    else:
        asyncio.run(begin())


if __name__ == "__main__":
    main(*sys.argv[1:])
