"""A start that fails (F15): one line that says why, a status, no damage, however often it is tried.

Nor can two brokers have one store: the second is refused, and the first goes on.
"""

import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from checker import check
from fault.broker.planted import planted, share_the_store
from fault.broker.producers import Producers
from fault.broker.site import SMALL, Site
from fault.broker.wire import Queue, connected, found_in
from servers import broker_settings, spawn

QUEUES: Final = tuple(Queue("T", number) for number in range(4))
TRIES: Final = 3
END_S: Final = 10.0
"""Who has not ended by then hangs."""
WORK_S: Final = 2.0
"""Processor time that it may take to find out: on an idle machine that is all the time it takes."""


def files_of(root: Path) -> dict[str, bytes]:
    """What every file of a store has in it."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def refused(
    site: Site, port: int, config: dict[str, str], end_s: float = END_S
) -> tuple[str, float]:
    """Start another broker with the store of ``site``; what it says, and its work."""
    folder = site.folder / "other"
    folder.mkdir(exist_ok=True)
    said = folder / f"broker-{port}.log"
    said.unlink(missing_ok=True)
    settings = broker_settings(site.folder, port, {**site.config, **config})
    before_s = children_s()
    starting = spawn(folder, "broker", ["--log-level", "ERROR"], settings, site.program)
    try:
        status = starting.popen.wait(end_s)
        taken_s = children_s() - before_s
    finally:
        starting.popen.kill()
        starting.popen.wait(END_S)
        starting.close()
    lines = said.read_text().splitlines()
    assert status == 1, f"status {status}: {lines}"
    assert len(lines) == 1, lines
    assert lines[0].startswith("mqbroker: "), lines
    return lines[0], taken_s


def children_s() -> float:
    """Processor time of all processes that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


CAUSES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "unknown key": ({"listenPrt": "1"}, "unknown key 'listenPrt'; did you mean listenPort?"),
    "bad value": ({"flushDiskType": "NEVER"}, "flushDiskType"),
    "out of range": ({"mappedFileSizeCommitLog": "-1"}, "mappedFileSizeCommitLog"),
    "other file size": ({"mappedFileSizeCommitLog": "131072"}, "commitlog/0000"),
    "busy port": ({}, "cannot listen on 127.0.0.1:"),
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_start_that_fails_says_why_and_damages_nothing(tmp_path: Path, cause: str) -> None:
    """Three times in a row on a store with messages, which opens afterwards with all of them."""
    config, reason = CAUSES[cause]
    producers = Producers(QUEUES, seed=1)
    taken: list[float] = []
    with Site(tmp_path, SMALL) as site:
        async with producers.sending_to(site.start().address):
            await producers.until_more(100, END_S)
        site.stop()
        before = files_of(site.root)
        with busy_port() if cause == "busy port" else nullcontext(site.port) as port:
            for _ in range(TRIES):
                line, taken_s = refused(site, port, config)
                assert reason in line
                taken.append(taken_s)
        after = files_of(site.root)
        assert after.keys() - before.keys() == set()
        assert {name for name, text in before.items() if after[name] != text} == set()
        async with connected(site.start().address) as connection:
            reads = [await found_in(connection, queue) for queue in QUEUES]
        site.stop()
    check(producers.evidence, reads, faults={cause: TRIES}).raise_if_bad()
    assert max(taken) < WORK_S, taken
    print(f"{cause}: {line}\n{max(taken):.2f} s of processor time at most")


async def run_second_broker(site: Site, end_s: float = END_S) -> Producers:
    """Try to start another broker on the store of one that is at work, three times."""
    producers = Producers(QUEUES, seed=2)
    address = site.start().address
    async with producers.sending_to(address):
        await producers.until_more(50, END_S)
        for _ in range(TRIES):
            line, _ = refused(site, 0, {}, end_s)
            assert "another broker has this store open; stop it first" in line
            await producers.until_more(20, END_S)
    async with connected(address) as connection:
        reads = [await found_in(connection, queue) for queue in QUEUES]
    assert producers.lost == 0
    assert producers.refusals == {}
    check(producers.evidence, reads, faults={"second broker": TRIES}).raise_if_bad()
    return producers


async def test_two_brokers_cannot_have_one_store(tmp_path: Path) -> None:
    """The first goes on serving; once it was killed, another has the store at once."""
    with Site(tmp_path, SMALL) as site:
        producers = await run_second_broker(site)
        site.kill()
        async with connected(site.start().address) as connection:
            reads = [await found_in(connection, queue) for queue in QUEUES]
        check(producers.evidence, reads, faults={"kill -9": 1}).raise_if_bad()
        site.stop()


async def test_a_store_without_a_lock_is_noticed(tmp_path: Path) -> None:
    """Planted: the second broker starts, and does not end."""
    with (
        Site(tmp_path, SMALL, program=planted(share_the_store)) as site,
        pytest.raises(subprocess.TimeoutExpired),
    ):
        await run_second_broker(site, end_s=3.0)
