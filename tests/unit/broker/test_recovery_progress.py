"""A broker that recovers its store says how far it is, and not more often than people read."""

import logging
import os
import re
import shutil
from pathlib import Path

import pytest

from roketto.broker import recovery_progress
from roketto.broker.app import Broker
from roketto.broker.config import BrokerConfig
from roketto.broker.recovery_progress import RecoveryProgress
from roketto.protocol.record import Record
from roketto.store import catchup
from roketto.store.store import Store, StoreSettings

SEGMENT_BYTES = 1 << 16
MESSAGES = 500


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """A broker on a store of two segments that has lost its queues."""
    settings = StoreSettings(segment_bytes=SEGMENT_BYTES, index_slots=100, index_entries=400)
    store = Store(tmp_path / "store", settings)
    store.open(os.getpid())
    for _ in range(MESSAGES):
        store.append(Record("T", b"x" * 100, b""))
    store.close()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    return BrokerConfig(
        listen_port=0,
        bind_address="127.0.0.1",
        broker_ip1="127.0.0.1",
        store_path_root_dir=tmp_path / "store",
        mapped_file_size_commit_log=SEGMENT_BYTES,
        max_hash_slot_num=100,
        max_index_num=400,
    )


async def percentages(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> list[int]:
    """Start the broker and stop it; what it said of its recovery."""
    broker = Broker(config)
    with caplog.at_level(logging.INFO, "roketto.broker.recovery_progress"):
        await broker.start()
    queue = broker.context.store.queue("T", 0)
    assert queue is not None
    assert queue.queue_offset_max == MESSAGES, "the queue was not rebuilt"
    await broker.stop()
    told = [re.search(r"recovering the store (\S+): (\d+) % of the log", line)
            for line in caplog.messages]  # fmt: skip
    assert all(found[1] == str(config.store_path_root_dir) for found in told if found)
    return [int(found[2]) for found in told if found]


async def test_a_long_recovery_tells_how_far_it_is(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of it, if it takes as long as that."""
    monkeypatch.setattr(catchup, "_PROGRESS_BYTES", 1)
    monkeypatch.setattr(catchup, "_PROGRESS_RECORDS", 100)
    monkeypatch.setattr(recovery_progress, "_PROGRESS_S", 0.0)
    told = await percentages(config, caplog)
    assert len(told) >= MESSAGES // 100
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 100


async def test_a_quick_recovery_says_nothing_on_its_way(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is over before the first word would be due."""
    monkeypatch.setattr(catchup, "_PROGRESS_BYTES", 1)
    monkeypatch.setattr(catchup, "_PROGRESS_RECORDS", 1)
    monkeypatch.setattr(recovery_progress, "_PROGRESS_S", 600.0)
    assert await percentages(config, caplog) == []


def test_progress_is_told_every_few_seconds_by_the_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often the store reports."""
    now_s = 1000.0
    progress = RecoveryProgress(Path("/store"), lambda: now_s)
    with caplog.at_level(logging.INFO, "roketto.broker.recovery_progress"):
        for step in range(100):
            now_s = 1000.0 + step / 10
            progress(step << 20, 200 << 20)
    assert caplog.messages == [
        f"recovering the store /store: {step // 2} % of the log, {step} of 200 MiB, have been read"
        for step in (30, 60, 90)
    ]
