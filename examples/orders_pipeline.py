"""A Spark pipeline: orders of a topic, checked, enriched and counted, exactly once into another.

python examples/orders_pipeline.py --name-server 127.0.0.1:9876 --checkpoint checkpoint

    topic orders ─┬─ parse ─ enrich ─ windows of 10 s by country ─► topic order-stats, exactly once
                  └─ as they are ─────────────────────────────────► Parquet files

It runs until it is told to stop (Ctrl-C, SIGTERM), or, with --available-now, until it has read what
there is now. Kill it however you like: with the same checkpoint it goes on where it was.
"""

import argparse
import asyncio
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from order_stream import COUNTRIES, PRODUCTS, STATS_TOPIC, TOPIC, make_topics
from roketto.client import ClientError
from roketto.spark import JavaNotFoundError, session

ORDER = "order bigint, product string, country string, quantity int, ordered_at timestamp"
STATS_GROUP = "orders-stats"
ARCHIVE_GROUP = "orders-archive"
_LOOK_S = 0.2
_FIRST_BATCH_S = 60.0


# --- from rows to rows ----------------------------------------------------------------------------


def read_orders(spark: SparkSession, name_server: str, group: str) -> DataFrame:
    """The topic as a stream, of the columns that are needed, from its beginning on.

    Brokers are told how far the query is, as the offsets of a group: ``mqadmin consumerProgress``
    and every other tool show its lag.
    """
    return (
        spark.readStream.format("rocketmq")
        .schema("msgId string, tags string, keys string, body binary, storeTimestamp timestamp")
        .option("nameServer", name_server)
        .option("topic", TOPIC)
        .option("startingOffsets", "earliest")
        .option("group", group)
        .option("commitOffsets", "true")
        .load()
    )


def parse(messages: DataFrame) -> DataFrame:
    """JSON into columns; what is no order is left out here, and still is in the archive."""
    order = sf.from_json(sf.col("body").cast("string"), ORDER)
    return messages.select(order.alias("order")).select("order.*").where("ordered_at IS NOT NULL")


def enrich(parsed: DataFrame, products: DataFrame, countries: DataFrame) -> DataFrame:
    """With the price of a product and the name of a country."""
    return parsed.join(sf.broadcast(products), "product").join(sf.broadcast(countries), "country")


def windows(enriched: DataFrame) -> DataFrame:
    """Orders, items and revenue of every ten seconds, by country.

    The watermark says when a window is complete: when an order has come that is 30 s younger than
    its end. Then, and only then, it is written.
    """
    return (
        enriched.withWatermark("ordered_at", "30 seconds")
        .groupBy(sf.window("ordered_at", "10 seconds").alias("window"), "country_name")
        .agg(
            sf.count("*").alias("orders"),
            sf.sum("quantity").alias("items"),
            sf.sum(sf.col("quantity") * sf.col("price")).alias("revenue"),
        )
    )


def stats(spark: SparkSession, messages: DataFrame) -> DataFrame:
    """From messages to messages: the columns that the sink takes."""
    products = spark.createDataFrame(
        [(name, category, price) for name, (category, price) in PRODUCTS.items()],
        "product string, category string, price string",
    ).withColumn("price", sf.col("price").cast("decimal(8,2)"))
    countries = spark.createDataFrame(
        list(COUNTRIES.items()), "country string, country_name string"
    )
    counted = windows(enrich(parse(messages), products, countries))
    return counted.select(
        sf.to_json(
            sf.struct(
                _text(sf.col("window.start")).alias("from"),
                _text(sf.col("window.end")).alias("to"),
                sf.col("country_name").alias("country"),
                "orders", "items", "revenue",
            )
        ).alias("body"),
        sf.col("country_name").alias("keys"),
        sf.col("country_name").alias("shardingKey"),
    )  # fmt: skip


def _text(when: Column) -> Column:
    return sf.date_format(when, "yyyy-MM-dd'T'HH:mm:ssXXX")


# --- from topic to topic --------------------------------------------------------------------------


def start_stats(
    spark: SparkSession, name_server: str, checkpoint: Path, trigger: dict[str, Any]
) -> StreamingQuery:
    """Count orders, and write each window exactly once."""
    made = stats(spark, read_orders(spark, name_server, STATS_GROUP))
    return (
        made.writeStream.queryName("stats")
        .format("rocketmq")
        .option("nameServer", name_server)
        .option("topic", STATS_TOPIC)
        .option("delivery", "transactional")
        .option("checkpointLocation", str(checkpoint / "stats"))
        .trigger(**trigger)
        .start()
    )


def start_archive(
    spark: SparkSession, name_server: str, checkpoint: Path, folder: Path, trigger: dict[str, Any]
) -> StreamingQuery:
    """Keep all messages as they came, in a folder for each day."""
    messages = read_orders(spark, name_server, ARCHIVE_GROUP)
    return (
        messages.withColumn("body", sf.col("body").cast("string"))
        .withColumn("day", sf.to_date("storeTimestamp"))
        .writeStream.queryName("archive")
        .format("parquet")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint / "archive"))
        .partitionBy("day")
        .trigger(**trigger)
        .start()
    )


class Progress:
    """Says of each batch of a query what it has done, once."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._batch_id = -1

    def show(self) -> None:
        for progress in self.query.recentProgress:
            if progress["batchId"] <= self._batch_id:
                continue
            self._batch_id = progress["batchId"]
            taken_s = progress["durationMs"]["triggerExecution"] / 1000
            print(
                f"{progress['name']}: batch {self._batch_id}, {progress['numInputRows']} orders in"
                f" {taken_s:.1f} s",
                flush=True,
            )


def await_batch(query: StreamingQuery, stopping: threading.Event) -> None:
    """Let a query have its first batch before the next one begins, but not for ever.

    Seen with Spark 4.3.0: of two queries that went on from their checkpoints at the same moment, no
    task could be sent any more ("Illegal size 5 of collection, expected 7"). Why is not known; one
    after the other they go on.
    """
    until_s = time.monotonic() + _FIRST_BATCH_S
    while query.isActive and query.lastProgress is None and time.monotonic() < until_s:
        if stopping.wait(_LOOK_S):
            break


def watch(queries: Sequence[StreamingQuery], stopping: threading.Event) -> None:
    """Show batches until all queries have ended or somebody says stop; raise if one has failed."""
    shown = [Progress(query) for query in queries]
    while any(query.isActive for query in queries) and not stopping.wait(_LOOK_S):
        for one in shown:
            one.show()
        for query in queries:
            if not query.isActive:
                query.awaitTermination()  # raises what has ended it
    for query in queries:
        query.stop()
    for one in shown:
        one.show()


def run(options: argparse.Namespace) -> None:
    asyncio.run(make_topics(options.name_server))
    cores = f"local[{options.cores}]" if options.cores else "local[*]"
    config = {"spark.log.level": "ERROR", "spark.sql.session.timeZone": "UTC"}
    archive = options.archive or options.checkpoint / "parquet"
    quickly: dict[str, Any] = {"processingTime": "1 second"}
    now_and_then: dict[str, Any] = {"processingTime": "5 seconds"}
    if options.available_now:
        quickly = now_and_then = {"availableNow": True}
    with session("orders", cores, config) as spark:
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):  # Spark has set the second one itself
            signal.signal(number, lambda *_: stopping.set())
        print("Spark is there; queries start", flush=True)
        counted = start_stats(spark, options.name_server, options.checkpoint, quickly)
        await_batch(counted, stopping)
        kept = start_archive(spark, options.name_server, options.checkpoint, archive, now_and_then)
        watch([counted, kept], stopping)
        if (archive / "_spark_metadata").exists():
            print(f"stopped; {spark.read.parquet(str(archive)).count()} orders are in {archive}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name-server", default="127.0.0.1:9876", help="%(default)s by default")
    parser.add_argument("--checkpoint", type=Path, required=True,
                        help="folder in which Spark keeps how far it is")  # fmt: skip
    parser.add_argument("--archive", type=Path,
                        help="for Parquet files; by default a part of the checkpoint")  # fmt: skip
    parser.add_argument("--available-now", action="store_true",
                        help="read what there is now, and end")  # fmt: skip
    parser.add_argument("--cores", type=int, help="how many to use; all by default")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except (ClientError, JavaNotFoundError) as error:
        print(f"orders_pipeline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
