"""Sends per second: our client in its forms and Java's Producer, at both brokers."""

from functools import partial
from typing import Final

from broker_servers import ROKETTO, Server
from client_java import THREADS
from client_marks import Figures
from client_process import ClientProcess
from client_rig import ClientRig, Contender
from client_sizes import BODY_BYTES, QUEUES, Sizes
from client_table import add_client, begin_table
from client_turns import send_turn, send_words
from report import Report

JAVA_PRODUCER: Final = f"Java's Producer, {THREADS} threads"
JAVA_RATIO_LEAST: Final = 1.0
TOPIC: Final = "ClientSend"

SENDERS: Final = {
    f"asyncio, {THREADS} in flight": ("send-asyncio", THREADS),
    f"uvloop, {THREADS} in flight": ("send-uvloop", THREADS),
    f"blocking, {THREADS} threads": ("send-blocking", THREADS),
    "blocking, 8 threads": ("send-blocking", 8),
    "asyncio, batches, 1,024 in flight": ("send-batches", 1_024),
}
"""Our programs, and how many sends each has under way."""

FEWER: Final = {"blocking, 8 threads"}
"""Who has less under way than Java's."""


def measure_send(report: Report, rig: ClientRig) -> None:
    sizes = rig.sizes
    title = f"sends of {BODY_BYTES} B, each acknowledged, {QUEUES} queues (warming Java's up …)"
    begin_table(report, "send", title)
    for server in rig.pair:
        server.create_topic(TOPIC, QUEUES)
    java = rig.java_producer()
    contenders = [
        Contender(name, partial(_send, sizes, mode, at_once))
        for name, (mode, at_once) in SENDERS.items()
    ]
    contenders.insert(len(contenders) // 2, Contender(JAVA_PRODUCER, java.send))
    found = rig.take_turns(contenders, sizes.rounds)
    add_client(report, JAVA_PRODUCER, found)
    for name in SENDERS:
        least = None if name in FEWER else JAVA_RATIO_LEAST
        add_client(
            report, name, found,
            of=name, to=JAVA_PRODUCER, said="to Java's", least=least, promised_at=[ROKETTO],
        )  # fmt: skip


def _send(sizes: Sizes, mode: str, at_once: int, server: Server) -> Figures:
    words = ["client_ours.py", mode, server.name_server, TOPIC, *send_words(at_once=at_once)]
    return send_turn(ClientProcess(words), server, TOPIC, sizes.ramp_s, sizes.round_s)
