"""Batches are published once, in order and in turns, and go on where they were stopped."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from roketto.broker import piece_publisher
from roketto.broker import publications as module
from roketto.broker.publications import Publications
from roketto.broker.staged import digest_of
from roketto.protocol.bodies.topics import TopicConfig, TopicFilterType
from roketto.protocol.codes import ResponseCode
from roketto.protocol.crc import masked_crc32
from roketto.protocol.errors import RequestError
from roketto.protocol.record import Record
from roketto.protocol.sysflags import MULTI_TAGS
from roketto.store.put_result import BatchResult
from roketto.store.put_status import PutRefusedError, PutStatus
from unit.broker.dedup_rig import DedupRig
from unit.broker.send_rig import HOST
from unit.broker.staged_rig import QUERY, SINK, StagedRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StagedRig]:
    rig = StagedRig(tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_publisher, "SLICE_MESSAGES_MAX", 2)


def ticking(rig: StagedRig, tick_s: float = 1.0) -> Publications:
    """Publications for which each step takes a turn of its own."""

    def now_s() -> float:
        rig.now_s += tick_s
        return rig.now_s

    context = rig.context
    context.publications = Publications(
        context.store, context.topics, context.sinks, context.stats, context.config, HOST,
        now_s=now_s,
    )  # fmt: skip
    return context.publications


class Refusing:
    """Lets a store take so many slices and refuse the others."""

    def __init__(self, rig: StagedRig, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = count
        self._append = rig.store.append_batch
        monkeypatch.setattr(rig.store, "append_batch", self)

    def __call__(self, batch: Record) -> BatchResult:
        self.left -= 1
        if self.left < 0:
            raise PutRefusedError(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")
        return self._append(batch)


async def two_pieces(rig: StagedRig) -> list[list[int]]:
    return [await rig.stage(*"abcde"), await rig.stage(*"fgh"), await rig.stage("x", queue_id=2)]


async def test_pieces_become_messages_in_their_order(rig: StagedRig, short_slices: None) -> None:
    """As producers of them would be told by a consumer: host, time, place, properties."""
    pieces = await two_pieces(rig)
    rig.pass_ms(1_000)
    published = await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert (published.messages, published.is_new) == (9, True)
    assert (rig.bodies(1), rig.bodies(2)) == (list("abcdefgh"), ["x"])
    first = rig.records()[0]
    assert first.get_property("UNIQ_KEY") == "Ua"
    assert first.born_host == rig.connection.peer_host
    assert first.store_time_ms - first.born_time_ms == 1_000
    assert first.prepared_log_offset == sum(pieces[0])
    assert rig.context.stats.topics["T"].put.count == 9


async def test_what_is_published_is_not_published_again(rig: StagedRig) -> None:
    """Nor is anything looked at for it: its pieces may be gone."""
    publications = rig.context.publications
    pieces = await two_pieces(rig)
    first = await publications.publish(SINK, 3, QUERY, await staged(rig, 3))
    again = await publications.publish(SINK, 3, QUERY, [[1 << 40, 7]])
    assert (again.messages, again.is_new, again.end) == (0, False, first.end)
    assert (await publications.publish(SINK, 2, QUERY, pieces)).is_new is False
    assert rig.bodies() == ["3a", "3b"]


async def staged(rig: StagedRig, batch: int) -> list[list[int]]:
    return [await rig.stage(f"{batch}a", f"{batch}b", batch=batch)]


async def test_a_batch_without_pieces_here_is_published_at_once(rig: StagedRig) -> None:
    published = await rig.context.publications.publish(SINK, 0, QUERY, [])
    assert (published.messages, published.is_new) == (0, True)
    sink = rig.sinks.find(SINK)
    assert sink is not None
    assert (sink.published, sink.begun) == (0, -1)


async def test_a_batch_that_the_store_refuses_goes_on_where_it_stopped(
    rig: StagedRig, short_slices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = await two_pieces(rig)
    publications = rig.context.publications
    for taken in (0, 1, 0, 2):
        refusing = Refusing(rig, taken, monkeypatch)
        with pytest.raises(PutRefusedError, match="the disk is full"):
            await publications.publish(SINK, 0, QUERY, pieces)
        monkeypatch.setattr(rig.store, "append_batch", refusing._append)
    assert rig.bodies(1) == list("abcde"), "three slices"
    assert rig.context.stats.put_failed == 4
    await publications.publish(SINK, 0, QUERY, pieces)
    assert (rig.bodies(1), rig.bodies(2)) == (list("abcdefgh"), ["x"])


@pytest.mark.parametrize("taken", range(6))
async def test_a_batch_that_a_kill_ends_goes_on_where_it_stopped(
    rig: StagedRig, short_slices: None, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """Behind each of its slices; other messages are between and behind them."""
    pieces = await two_pieces(rig)
    with monkeypatch.context() as patch:
        Refusing(rig, taken, patch)
        with pytest.raises(PutRefusedError):
            await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    rig.send()
    rig.kill()
    rig.send()
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    found = [body for body in rig.bodies(1) if body != "hello"]
    assert (found, rig.bodies(2)) == (list("abcdefgh"), ["x"])
    rig.kill()
    assert not (await rig.context.publications.publish(SINK, 0, QUERY, pieces)).is_new


async def test_a_part_of_a_slice_that_is_left_of_a_power_loss_is_not_stored_again(
    rig: StagedRig,
) -> None:
    """The disk may have had only the first pages of what was stored at once."""
    pieces = await two_pieces(rig)
    rig.sinks.begin(SINK, 0, QUERY, digest_of(pieces))
    for body in "abc":
        rig.store.append(Record("T", body.encode(), queue_id=1, prepared_log_offset=sum(pieces[0])))
    rig.kill()
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert (rig.bodies(1), rig.bodies(2)) == (list("abcdefgh"), ["x"])


async def test_who_asks_twice_waits_for_the_same_publication(
    rig: StagedRig, short_slices: None
) -> None:
    publications = ticking(rig)
    pieces = await two_pieces(rig)
    asked = [asyncio.create_task(publications.publish(SINK, 0, QUERY, pieces)) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(publications) == 1
    asked[0].cancel()  # as its connection does when it ends
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(told[0], asyncio.CancelledError)
    assert told[1] == told[2]
    assert rig.bodies(1) == list("abcdefgh")
    assert len(publications) == 0


async def test_only_one_batch_of_a_sink_is_published_at_a_time(
    rig: StagedRig, short_slices: None
) -> None:
    publications = ticking(rig)
    pieces = await two_pieces(rig)
    first = asyncio.create_task(publications.publish(SINK, 0, QUERY, pieces))
    await asyncio.sleep(0)
    for batch, others in ((1, pieces), (0, pieces[:1])):
        with pytest.raises(RequestError, match="publishes batch 0 at this moment") as error:
            await publications.publish(SINK, batch, QUERY, others)
        assert error.value.code == ResponseCode.SYSTEM_BUSY
    assert (await first).messages == 9


async def test_a_batch_that_was_begun_is_ended_before_another(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = await two_pieces(rig)
    publications = rig.context.publications
    with monkeypatch.context() as patch:
        Refusing(rig, 0, patch)
        with pytest.raises(PutRefusedError):
            await publications.publish(SINK, 0, QUERY, pieces)
    with pytest.raises(RequestError, match="has begun to publish batch 0 and not ended it"):
        await publications.publish(SINK, 1, QUERY, await staged(rig, 1))
    with pytest.raises(RequestError, match="batch 0 with other pieces"):
        await publications.publish(SINK, 0, QUERY, pieces[:2])
    with pytest.raises(RequestError, match="choose another sinkId"):
        await publications.publish(SINK, 0, "other", pieces)
    await publications.publish(SINK, 0, QUERY, pieces)
    await publications.publish(SINK, 1, QUERY, await staged(rig, 1))
    assert rig.bodies(1) == [*"abcdefgh", "1a", "1b"]


async def test_a_batch_that_was_decided_is_not_passed_over(rig: StagedRig) -> None:
    """It would be taken for published with the later one."""
    pieces = await two_pieces(rig)
    assert (await rig.decide(pieces)).code == 0
    with pytest.raises(RequestError, match="has decided batch 0, which is not published here"):
        await rig.context.publications.publish(SINK, 1, QUERY, await staged(rig, 1))
    assert (await rig.publish(pieces)).code == 0
    assert (await rig.publish(await staged(rig, 1), batch=1)).code == 0
    assert rig.bodies(1) == [*"abcdefgh", "1a", "1b"]


async def test_the_next_batch_may_begin_as_soon_as_one_is_done(rig: StagedRig) -> None:
    """Also in the turn in which that is, before anybody was told."""
    publications = rig.context.publications
    pieces = [await staged(rig, 0), await staged(rig, 1)]
    first = asyncio.create_task(publications.publish(SINK, 0, QUERY, pieces[0]))
    sink = None
    while sink is None or sink.published < 0:
        await asyncio.sleep(0)
        sink = rig.sinks.find(SINK)
    second = asyncio.create_task(publications.publish(SINK, 1, QUERY, pieces[1]))
    assert [published.messages for published in await asyncio.gather(first, second)] == [2, 2]
    assert (rig.bodies(1), len(publications)) == (["0a", "0b", "1a", "1b"], 0)
    assert not sink.is_busy


async def test_others_have_their_turn_while_much_is_published(
    rig: StagedRig, short_slices: None
) -> None:
    """One step in each round of the loop, of all sinks together."""
    publications = ticking(rig)
    pieces = {sink: [await rig.stage(*"abcdef", sink=sink)] for sink in ("one", "two")}
    asked = [
        asyncio.create_task(publications.publish(sink, 0, QUERY, each))
        for sink, each in pieces.items()
    ]
    grown: list[int] = []
    while not all(task.done() for task in asked):
        await asyncio.sleep(0)
        grown.append(len(rig.bodies(1)))
    steps = [after - before for before, after in pairwise(grown)]
    assert max(steps) == 2, "a slice"
    assert grown[-1] == 12
    bodies = rig.bodies(1)
    assert bodies != list("abcdefabcdef"), "they take turns"


async def test_what_is_under_way_stops_with_the_broker(rig: StagedRig, short_slices: None) -> None:
    publications = ticking(rig)
    pieces = await two_pieces(rig)
    asked = asyncio.create_task(publications.publish(SINK, 0, QUERY, pieces))
    while not rig.bodies(1):  # noqa: ASYNC110 (it publishes meanwhile)
        await asyncio.sleep(0)
    await publications.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert 0 < len(rig.bodies(1)) < 8
    rig.kill()
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert rig.bodies(1) == list("abcdefgh")


async def test_pieces_that_are_gone_or_of_others_are_refused_by_their_places(
    rig: StagedRig,
) -> None:
    """Nothing of the batch is published, nor begun."""
    good = await rig.stage("a")
    of_other_sink = await rig.stage("b", sink="other")
    of_other_batch = await rig.stage("c", batch=1)
    where = rig.store.append(Record("T", b"plain", queue_id=3))
    cases = [
        ([1 << 40, 100], "is not there any more, or never was"),
        ([good[0] + 4, good[1]], "is not there any more, or never was"),
        ([good[0], good[1] - 1], "is not there any more, or never was"),
        ([good[0], good[1] + 1], "something else is there"),
        ([where.log_offset, where.size], "something else is there"),
        (of_other_sink, "is of batch 0 of sink other, not 0 of sink"),
        (of_other_batch, "is of batch 1 of sink sink, not 0 of sink"),
    ]
    for bad, reason in cases:
        with pytest.raises(RequestError, match=reason) as error:
            await rig.context.publications.publish(SINK, 0, QUERY, [good, bad])
        assert error.value.code == ResponseCode.ILLEGAL_OPERATION
        assert f"at {bad[0]} of the log" in error.value.reason
    assert rig.bodies(1) == []
    assert rig.sinks.find(SINK) is None


async def test_bytes_that_only_look_like_a_piece_are_none(rig: StagedRig) -> None:
    """A record in the body of a message, that says of itself what is true of its place."""
    piece = await rig.stage("a")
    raw = bytearray(rig.store.log.read(*piece))
    size = len(rig.store.log.read(*piece))
    at = rig.store.log.written + 88  # where the body of the next record begins
    raw[28:36] = at.to_bytes(8, "big")
    raw[20:28] = (5).to_bytes(8, "big")
    rig.store.append(Record("T", bytes(raw), queue_id=3))
    with pytest.raises(RequestError, match="something else is there"):
        await rig.context.publications.publish(SINK, 0, QUERY, [[at, size]])


async def test_a_piece_that_the_disk_has_damaged_is_not_published(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [await rig.stage("a"), await rig.stage("b")]
    monkeypatch.setattr(piece_publisher, "masked_crc32", _WrongFrom(1))
    with pytest.raises(RequestError, match=f"at {pieces[1][0]} of the log is damaged"):
        await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert rig.bodies() == ["a"]


class _WrongFrom:
    def __init__(self, good: int) -> None:
        self.good = good

    def __call__(self, data: memoryview) -> int:
        self.good -= 1
        return masked_crc32(data) if self.good >= 0 else 0


async def test_a_topic_or_queue_that_is_gone_is_named_and_can_be_made_again(
    rig: StagedRig,
) -> None:
    pieces = await two_pieces(rig)
    topics, publications = rig.context.topics, rig.context.publications
    topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
    with pytest.raises(RequestError, match="queue 2 of topic T is gone") as few:
        await publications.publish(SINK, 0, QUERY, pieces)
    topics.remove("T")
    with pytest.raises(RequestError, match="topic T is gone") as none:
        await publications.publish(SINK, 0, QUERY, pieces)
    assert (few.value.code, none.value.code) == (
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.TOPIC_NOT_EXIST,
    )
    topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
    await publications.publish(SINK, 0, QUERY, pieces)
    assert (rig.bodies(1), rig.bodies(2)) == (list("abcdefgh"), ["x"])


async def test_slices_fit_the_files_of_the_log(rig: StagedRig) -> None:
    """Some messages are a record each, and all of them far more than a file."""
    pieces = [await rig.stage(*(f"{n}" + "x" * 50_000 for n in range(3))) for _ in range(4)]
    pieces.append(await rig.stage(*("y" * n for n in range(1, 500))))
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert len(rig.bodies(1)) == 12 + 499
    assert rig.store.log.written > 2 * 262_144


async def test_topics_with_several_tags_get_their_mark(rig: StagedRig) -> None:
    pieces = [await rig.stage("a")]
    rig.context.topics.put(
        TopicConfig(
            topic_name="T", read_queue_nums=4, write_queue_nums=4,
            topic_filter_type=TopicFilterType.MULTI_TAG,
        )
    )  # fmt: skip
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert rig.record().sys_flag & MULTI_TAGS


async def test_there_is_a_bound_on_what_is_published_at_a_time(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUBLICATIONS_MAX", 1)
    publications = rig.context.publications
    first = asyncio.create_task(publications.publish("one", 0, QUERY, []))
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="1 batches are being published, the bound"):
        await publications.publish("two", 0, QUERY, [])
    await first


async def test_under_sync_flush_it_waits_for_a_disk_that_is_behind(
    rig: StagedRig, monkeypatch: pytest.MonkeyPatch, short_slices: None
) -> None:
    """What is not on the disk waits in memory, and must not become too much of it."""
    monkeypatch.setattr(piece_publisher, "UNFLUSHED_BYTES_MAX", 0)
    pieces = [await rig.stage(*"abcd")]
    rig.config.flush_disk_type = "SYNC_FLUSH"
    rig.config.sync_flush_timeout = 5_000
    publications = ticking(rig)
    with pytest.raises(RequestError, match="the disk took more than 5000 ms") as error:
        await publications.publish(SINK, 0, QUERY, pieces)
    assert error.value.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert rig.bodies(1) == []
    monkeypatch.setattr(piece_publisher, "UNFLUSHED_BYTES_MAX", 1 << 20)
    await publications.publish(SINK, 0, QUERY, pieces)
    assert rig.bodies(1) == list("abcd")


class StagedDedupRig(StagedRig, DedupRig):
    """Topic T takes each message once."""


async def test_dedup_windows_know_what_was_published_and_leave_none_of_it_out(
    tmp_path: Path,
) -> None:
    """A batch is published once anyway; who sends one of its messages again is told of it."""
    rig = StagedDedupRig(tmp_path)
    rig.fill()
    assert rig.send(properties={"UNIQ_KEY": "Ua"}).code == 0
    pieces = [await rig.stage(*"ab")]
    await rig.context.publications.publish(SINK, 0, QUERY, pieces)
    assert rig.bodies(1) == ["hello", "a", "b"]
    again = rig.send(properties={"UNIQ_KEY": "Ub"})
    assert (again.ext or {})["queueOffset"] == "2"
    assert len(rig.bodies(1)) == 3
    rig.close()


async def test_a_window_that_is_not_ready_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = StagedDedupRig(tmp_path)
    rig.fill()
    pieces = [await rig.stage(*"ab")]
    rig.window.is_ready = False
    monkeypatch.setattr(piece_publisher, "WINDOW_WAIT_S_MAX", 5.0)
    publications = ticking(rig)
    with pytest.raises(RequestError, match="topic T still reads what it took before"):
        await publications.publish(SINK, 0, QUERY, pieces)
    asked = asyncio.create_task(publications.publish(SINK, 0, QUERY, pieces))
    await asyncio.sleep(0)
    rig.window.set_ready()
    await asked
    assert rig.bodies(1) == ["a", "b"]
    rig.close()
