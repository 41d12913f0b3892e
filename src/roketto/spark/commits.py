"""The end of a transactional batch: one decision, recorded and carried out by the driver.

What is for other brokers than ours (half.py) is imported where there are such: a driver does all of
this in a process that Spark starts for each batch.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from roketto.client.client import Client
from roketto.spark.cluster import Cluster
from roketto.spark.patience import Patience
from roketto.spark.sink_options import SinkError, SinkOptions
from roketto.spark.staged_ledger import Decision, StagedLedger, find_masters, merge_pieces
from roketto.spark.task_context import Identity
from roketto.spark.written import DECIDED, Written

if TYPE_CHECKING:
    from roketto.spark.half import HalfDecision
    from roketto.spark.half_ledger import HalfLedger

__all__ = ["Ledger", "commit_tasks", "open_ledger", "read_decision", "settle"]

log = logging.getLogger(__name__)

Ledger: TypeAlias = "StagedLedger | HalfLedger"


def commit_tasks(options: SinkOptions, tasks: Sequence[Written], *, keeps_order: bool) -> None:
    """What the driver does when all tasks of a batch have ended; returns when it is published."""
    identity = tasks[0].identity
    assert identity is not None
    cluster = Cluster.of(options.connection)
    ledger = cluster.run(open_ledger(cluster, cluster.client, options, identity.sink_id))
    cluster.run(settle(ledger, tasks, keeps_order))


async def open_ledger(
    cluster: Cluster, client: Client, options: SinkOptions, sink_id: str
) -> Ledger:
    """Where the decisions of a sink are; SinkError for a cluster of both kinds of brokers."""
    patience = Patience.of(options)
    masters = await patience.keep_trying(
        "find the brokers", lambda _: find_masters(client, options.topic)
    )
    ours = []
    for name, address in sorted(masters.items()):

        async def attempt(_: int, address: str = address) -> bool:
            return await cluster.knows_ranges(address)

        if await patience.keep_trying(f"ask who broker {name} is", attempt):
            ours.append(name)
    if len(ours) == len(masters):
        return StagedLedger(client, options, masters, sink_id)
    if not ours:
        from roketto.spark.half_ledger import HalfLedger

        return HalfLedger(client, options, masters, sink_id)
    others = sorted(set(masters) - set(ours))
    raise SinkError(
        f"delivery=transactional needs brokers of one kind, and {', '.join(ours)} are Roketto's"
        f" while {', '.join(others)} are not: give option topic, with a topic on one kind's cluster"
    )


async def read_decision(ledger: Ledger, identity: Identity) -> "Decision | HalfDecision":
    """The last one; SinkError if the sink is another query's, whose batches have other numbers."""
    found = await ledger.read()
    if found.query_id is not None and found.query_id != identity.query_id:
        raise SinkError(
            f"sink {identity.sink_id} belongs to query {found.query_id}, and this is query"
            f" {identity.query_id} with a checkpoint of its own: give it another sinkId"
        )
    return found


async def settle(ledger: Ledger, tasks: Sequence[Written], keeps_order: bool) -> None:
    """Let all rows of a batch be consumed, once, whatever was done for it before."""
    identity = tasks[0].identity
    assert identity is not None
    found = await read_decision(ledger, identity)
    if found.batch_id > identity.batch_id:
        log.info(
            "batch %d of sink %s was decided before batch %d, and is published",
            identity.batch_id, identity.sink_id, found.batch_id,
        )  # fmt: skip
        return
    is_new = False
    if found.batch_id < identity.batch_id:
        if any(task.kind == DECIDED for task in tasks):
            raise SinkError(
                f"a task has found batch {identity.batch_id} of sink {identity.sink_id} decided,"
                f" and now it is batch {found.batch_id}: the state of brokers was reset meanwhile;"
                " run the batch again"
            )
        if not any(task.pieces or task.halves for task in tasks):
            return
        found, is_new = await _decide(ledger, identity, tasks)
    if isinstance(ledger, StagedLedger):
        assert isinstance(found, Decision)
        await ledger.publish(found)
    else:
        assert not isinstance(found, Decision)
        await ledger.publish(found, is_fresh=is_new, keeps_order=keeps_order)


async def _decide(
    ledger: Ledger, identity: Identity, tasks: Sequence[Written]
) -> "tuple[Decision | HalfDecision, bool]":
    if isinstance(ledger, StagedLedger):
        pieces = merge_pieces(task.pieces for task in tasks)
        return await ledger.decide(Decision(identity.batch_id, identity.query_id, pieces))
    from roketto.spark.half import HalfDecision, merge_halves

    halves = merge_halves(task.halves for task in tasks)
    return await ledger.decide(HalfDecision(identity.batch_id, identity.query_id, halves))
