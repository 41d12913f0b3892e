"""The package rocketmq, which brings a client in C++ along, as programs of the benchmark.

python client_cpp.py send-threads NAME_SERVER TOPIC BODY_BYTES AT_ONCE
python client_cpp.py consume-push NAME_SERVER TOPIC GROUP FIRST LAST SECONDS
"""

import importlib
import os
import sys
import threading
from typing import Final

from client_child import Progress, send_in_threads, wait_for_stop

_THREADS: Final = 20
"""As many as a push consumer of Java's and of ours has; its own default is one for each core."""

client = importlib.import_module("rocketmq.client")


def main(mode: str, name_server: str, topic: str, *rest: str) -> None:
    if mode.startswith("send"):
        send(name_server, topic, b"x" * int(rest[0]), int(rest[1]))
        return
    group, first, last, seconds = rest
    done = threading.Event()
    progress = Progress(int(first), int(last), float(seconds), done.set)
    consumer = client.PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.set_thread_count(_THREADS)
    consumer.subscribe(topic, lambda message: progress.add_safely(1))
    consumer.start()
    done.wait()
    wait_for_stop()


def send(name_server: str, topic: str, body: bytes, threads: int) -> None:
    producer = client.Producer("ClientBench")
    producer.set_namesrv_addr(name_server)
    producer.start()

    def send_one() -> bool:
        message = client.Message(topic)
        message.set_body(body)
        try:
            return bool(producer.send_sync(message).status == client.SendStatus.OK)
        except Exception:  # noqa: BLE001  # it is counted
            return False

    send_in_threads(send_one, threads)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # its threads end in their own time
