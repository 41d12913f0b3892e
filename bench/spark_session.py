"""A Spark session that does what it is told, one line of JSON at a time; both sides run this.

It runs in an environment of its own and needs nothing but PySpark: `spark_process.py` starts it
with the session's settings, writes jobs to its standard input and reads the answers. Whatever
Spark itself prints goes to standard error.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

Job = dict[str, Any]

_KAFKA_SERIALIZERS = "org.apache.kafka.common.serialization"


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        for line in sys.stdin:
            print(json.dumps(answer(spark, json.loads(line))), file=answers, flush=True)
    finally:
        spark.stop()


def answer(spark: SparkSession, job: Job) -> Job:
    """What came of a job, or why nothing did."""
    try:
        return {"answer": JOBS[job["do"]](spark, job)}
    except Exception as error:  # noqa: BLE001 (whatever it is, the benchmark tells it and ends)
        return {"error": f"{type(error).__name__}: {error}"}


def make_rows(spark: SparkSession, job: Job) -> None:
    """Write rows with a number and a body of 128 bytes to Parquet."""
    bodies = sql.sha2(sql.col("id").cast("string"), 512).cast("binary").alias("body")
    made = spark.range(0, job["rows"], numPartitions=job["files"]).select("id", bodies)
    made.write.mode("overwrite").parquet(job["path"])


def read(spark: SparkSession, job: Job) -> float:
    """Read everything and throw it away; the seconds that took."""
    started_s = time.perf_counter()
    to_nowhere(loaded(spark, job))
    return time.perf_counter() - started_s


def count(spark: SparkSession, job: Job) -> list[int]:
    """Read everything as `read` does, and count: rows, and bytes in one column of them."""
    seen = Observation()
    sizes = sql.sum(sql.length(job["sized"])).alias("bytes")
    to_nowhere(loaded(spark, job).observe(seen, sql.count(sql.lit(1)).alias("rows"), sizes))
    return [seen.get["rows"], seen.get["bytes"] or 0]


def loaded(spark: SparkSession, job: Job) -> DataFrame:
    reader = spark.read.format(job["format"]).options(**job["options"])
    if job.get("schema"):
        reader = reader.schema(job["schema"])
    found = reader.load(job.get("path"))
    return found.selectExpr(*job["select"]) if job.get("select") else found


def to_nowhere(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def write(spark: SparkSession, job: Job) -> float:
    """Write what another job would read; the seconds that took."""
    rows = loaded(spark, job["from"])
    started_s = time.perf_counter()
    rows.write.format(job["format"]).options(**job["options"]).mode(job["mode"]).save(
        job.get("path")
    )
    return time.perf_counter() - started_s


def stream(spark: SparkSession, job: Job) -> list[Job]:
    """Run a stream over what there is; of each batch its rows, its begin and its milliseconds."""
    reader = spark.readStream.format(job["format"]).options(**job["options"])
    if job.get("schema"):
        reader = reader.schema(job["schema"])
    rows = reader.load()
    if job.get("select"):
        rows = rows.selectExpr(*job["select"])
    query = (
        rows.writeStream.format(job["to"]["format"])
        .options(**job["to"]["options"])
        .option("checkpointLocation", job["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    try:
        if not query.awaitTermination(job["timeout_s"]):
            raise TimeoutError(f"the stream did not end within {job['timeout_s']} s")
    finally:
        query.stop()
    progress = [json.loads(one.json) for one in query.recentProgress]
    return [
        {
            "rows": one["numInputRows"],
            "begin": one["timestamp"],
            "ms": one["durationMs"]["triggerExecution"],
            "durations": one["durationMs"],
        }
        for one in progress
        if one["numInputRows"]
    ]


def make_kafka_topic(spark: SparkSession, job: Job) -> None:
    """Make a topic with so many partitions; the broker may still be starting."""
    java: Any = spark._jvm
    settings = java.java.util.Properties()
    settings.setProperty("bootstrap.servers", job["servers"])
    settings.setProperty("default.api.timeout.ms", "60000")
    partitions, copies = java.java.util.Optional.of(job["queues"]), java.java.util.Optional.empty()
    topic = java.org.apache.kafka.clients.admin.NewTopic(job["topic"], partitions, copies)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        admin.createTopics(java.java.util.Collections.singletonList(topic)).all().get()
    finally:
        admin.close()


def kafka_rows(spark: SparkSession, job: Job) -> int:
    """How many rows a topic has, by the ends of its partitions."""
    java: Any = spark._jvm
    settings = java.java.util.Properties()
    settings.setProperty("bootstrap.servers", job["servers"])
    for kind in ("key", "value"):
        settings.setProperty(f"{kind}.deserializer", f"{_KAFKA_SERIALIZERS}.ByteArrayDeserializer")
    consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        places = java.java.util.ArrayList()
        for part in consumer.partitionsFor(job["topic"]):
            places.add(java.org.apache.kafka.common.TopicPartition(part.topic(), part.partition()))
        return sum(consumer.endOffsets(places).values())
    finally:
        consumer.close()


JOBS: dict[str, Callable[[SparkSession, Job], object]] = {
    "make_rows": make_rows,
    "read": read,
    "count": count,
    "write": write,
    "stream": stream,
    "make_kafka_topic": make_kafka_topic,
    "kafka_rows": kafka_rows,
}

if __name__ == "__main__":
    main()
