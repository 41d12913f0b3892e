"""Where a new clustering group begins with a queue whose first messages are gone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from integration.client.pull_rig import PullRig, name, queue
from integration.client.push_rig import Heard, hurry, push, send_until
from roketto.client.positions import FromWhere, Positions
from roketto.clock import wall_ms
from roketto.remoting.loop import run
from servers import broker, name_server

TOPIC: Final = "Worn"
COUNT: Final = 200
MIDDLE: Final = 150
"""Sent after a moment in which nothing was."""
BODY_BYTES: Final = 1_000
FILES_GONE: Final = 2
CONFIG: Final = {"mappedFileSizeCommitLog": str(64 * 1024)}


class Worn(NamedTuple):
    """A queue that has lost its beginning, as after retention."""

    names: str
    address: str
    begin_ms: int
    """Before the first message, which is gone."""
    middle_ms: int


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worn]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with name_server(folder) as names:
        with broker(folder, [names.address], CONFIG) as server:
            begin_ms, middle_ms = run(fill(names.address, server.address))
        for path in sorted((folder / "store" / "commitlog").iterdir())[:FILES_GONE]:
            path.unlink()
        with broker(folder, [names.address], CONFIG) as server:
            yield Worn(names.address, server.address, begin_ms, middle_ms)


async def fill(names: str, address: str) -> tuple[int, int]:
    """The times at which it began, and came to the middle."""
    begin_ms = wall_ms() - 1
    async with PullRig(names, address) as rig:
        await rig.topic(name=TOPIC)
        await rig.send(TOPIC, (body_of(number) for number in range(MIDDLE)))
        await asyncio.sleep(0.01)
        middle_ms = wall_ms()
        await asyncio.sleep(0.01)
        await rig.send(TOPIC, (body_of(number) for number in range(MIDDLE, COUNT)))
    return begin_ms, middle_ms


def body_of(number: int) -> str:
    return f"{number}".ljust(BODY_BYTES)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
async def rig(worn: Worn) -> AsyncIterator[PullRig]:
    async with PullRig(worn.names, worn.address) as made:
        yield made


async def first_offset(rig: PullRig) -> int:
    """The first message that is still there: some are gone, and some of the first half are not."""
    found = await Positions(rig.client).min_offset(queue(TOPIC))
    assert 0 < found < MIDDLE
    return found


async def heard_by(
    rig: PullRig, group: str, from_where: FromWhere, from_time_ms: int | None = None
) -> list[int]:
    """The offsets that a member of a group gets while messages come, until it has the newest."""
    heard = Heard()
    sent: list[str] = []
    wanted = {"from_where": from_where, "from_time_ms": from_time_ms}
    async with push(rig, TOPIC, group, listener=heard, **wanted):
        sending = asyncio.create_task(
            send_until(rig, TOPIC, sent, is_enough := asyncio.Event(), queues=1)
        )
        await heard.more(1)
        is_enough.set()
        await sending
        end = await Positions(rig.client).max_offset(queue(TOPIC))
        await heard.until(lambda: len(heard.messages) >= end - heard.messages[0].queue_offset)
    offsets = sorted(message.queue_offset for message in heard.messages)
    assert offsets == list(range(offsets[0], end)), "each once, from where it began to the end"
    return offsets


async def test_the_last_offset_is_behind_all_that_there_is(rig: PullRig) -> None:
    """And the group goes on where it was, whatever its members say later."""
    end = await Positions(rig.client).max_offset(queue(TOPIC))
    group = name()
    offsets = await heard_by(rig, group, FromWhere.LAST)
    assert offsets[0] >= end
    again = await heard_by(rig, group, FromWhere.FIRST)
    assert again[0] == offsets[-1] + 1


async def test_the_first_offset_is_that_of_the_first_message_that_is_left(rig: PullRig) -> None:
    offsets = await heard_by(rig, name(), FromWhere.FIRST)
    assert offsets[0] == await first_offset(rig)


async def test_a_time_is_the_first_message_from_then_on(rig: PullRig, worn: Worn) -> None:
    """A time before all that is left is the first of it; one to come is the end."""
    assert (await heard_by(rig, name(), FromWhere.TIMESTAMP, worn.middle_ms))[0] == MIDDLE
    early = await heard_by(rig, name(), FromWhere.TIMESTAMP, worn.begin_ms)
    assert early[0] == await first_offset(rig)
    end = await Positions(rig.client).max_offset(queue(TOPIC))
    late = await heard_by(rig, name(), FromWhere.TIMESTAMP, wall_ms() + 3_600_000)
    assert late[0] >= end
