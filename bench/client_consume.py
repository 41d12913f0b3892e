"""Messages consumed per second from a backlog: our consumers and Java's, at both brokers."""

from functools import partial
from typing import Final

from broker_rig import fill
from broker_servers import ROKETTO, Server
from client_marks import Figures
from client_process import ClientProcess
from client_rig import ClientRig, Contender
from client_sizes import BODY_BYTES, QUEUES
from client_table import add_client, begin_table
from client_turns import consume_turn, consume_words
from report import Report

JAVA_CONSUMER: Final = "Java's Consumer, one by one"
JAVA_RATIO_LEAST: Final = 1.0
TOPIC: Final = "ClientBacklog"

CONSUMERS: Final = {
    "push, async def, one by one": "consume-asyncio",
    "push, async def, one by one, uvloop": "consume-uvloop",
    "push, plain function, one by one": "consume-threads",
    "push, async def, 32 at once": "consume-batches",
    "lite pull": "consume-lite",
}


def measure_consume(report: Report, rig: ClientRig) -> None:
    backlog = rig.sizes.backlog
    title = f"a backlog of {backlog:,} messages of {BODY_BYTES} B in {QUEUES} queues"
    begin_table(report, "consume", f"{title}, from its first tenth to its last")
    messages = {server.kind: _fill(server, backlog) for server in rig.pair}
    java = rig.java_consumer()
    contenders = [
        Contender(name, partial(_consume, rig, messages, mode)) for name, mode in CONSUMERS.items()
    ]
    contenders.insert(len(contenders) // 2, Contender(JAVA_CONSUMER, java.consume))
    found = rig.take_turns(contenders, rig.sizes.rounds)
    add_client(report, JAVA_CONSUMER, found)
    for name in CONSUMERS:
        add_client(
            report, name, found, of=name, to=JAVA_CONSUMER, said="to Java's",
            least=JAVA_RATIO_LEAST, promised_at=[ROKETTO],
        )  # fmt: skip


def _fill(server: Server, messages: int) -> int:
    server.create_topic(TOPIC, QUEUES)
    return sum(fill(server, TOPIC, messages))


def _consume(rig: ClientRig, messages: dict[str, int], mode: str, server: Server) -> Figures:
    words = consume_words(rig.new_group(), messages[server.kind])
    process = ClientProcess(["client_ours.py", mode, server.name_server, TOPIC, *words])
    return consume_turn(process, server)
