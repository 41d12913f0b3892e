"""Transactions against Java's broker: half messages, each of which is committed at once."""

from functools import partial

from broker_frames import transaction_frames
from broker_load import Figures, Load, put_load
from broker_requests import ASYNC, SMALL
from broker_rig import QUEUES, TOPIC, Rig
from broker_servers import JAVA, Server
from broker_versus import add_versus, begin_table, take_turns
from report import Report


def measure_transactions(report: Report, rig: Rig) -> None:
    """What counts as one message is a half message and its commit, both answered."""
    pair, sizes = rig.pair(ASYNC), rig.sizes
    title = f"transactional send of {SMALL} B, half message and commit, {QUEUES} queues"
    begin_table(report, "transactions", title)
    frames = transaction_frames(TOPIC, QUEUES, SMALL)
    for server in pair:
        seconds = (sizes.java_warm_up_s if server.kind == JAVA else sizes.warm_up_s) / 4
        put_load(server, frames, Load(16, 4), seconds, transactions=True, refused_share_max=1.0)

    def measure(load: Load, server: Server) -> Figures:
        before = sum(server.queue_ends(TOPIC, QUEUES))
        outcome = rig.put_load(server, frames, load, transactions=True)
        server.await_messages(TOPIC, QUEUES, before + outcome.answered_in_all)
        return outcome.figures

    for load in sizes.transaction_loads:
        found = take_turns(pair, sizes.rounds, partial(measure, load))
        add_versus(report, f"transaction, {load}", found)
