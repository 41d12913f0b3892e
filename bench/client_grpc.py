"""Apache's rocketmq-python-client, which speaks gRPC with a proxy, as programs of the benchmark.

python client_grpc.py send-… PROXY TOPIC BODY_BYTES AT_ONCE
python client_grpc.py consume-… PROXY TOPIC GROUP FIRST LAST SECONDS
"""

import importlib
import os
import sys
import threading
import time
from concurrent.futures import Future
from typing import Any, Final

from client_child import Progress, say, say_sent, send_in_threads, wait_for_stop

_INVISIBLE_S: Final = 15
_PULL: Final = 32
"""As its example has them."""
_TRIES: Final = 50
_AGAIN_S: Final = 0.2

rocketmq = importlib.import_module("rocketmq")


def main(mode: str, proxy: str, topic: str, *rest: str) -> None:
    config = rocketmq.ClientConfiguration(proxy, rocketmq.Credentials())
    what, _, how = mode.partition("-")
    if what == "send":
        main_send(how, config, topic, b"x" * int(rest[0]), int(rest[1]))
        return
    group, first, last, seconds = rest
    done = threading.Event()
    progress = Progress(int(first), int(last), float(seconds), done.set)
    consume = consume_pushed if how == "push" else consume_received
    consume(config, topic, group, progress, done)


# --- sending --------------------------------------------------------------------------------------


def main_send(how: str, config: object, topic: str, body: bytes, at_once: int) -> None:
    producer = rocketmq.Producer(config, (topic,))
    producer.startup()

    def make() -> Any:
        message = rocketmq.Message()
        message.topic = topic
        message.body = body
        return message

    def send() -> bool:
        try:
            producer.send(make())
        except Exception:  # noqa: BLE001  # it is counted
            return False
        return True

    if how == "threads":
        send_in_threads(send, at_once)
    else:
        send_futures(lambda: producer.send_async(make()), at_once)


def send_futures(send: Any, at_once: int) -> None:
    """Have so many under way."""
    counts = [0, 0]
    slots = threading.Semaphore(at_once)
    stopping = threading.Event()

    def count(future: "Future[object]") -> None:
        counts[future.exception() is None] += 1
        slots.release()

    def work() -> None:
        while not stopping.is_set():
            slots.acquire()
            send().add_done_callback(count)

    counts[send().exception() is None] += 1  # it connects
    worker = threading.Thread(target=work)
    worker.start()
    say("ready")
    wait_for_stop()
    stopping.set()
    worker.join()
    for _ in range(at_once):
        slots.acquire()
    say_sent(counts[1], counts[0])


# --- consuming ------------------------------------------------------------------------------------


def consume_pushed(
    config: object, topic: str, group: str, progress: Progress, done: threading.Event
) -> None:
    class Listener(rocketmq.MessageListener):  # type: ignore[name-defined, misc]
        def consume(self, message: object) -> object:
            progress.add_safely(1)
            return rocketmq.ConsumeResult.SUCCESS

    subscription = {topic: rocketmq.FilterExpression()}
    rocketmq.PushConsumer(config, group, Listener(), subscription).startup()
    done.wait()
    wait_for_stop()


def consume_received(
    config: object, topic: str, group: str, progress: Progress, done: threading.Event
) -> None:
    """A simple consumer: some are received, each is acknowledged."""
    consumer = rocketmq.SimpleConsumer(config, group, {topic: rocketmq.FilterExpression()})
    consumer.startup()
    while not done.is_set():
        messages = receive(consumer)
        for message in messages:
            consumer.ack(message)
        progress.add(len(messages))
    wait_for_stop()


def receive(consumer: Any) -> list[Any]:
    """The next messages. A proxy refuses, with a NullPointerException, who asks before it has read
    his settings, which come another way: that is tried again."""
    for _ in range(_TRIES):
        try:
            return consumer.receive(_PULL, _INVISIBLE_S) or []
        except Exception as error:
            if "settings" not in str(error):
                raise
            time.sleep(_AGAIN_S)
    raise TimeoutError("the proxy has not read the settings of the consumer")


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # its threads end in their own time
