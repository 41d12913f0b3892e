"""A broker's tables are loaded together and saved by themselves, also after the disk refused."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from roketto.broker import tables as tables_module
from roketto.broker.tables import Tables
from roketto.protocol.bodies.topics import TopicConfig
from roketto.store.errors import StoreError
from roketto.store.files import Files


class WatchedFiles(Files):
    """Real files that tell when one of them was replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced = threading.Event()

    def replace(self, path: Path, data: bytes, *, keep_previous: bool = False) -> None:
        super().replace(path, data, keep_previous=keep_previous)
        self.replaced.set()

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.replaced.wait, 10), "nothing was saved"


async def test_what_must_not_wait_is_saved_before_the_round(tmp_path: Path) -> None:
    """A topic that was just made is on the disk long before the interval has passed."""
    files = WatchedFiles()
    tables = Tables(files, tmp_path)
    tables.load()
    saving = asyncio.create_task(tables.keep_saved(3600))
    tables.topics.put(TopicConfig(topic_name="T"))
    tables.save_soon()
    await files.wait()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    again = Tables(Files(), tmp_path)
    again.load()
    assert again.topics.get("T") == TopicConfig(topic_name="T")


async def test_saving_ends_when_it_is_stopped_just_as_something_must_not_wait(
    tmp_path: Path,
) -> None:
    """A topic is made in the turn in which the broker stops: the stop must not wait for ever."""
    tables = Tables(Files(), tmp_path)
    saving = asyncio.create_task(tables.keep_saved(3600))
    await asyncio.sleep(0)
    tables.save_soon()
    await asyncio.sleep(0)
    saving.cancel()
    done, _ = await asyncio.wait((saving,), timeout=10)
    saving.cancel()
    assert done, "it goes on"


async def test_who_waits_for_a_save_goes_on_when_it_is_done(tmp_path: Path) -> None:
    """What was changed before is in the file then; several who wait share a round."""
    tables = Tables(Files(), tmp_path)
    tables.load()
    saving = asyncio.create_task(tables.keep_saved(3600))
    tables.topics.put(TopicConfig(topic_name="T"))
    gone = asyncio.create_task(tables.saved())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(tables.saved(), tables.saved())
    again = Tables(Files(), tmp_path)
    again.load()
    assert again.topics.get("T") is not None
    saving.cancel()
    last = asyncio.create_task(tables.saved())
    await asyncio.gather(saving, return_exceptions=True)
    tables.save_all()
    await last


async def test_who_waits_for_a_save_that_fails_is_told(tmp_path: Path) -> None:
    """The change is there, but not for ever; after a better round nobody is told any more."""
    tables = Tables(Files(), tmp_path / "store")
    tables.load()
    (tmp_path / "store").write_text("in the way")
    saving = asyncio.create_task(tables.keep_saved(3600))
    tables.topics.put(TopicConfig(topic_name="T"))
    with pytest.raises(StoreError, match=r"a restart would forget it: cannot save .*topics\.json"):
        await tables.saved()
    (tmp_path / "store").unlink()
    await tables.saved()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)


async def test_what_may_wait_is_saved_with_the_next_round(tmp_path: Path) -> None:
    """Nobody has to ask for it."""
    files = WatchedFiles()
    tables = Tables(files, tmp_path)
    tables.load()
    tables.offsets.put("T", "G", 0, 7)
    saving = asyncio.create_task(tables.keep_saved(0.01))
    await files.wait()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    assert (tmp_path / "config" / "consumerOffset.json").exists()


def test_a_refused_save_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While the directory cannot be made there is one line, and later nothing is missing."""
    tables = Tables(Files(), tmp_path / "store")
    tables.load()
    tables.offsets.put("T", "G", 0, 7)
    (tmp_path / "store").write_text("in the way")
    with caplog.at_level(logging.ERROR):
        tables.save_all()
        tables.save_all()
    assert len(caplog.records) == 1
    assert "consumerOffset.json cannot be saved" in caplog.text
    (tmp_path / "store").unlink()
    tables.save_all()
    assert (tmp_path / "store" / "config" / "consumerOffset.json").exists()


async def test_who_waits_for_a_save_does_not_wait_for_the_rest_of_a_burst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator is answered when it is on the disk, and not some time later."""
    monkeypatch.setattr(tables_module, "SOON_S", 3_600.0)
    tables = Tables(Files(), tmp_path)
    tables.load()
    saving = asyncio.create_task(tables.keep_saved(3600))
    tables.topics.put(TopicConfig(topic_name="T"))
    async with asyncio.timeout(10):
        await tables.saved()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    assert b'"T"' in (tmp_path / "config" / "topics.json").read_bytes()


async def test_who_waits_for_a_save_some_turns_after_the_change_does_not_wait_for_the_burst_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request changes its topic in one turn, and waits in a later one."""
    monkeypatch.setattr(tables_module, "SOON_S", 3_600.0)
    tables = Tables(Files(), tmp_path)
    tables.load()
    saving = asyncio.create_task(tables.keep_saved(3600))
    await asyncio.sleep(0)
    tables.topics.put(TopicConfig(topic_name="T"))
    tables.save_soon()
    for _ in range(5):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await tables.saved()
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    assert b'"T"' in (tmp_path / "config" / "topics.json").read_bytes()


async def test_a_large_table_is_written_while_others_get_their_turn(tmp_path: Path) -> None:
    """After a start no text is there yet; what changes meanwhile is in the file, too."""
    tables = Tables(Files(), tmp_path)
    for number in range(1_000):
        tables.topics.put(TopicConfig(topic_name=f"T{number}"))
    tables.save_all()
    tables = Tables(Files(), tmp_path)
    tables.load()
    tables.topics.put(TopicConfig(topic_name="New"))
    saving = asyncio.create_task(tables.keep_saved(3600))
    waiting = asyncio.create_task(tables.saved())
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 3:
            tables.topics.put(TopicConfig(topic_name="Meanwhile"))
    assert turns > 10
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    again = Tables(Files(), tmp_path)
    again.load()
    assert set(again.topics.topics) == {*(f"T{n}" for n in range(1_000)), "New", "Meanwhile"}
