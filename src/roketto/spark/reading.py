"""What a task does: fetch the ranges of its partition and give Spark Arrow batches of them."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import pyarrow as pa

from roketto.protocol.tags import parse_tags
from roketto.spark.cluster import Cluster
from roketto.spark.columns import Column
from roketto.spark.decoder import Decoder
from roketto.spark.fetch import Piece, RangeFetch
from roketto.spark.planner import QueueRange
from roketto.spark.pulled_records import has_batches, unwrapped
from roketto.spark.record_table import walk
from roketto.spark.source_options import SourceOptions
from roketto.spark.worker_heap import settle_worker

__all__ = ["read_ranges"]


def read_ranges(
    options: SourceOptions, columns: Sequence[Column], ranges: Sequence[QueueRange]
) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, one after the other; FetchError, DataLossError."""
    cluster = Cluster.of(options.connection)
    tags = parse_tags(options.tag_expression).tags  # brokers have compared their hashes only
    fetches = [RangeFetch(cluster, options, queue_range) for queue_range in ranges]
    starts = [fetch.start for fetch in fetches[1:]]
    try:
        for queue_range, fetch, start_next in zip_longest(ranges, fetches, starts):
            decoder = Decoder(columns, queue_range.broker_name, topic=queue_range.topic, tags=tags)
            for piece in fetch.pieces(on_last=start_next):
                yield from _batches(decoder, piece, queue_range)
    finally:
        for fetch in fetches:
            fetch.stop()
        settle_worker()


def _batches(decoder: Decoder, piece: Piece, queue_range: QueueRange) -> Iterator[pa.RecordBatch]:
    data = piece.data
    starts = walk(data)
    if has_batches(data, starts):
        data = unwrapped(data, queue_range.start, queue_range.end)
        starts = walk(data)
    return decoder.batches(
        data, starts, queue_id=queue_range.queue_id, offset_delta=piece.offset_delta
    )
