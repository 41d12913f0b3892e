"""Messages by key: exactly those with the key and of the time, in steps that are bounded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roketto.broker import lookup as lookup_module
from roketto.broker.lookup import Lookup, Lookups
from roketto.protocol.codes import ResponseCode
from roketto.protocol.errors import RequestError
from roketto.protocol.record import decode_record
from roketto.store.segments import OutsideLogError
from roketto.store.store import Store
from unit.broker.pull_rig import START_MS, PullRig

EVER = (0, 1 << 62)
TWINS = ("Aa", "BB")
"""Keys with one hash in Java."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PullRig]:
    rig = PullRig(tmp_path, index_enable=True)
    yield rig
    rig.close()


def lookup(
    rig: PullRig, key: str, count: int = 64, begin_ms: int = EVER[0], end_ms: int = EVER[1]
) -> Lookup:
    return Lookup(rig.store, "T", key, count, begin_ms, end_ms)


def finish(looking: Lookup, steps_max: int = 1_000) -> list[int]:
    """The queue offsets of what is found."""
    for _ in range(steps_max):
        if looking.step():
            return [decode_record(view).queue_offset for view in looking.views]
    raise AssertionError(f"not done after {steps_max} steps")


def test_keys_and_unique_keys_find_their_messages_oldest_first(rig: PullRig) -> None:
    """A message counts once, whichever of its keys are the same."""
    rig.send(KEYS="k1 k2", UNIQ_KEY="u0")
    rig.send(KEYS="k2  k2", UNIQ_KEY="k2")
    rig.send(topic="U", KEYS="k2")
    assert finish(lookup(rig, "k1")) == [0]
    assert finish(lookup(rig, "k2")) == [0, 1]
    assert finish(lookup(rig, "u0")) == [0]
    assert finish(lookup(rig, "k3")) == []
    assert finish(lookup(rig, "")) == []


def test_keys_of_the_same_hash_do_not_take_each_others_place(rig: PullRig) -> None:
    """Java answers with the two newest of either key, and its client throws these away."""
    rig.send(2, KEYS=TWINS[0])
    rig.send(9, KEYS=TWINS[1])
    assert rig.store.query("T", TWINS[0], 2, *EVER) == rig.store.query("T", TWINS[1], 2, *EVER)
    assert finish(lookup(rig, TWINS[0], 2)) == [0, 1]
    assert finish(lookup(rig, TWINS[1], 2)) == [9, 10]


def test_of_many_the_newest_are_found(rig: PullRig) -> None:
    """As many as were asked for; none if that is none."""
    rig.send(9, KEYS="k")
    assert finish(lookup(rig, "k", 3)) == [6, 7, 8]
    assert finish(lookup(rig, "k", 0)) == []
    assert finish(lookup(rig, "k", -1)) == []


def test_times_count_by_the_millisecond(rig: PullRig) -> None:
    """The index has seconds, counted from its first message."""
    for after_ms in (0, 999, 1_000, 5_500):
        rig.now_ms = START_MS + after_ms
        rig.send(KEYS="k")
    for begin, end, expected in (
        (0, 5_500, [0, 1, 2, 3]),
        (1, 999, [1]),
        (999, 1_000, [1, 2]),
        (500, 998, []),
        (5_500, 5_500, [3]),
        (5_501, 9_000, []),
    ):
        found = lookup(rig, "k", 64, START_MS + begin, START_MS + end)
        assert finish(found) == expected, (begin, end)


def test_what_fits_into_a_frame_is_found(rig: PullRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of it; one message comes whatever its size."""
    rig.send(5, KEYS="k")
    bytes_one = len(_step_all(lookup(rig, "k")).views[0])
    monkeypatch.setattr(lookup_module, "BYTES_MAX", 3 * bytes_one)
    assert finish(lookup(rig, "k")) == [2, 3, 4]
    monkeypatch.setattr(lookup_module, "BYTES_MAX", bytes_one - 1)
    assert finish(lookup(rig, "k")) == [4]


def _step_all(looking: Lookup) -> Lookup:
    finish(looking)
    return looking


def test_messages_that_the_log_has_lost_are_passed_by(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the index outlive those of the log."""
    rig.send(3, KEYS="k")
    looking = lookup(rig, "k")
    real = Store.record_at

    def record_at(store: Store, log_offset: int) -> object:
        if log_offset == 0:
            raise OutsideLogError("gone")
        return real(store, log_offset)

    monkeypatch.setattr(Store, "record_at", record_at)
    assert finish(looking) == [1, 2]


@pytest.mark.parametrize("bound", ["ENTRIES_PER_STEP", "MESSAGES_PER_STEP", "BYTES_PER_STEP"])
def test_each_step_is_bounded(rig: PullRig, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """By entries, by messages that are read, and by bytes."""
    rig.send(20, KEYS="k")
    monkeypatch.setattr(lookup_module, bound, 1 if bound == "BYTES_PER_STEP" else 3)
    looking = lookup(rig, "k")
    assert not looking.step()
    assert len(looking.views) <= 3
    assert finish(looking) == list(range(20))


# --- searches that wait for each other ------------------------------------------------------------


async def test_searches_take_turns_and_let_others_go_on(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other; the loop turns after every step."""
    monkeypatch.setattr(lookup_module, "ENTRIES_PER_STEP", 1)
    rig.send(20, KEYS="k")
    lookups = rig.context.lookups
    searches = [lookup(rig, "k") for _ in range(3)]
    tasks = [asyncio.create_task(lookups.finish(one)) for one in searches]
    turns = 0
    while not all(task.done() for task in tasks):
        turns += 1
        busy = [one for one in searches if 0 < len(one.views) < 20]
        assert len(busy) <= 1, "two at a time"
        await asyncio.sleep(0)
    assert turns >= 60
    assert [len(one.views) for one in searches] == [20, 20, 20]


async def test_too_many_searches_are_refused(rig: PullRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait are finished all the same, and then there is room."""
    monkeypatch.setattr(lookup_module, "ENTRIES_PER_STEP", 1)
    monkeypatch.setattr(lookup_module, "SEARCHES_MAX", 2)
    rig.send(3, KEYS="k")
    lookups = Lookups()
    tasks = [asyncio.create_task(lookups.finish(lookup(rig, "k"))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(RequestError) as refused:
        await lookups.finish(lookup(rig, "k"))
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    await asyncio.gather(*tasks)
    await lookups.finish(lookup(rig, "k"))


@pytest.mark.parametrize("is_found", [True, False])
async def test_a_search_ends_with_the_patience_of_whoever_asks(
    rig: PullRig, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    """What was found by then is the answer; nothing is not, as it may be there."""
    monkeypatch.setattr(lookup_module, "ENTRIES_PER_STEP", 1)
    monkeypatch.setattr(lookup_module, "SEARCH_S_MAX", 2.0)
    rig.send(20, KEYS=TWINS[0])
    looking = lookup(rig, TWINS[0] if is_found else TWINS[1])
    now_s = 0.0

    def tick() -> float:
        nonlocal now_s
        now_s += 1.0
        return now_s

    work = Lookups(tick).finish(looking)
    if is_found:
        await work
        assert 0 < len(looking.views) < 20
    else:
        with pytest.raises(RequestError) as refused:
            await work
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
        assert "narrow the time" in refused.value.reason
