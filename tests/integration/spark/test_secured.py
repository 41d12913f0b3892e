"""TLS and access keys of the options reach every connection: those of the driver and of tasks."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from integration.client.certificates import make_certificate
from integration.client.gate import Gate, Look
from integration.spark.spark_rig import Rig
from roketto.protocol.codes import RequestCode
from roketto.protocol.command import Command
from roketto.protocol.errors import SignatureError
from roketto.protocol.signing import ACCESS_KEY, SECURITY_TOKEN, verify
from roketto.remoting.loop import run
from roketto.remoting.tls import TlsFiles
from roketto.spark.cluster import close_clusters
from servers import broker, name_server

COUNT = 20
TWICE = sorted(f"{number}{mark}" for number in range(COUNT) for mark in ("", "!"))
_WAIT_S = 30.0


def round_trip(spark: SparkSession, options: dict[str, str], folder: Path) -> list[str]:
    """Rows that are written, and as a stream once more into the same topic, and what is there."""
    rows = spark.range(COUNT).repartition(2).selectExpr("CAST(id AS STRING) AS body")
    rows.write.format("rocketmq").options(**options).mode("append").save()
    stream = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest")
    marked = stream.load().selectExpr("concat(CAST(body AS STRING), '!') AS body")
    writer = marked.writeStream.format("rocketmq").options(**options, delivery="transactional")
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = spark.read.format("rocketmq").options(**options).load().select("body").collect()
    return sorted(bytes(row.body).decode() for row in found)


# --- TLS ------------------------------------------------------------------------------------------


def test_tls_is_spoken_with_the_files_of_the_options(spark: SparkSession, tmp_path: Path) -> None:
    """With a broker that takes nothing else, from clients whose certificate it trusts; those
    without one, or without TLS, or who do not trust the broker, write nothing.
    """
    files = make_certificate(tmp_path)
    server = {
        "tls.server.certPath": str(files.certificate),
        "tls.server.keyPath": str(files.key),
        "tls.server.trustCertPath": str(files.trusted),
        "tls.server.need.client.auth": "require",
    }
    with (
        name_server(tmp_path, server) as names,
        broker(tmp_path, [names.address], {**server, "tls.server.mode": "enforcing"}),
    ):
        plain = {"nameServer": names.address, "topic": "SparkTls"}
        assert round_trip(spark, {**plain, **tls(files)}, tmp_path / "checkpoint") == TWICE
        lacking = {
            "nobody": plain,
            "certificate": {**plain, **tls(TlsFiles(trusted=files.trusted))},
            "trust": {**plain, **tls(TlsFiles(certificate=files.certificate, key=files.key))},
        }
        for what, options in lacking.items():
            with pytest.raises(PySparkException):
                round_trip(spark, {**options, "sendTimeoutMs": "500"}, tmp_path / what)
        options = {**plain, **tls(files)}
        assert spark.read.format("rocketmq").options(**options).load().count() == len(TWICE)


def tls(files: TlsFiles) -> dict[str, str]:
    """Options that name these files."""
    named = {
        "trustCertPath": files.trusted, "certPath": files.certificate, "keyPath": files.key
    }  # fmt: skip
    given = {f"tls.client.{name}": str(path) for name, path in named.items() if path is not None}
    return {"tls.enable": "true", **given}


# --- access keys ----------------------------------------------------------------------------------


@contextmanager
def gate(rig: Rig, look: Look) -> Iterator[Gate]:
    """A gate before the cluster, in a loop of its own: this thread waits for Spark."""
    is_open: Future[tuple[Gate, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            async with Gate(rig.names, rig.broker.address, look).open() as opened:
                is_done = asyncio.Event()
                is_open.set_result((opened, asyncio.get_running_loop(), is_done))
                await is_done.wait()
        except BaseException as error:
            if not is_open.done():
                is_open.set_exception(error)
            raise

    thread = threading.Thread(target=lambda: run(serve()), name="gate")
    thread.start()
    try:
        opened, loop, is_done = is_open.result(_WAIT_S)
        try:
            yield opened
        finally:
            close_clusters()  # before the gate: its connections are theirs
            loop.call_soon_threadsafe(is_done.set)
    finally:
        thread.join(_WAIT_S)


def test_every_request_is_signed_with_the_keys_of_the_options(
    spark: SparkSession, rig: Rig, tmp_path: Path
) -> None:
    """Those that ask for routes and offsets, read, write and publish; a gate looks at them."""
    topic = rig.topic("SparkSigned", queues=2)
    seen: list[tuple[int, int, dict[str, str], bytes]] = []

    def look(request: Command) -> None:
        seen.append(
            (request.code, request.version, dict(request.ext or {}), bytes(request.body or b""))
        )

    keys = {"accessKey": "spark", "secretKey": "known to both", "securityToken": "of today"}
    with gate(rig, look) as opened:
        options = {"nameServer": opened.address, "topic": topic, **keys}
        assert round_trip(spark, options, tmp_path / "checkpoint") == TWICE
    codes = {code for code, *_ in seen}
    assert codes >= {
        RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_MAX_OFFSET, RequestCode.READ_RANGE,
    }  # fmt: skip
    assert len(codes) > 5
    for code, version, ext, body in seen:
        assert (ext[ACCESS_KEY], ext[SECURITY_TOKEN]) == ("spark", "of today"), code
        verify("known to both", ext, body, version)
    with pytest.raises(SignatureError):
        verify("guessed", *seen[0][2:], seen[0][1])
