"""What a task of the sink does: it encodes the rows of its partition and sends or stages them."""

from collections.abc import Iterator
from typing import Any

from roketto.spark.cluster import Cluster
from roketto.spark.commits import open_ledger, read_decision
from roketto.spark.dedup_check import check_deduplicates
from roketto.spark.half import HalfOutlet, half_marks
from roketto.spark.packing import Packer
from roketto.spark.row_ids import FreshIds, RepeatedIds
from roketto.spark.row_schema import SinkSchema
from roketto.spark.rows import RowEncoder
from roketto.spark.sending import Sender, SendOutlet, Targets
from roketto.spark.sink_options import IDEMPOTENT, TRANSACTIONAL, SinkOptions
from roketto.spark.staged_ledger import StagedLedger
from roketto.spark.staging import StageOutlet
from roketto.spark.task_context import Identity
from roketto.spark.written import DECIDED, HALF, SENT, STAGED, Written

__all__ = ["write_rows"]


def write_rows(
    options: SinkOptions, schema: SinkSchema, batches: Iterator[Any], identity: Identity | None
) -> Written:
    """Write Arrow batches as their delivery asks for; without one that repeats, nobody is named."""
    cluster = Cluster.of(options.connection)
    if options.delivery == TRANSACTIONAL:
        assert identity is not None
        return _write_transactional(cluster, options, schema, batches, identity)
    targets = Targets(cluster, must_exist=False)
    ids: FreshIds | RepeatedIds = FreshIds(cluster.client.ip)
    if options.delivery == IDEMPOTENT:
        assert identity is not None
        ids = RepeatedIds(identity.sink_id, identity.batch_id, identity.partition_id)
        targets = _CheckedTargets(cluster, must_exist=True)
    encoder = RowEncoder(schema, ids, targets.queues, topic=options.topic, marks=_marks(cluster))
    with Sender(cluster, options, SendOutlet(cluster, options), targets) as sender:
        _send_rows(encoder, Packer(options.batch_bytes), sender, batches)
        sender.finish()
    return Written(SENT, encoder.row_count, identity)


def _write_transactional(
    cluster: Cluster,
    options: SinkOptions,
    schema: SinkSchema,
    batches: Iterator[Any],
    identity: Identity,
) -> Written:
    client = cluster.client
    ledger = cluster.run(open_ledger(cluster, client, options, identity.sink_id))
    found = cluster.run(read_decision(ledger, identity))
    if found.batch_id >= identity.batch_id:
        return Written(DECIDED, sum(batch.num_rows for batch in batches), identity)
    targets = Targets(cluster, must_exist=True)
    is_half = not isinstance(ledger, StagedLedger)
    group = client.wrap(options.producer_group)
    encoder = RowEncoder(
        schema,
        FreshIds(client.ip),
        targets.queues,
        topic=options.topic,
        marks=_marks(cluster) + (half_marks(group) if is_half else ""),
        is_alone=is_half,
        allows_delays=False,
    )
    packer = Packer(options.batch_bytes)
    if is_half:
        with Sender(cluster, options, HalfOutlet(group), targets) as halves:
            _send_rows(encoder, packer, halves, batches)
            found_halves = tuple(halves.finish())
        return Written(HALF, encoder.row_count, identity, halves=found_halves)
    outlet = StageOutlet(identity.sink_id, identity.batch_id)
    with Sender(cluster, options, outlet, targets) as pieces:
        _send_rows(encoder, packer, pieces, batches)
        found_pieces = tuple(pieces.finish())
    return Written(STAGED, encoder.row_count, identity, pieces=found_pieces)


class _CheckedTargets(Targets):
    """Topics that leave out what they have."""

    async def _find(self, topic: str) -> Any:
        await check_deduplicates(self._client, topic)
        return await super()._find(topic)


def _marks(cluster: Cluster) -> str:
    """The property that tells the namespace of a message, as the client sets it."""
    namespace = cluster.client.settings.namespace
    return f"INSTANCE_ID\x01{namespace}\x02" if namespace else ""


def _send_rows(
    encoder: RowEncoder, packer: Packer, sender: Sender[Any], batches: Iterator[Any]
) -> None:
    for batch in batches:
        parts, singles = encoder.encode(batch)
        for part in parts:
            sender.send(packer.add(part))
        sender.send(singles)
    sender.send(packer.flush())
