"""A full disk under a broker (F11): refusals that say so, no false ack, reads and writes go on.

Somebody else takes all the room of the file system, and gives it back, while eight producers send.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from checker import QueueRead, check
from fault.broker.planted import FULL, limit_the_disk, planted, stay_full
from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, found_in
from fault.test_disk_full import mount
from roketto.protocol.codes import ResponseCode

QUEUES: Final = tuple(Queue("T", number) for number in range(3))
NOTICE_S: Final = 30.0
"""A full disk is refused by then, or the fault did not happen."""
RESUME_S: Final = 10.0
CODES: Final = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR)
"""The second, as from Java's broker, for the message that finds no room for the next file."""
REASON: Final = re.compile(
    r"the disk of (\S+) is \d+ % full, 90 % is the bound"
    r"|no room for \d+ bytes of (\S+): \d+ of \d+ bytes are free"
)


class Room:
    """Where a store is, and somebody else who may take all the room there."""

    root: Path
    program: Sequence[str] = ("roketto",)

    def take_all(self) -> None:
        raise NotImplementedError

    def give_back(self) -> None:
        raise NotImplementedError


class RealRoom(Room):
    """A small file system of its own."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "store"
        self._other = directory / "somebody else's"

    def take_all(self) -> None:
        """Write until nothing fits any more: the broker may have taken some of it meanwhile."""
        full = pytest.raises(OSError, match="No space left")
        with self._other.open("wb", buffering=0) as file, full:
            while True:
                file.write(bytes(65_536))
        assert os.statvfs(self._other).f_bavail == 0, "the disk is not full"

    def give_back(self) -> None:
        self._other.unlink()


class ImitatedRoom(Room):
    """For those who may not mount anything: the broker is told that there is no room."""

    program = planted(limit_the_disk)

    def __init__(self, directory: Path) -> None:
        self.root = directory / "store"
        self._flag = directory / FULL

    def take_all(self) -> None:
        self._flag.touch()

    def give_back(self) -> None:
        self._flag.unlink()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    directory = tmp_path / "disk"
    directory.mkdir()
    if not mount(directory):
        yield ImitatedRoom(directory)
        return
    try:
        yield RealRoom(directory)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


async def read_all(address: str, reader: str) -> list[QueueRead]:
    async with connected(address) as connection:
        return [await found_in(connection, queue, reader=reader) for queue in QUEUES]


async def run_fills(
    folder: Path, room: Room, fills: int, program: Sequence[str], resume_s: float = RESUME_S
) -> None:
    config = {
        **SMALL, "storePathRootDir": str(room.root), "cleanFileForciblyEnable": "false",
        "flushDiskType": "SYNC_FLUSH",
    }  # fmt: skip
    producers = Producers(QUEUES, seed=1, pause_s=0.01)
    with Site(folder, config, program=program) as site:
        address = site.start().address
        async with producers.sending_to(address):
            for fill in range(fills):
                await producers.until_more(100, NOTICE_S)
                before = await read_all(address, "before")
                room.take_all()
                await producers.until_refused(20, NOTICE_S)
                for old, new in zip(before, await read_all(address, "while full"), strict=True):
                    assert new.found[: len(old.found)] == old.found, f"{old.queue}: fill {fill}"
                room.give_back()
                await producers.until_more(1, resume_s)
        reads = await read_all(address, "after")
        check(producers.evidence, reads, faults={"full disk": fills}).raise_if_bad()
        site.kill()
        reads = await read_all(site.start().address, "after a kill")
        site.stop()
    report = check(producers.evidence, reads, faults={"full disk": fills, "kill -9": 1})
    report.raise_if_bad()
    reasons = producers.refusals
    assert set(reasons) <= set(CODES), reasons
    for reason in {reason for code in CODES for reason in reasons.get(code, ())}:
        found = REASON.search(reason)
        assert found, reason
        assert (found[1] or found[2]).startswith(str(room.root)), reason
    print(report)


@pytest.mark.timeout(300)
async def test_a_full_disk_is_refused_with_a_reason_and_writes_come_back(
    tmp_path: Path, room: Room
) -> None:
    """Five fills, without a restart."""
    await run_fills(tmp_path, room, 5, room.program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_many_more_fills_of_a_disk(tmp_path: Path, room: Room) -> None:
    """The long tier: 50 fills."""
    await run_fills(tmp_path, room, 50, room.program)


async def test_an_imitated_full_disk_does_the_same(tmp_path: Path) -> None:
    """What stands in where nothing can be mounted."""
    imitated = ImitatedRoom(tmp_path)
    await run_fills(tmp_path, imitated, 1, imitated.program)


async def test_a_broker_that_stays_full_is_noticed(tmp_path: Path) -> None:
    """Planted: it has to be started again."""
    with pytest.raises(TimeoutError):
        await run_fills(tmp_path, ImitatedRoom(tmp_path), 1, planted(stay_full), 3.0)
