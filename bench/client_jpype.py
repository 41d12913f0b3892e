"""pyrocketmq, Java's client in a JVM within Python's process, as programs of the benchmark.

python client_jpype.py send-threads NAME_SERVER TOPIC JDK JARS BODY_BYTES AT_ONCE
python client_jpype.py consume-push NAME_SERVER TOPIC JDK JARS GROUP FIRST LAST SECONDS
"""

import importlib
import os
import sys
import threading
from typing import Any, Final

from client_child import Progress, send_in_threads, wait_for_stop

_HEAP: Final = "-Xmx1024m"


def main(mode: str, name_server: str, topic: str, jdk: str, jars: str, *rest: str) -> None:
    os.environ["JAVA_HOME"] = jdk
    jpype = importlib.import_module("jpype")
    importlib.import_module("jpype.imports")
    home = os.environ["HOME"]  # the JVM would look elsewhere
    jpype.startJVM(_HEAP, f"-Duser.home={home}", classpath=[f"{jars}/*"])
    if mode.startswith("send"):
        send(name_server, topic, b"x" * int(rest[0]), int(rest[1]))
    else:
        group, first, last, seconds = rest
        done = threading.Event()
        progress = Progress(int(first), int(last), float(seconds), done.set)
        consume(name_server, topic, group, progress, done)


def send(name_server: str, topic: str, body: bytes, threads: int) -> None:
    producing = importlib.import_module("pyrocketmq.client.producer")
    messages = importlib.import_module("pyrocketmq.common.message")
    producer = producing.Producer("ClientBench")
    producer.setNamesrvAddr(name_server)
    producer.start()

    def send_one() -> bool:
        try:
            result = producer.send(messages.Message(topic=topic, body=body))
        except Exception:  # noqa: BLE001  # it is counted
            return False
        return bool(result.sendStatus == producing.SendStatus.SEND_OK)

    send_in_threads(send_one, threads)


def consume(
    name_server: str, topic: str, group: str, progress: Progress, done: threading.Event
) -> None:
    common = importlib.import_module("pyrocketmq.common.common")
    consuming = importlib.import_module("pyrocketmq.client.consumer.consumer")
    listening = importlib.import_module("pyrocketmq.client.consumer.listener")

    class Listener(listening.MessageListenerConcurrently):  # type: ignore[name-defined, misc]
        def _consumeMessage(self, msgs: Any, context: Any) -> Any:  # noqa: N802  # their name
            progress.add_safely(len(msgs))
            return listening.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = consuming.PushConsumer(group)
    consumer.setNamesrvAddr(name_server)
    consumer.setConsumeFromWhere(common.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic, "*")
    consumer.registerMessageListener(Listener())
    consumer.start()
    done.wait()
    wait_for_stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # a JVM ends in its own time
