"""A broker for tests is there at once, serves all kinds of tests, and leaves nothing behind."""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from roketto.client.client import Client
from roketto.client.message import Message
from roketto.client.producer import Producer
from roketto.client.settings import ClientSettings
from roketto.clock import monotonic_s
from roketto.options import ConfigError
from roketto.testing import Broker


def traces() -> tuple[object, ...]:
    """What a broker could leave in this process, or in the directory for temporary files."""
    descriptors = Path("/proc/self/fd")
    handlers = {name: tuple(getattr(logger, "handlers", ())) for name, logger in
                logging.root.manager.loggerDict.items()}  # fmt: skip
    return (
        {thread.name for thread in threading.enumerate()},
        len(list(descriptors.iterdir())) if descriptors.exists() else 0,
        {path.name for path in Path(tempfile.gettempdir()).glob("roketto-*")},
        tuple(logging.root.handlers),
        {name for name, found in handlers.items() if found},
    )


def send(broker: Broker, topic: str, *bodies: bytes) -> None:
    """As a test without coroutines sends: in a loop of its own."""

    async def work() -> None:
        async with Producer("testing", broker.name_server) as producer:
            for body in bodies:
                await producer.send(Message(topic, body))

    asyncio.run(work())


def test_it_starts_within_300_ms_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one of a process imports the servers before that; so there is one before."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Broker() as first:
        first.create_topic("Orders")
        first.messages("Orders")
    before = traces()
    fastest_s = float("inf")
    for _ in range(3):  # the machine may do something else meanwhile
        begun_s = monotonic_s()
        with Broker() as broker:
            fastest_s = min(fastest_s, monotonic_s() - begun_s)
            broker.create_topic("Orders")
            send(broker, "Orders", b"tea")
            assert list(tmp_path.glob("roketto-*/store/commitlog"))
    assert fastest_s < 0.3
    assert traces() == before
    assert not list(tmp_path.iterdir())


def test_what_was_sent_is_seen_in_its_order() -> None:
    with Broker() as broker:
        broker.create_topic("Orders", queues=2)
        bodies = [b"%d" % number for number in range(70)]
        send(broker, "Orders", *bodies)
        found = broker.messages("Orders")
        assert [message.body for message in found] == bodies
        assert {message.queue_id for message in found} == {0, 1}
        assert found[0].topic == "Orders"


async def test_coroutines_and_threads_use_it_at_once() -> None:
    async with Broker() as broker:
        broker.create_topic("Orders", queues=1)
        sending = asyncio.get_running_loop().run_in_executor(
            None, send, broker, "Orders", b"thread"
        )
        async with Producer("coroutines", broker.name_server) as producer:
            await producer.send(Message("Orders", b"coroutine"))
        await sending
        assert {message.body for message in broker.messages("Orders")} == {b"thread", b"coroutine"}
    await asyncio.get_running_loop().shutdown_default_executor()


def test_after_a_stop_it_comes_back_with_its_messages() -> None:
    with Broker() as broker:
        broker.create_topic("Orders", attributes={"dedup.window.seconds": "600"})
        send(broker, "Orders", b"tea")
        address = broker.name_server, broker.address
        broker.stop()
        with pytest.raises(RuntimeError, match="does not run"):
            broker.messages("Orders")
        broker.start()
        assert (broker.name_server, broker.address) == address
        assert [message.body for message in broker.messages("Orders")] == [b"tea"]


async def test_several_run_beside_each_other_with_their_own_configuration() -> None:
    with Broker({"brokerName": "one"}) as one, Broker({"autoCreateTopicEnable": False}) as two:
        one.create_topic("Orders", queues=1)
        assert one.name_server != two.name_server
        async with Client(ClientSettings(name_servers=one.name_server)) as client:
            assert set((await client.routes.get("Orders")).brokers) == {"one"}
        with pytest.raises(Exception, match="knows no route"):
            two.messages("Orders")


def test_a_configuration_that_is_none_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        async with Broker({"flushDiskType": "NEVER"}):
            pass

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match="did you mean brokerName"):
        Broker({"brokerNam": "x"}).start()
    with pytest.raises(ConfigError, match="flushDiskType"):
        asyncio.run(start())
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="was not started"):
        _ = Broker().name_server


NOTHING_IMPORTED = """
import sys

def test_nothing_is_imported_for_those_who_want_no_broker():
    ours = {name for name in sys.modules if name.startswith("roketto")}
    assert ours == {"roketto", "roketto.pytest_plugin"}
    assert "numpy" not in sys.modules
"""

ONE_EACH = """
import pytest

@pytest.fixture(scope="session")
def rocketmq_config():
    return {"brokerName": "configured"}

seen = set()

def test_the_session_has_one(rocketmq):
    rocketmq.create_topic("Orders")
    seen.add(rocketmq.address)

def test_it_is_the_same(rocketmq, rocketmq_broker):
    assert rocketmq.address in seen
    assert rocketmq_broker.address not in seen
    assert rocketmq.messages("Orders") == []
"""


def test_pytest_finds_the_fixtures_by_itself(tmp_path: Path) -> None:
    (tmp_path / "test_1.py").write_text(NOTHING_IMPORTED)
    (tmp_path / "test_2.py").write_text(ONE_EACH)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio",
         "-p", "no:xdist", "-p", "no:hypothesispytest", "."],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
